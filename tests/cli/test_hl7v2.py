"""HL7 v2 messages in files: proposed, checked, masked, explained, and written back as valid messages."""

from __future__ import annotations

import re

import pytest
import yaml
from golden import examples
from golden.hl7_messages import framed, message
from hl7apy.consts import VALIDATION_LEVEL
from hl7apy.parser import parse_message
from support.file_commands import changed, run
from support.small_configuration import write_secret

MESSAGES = [message(k) + "NTE|1||a note\r" for k in range(60)]
SECRETS = ("Ada", "Dora", "Example Street", "4711", "free text", "Cardiology", "5-470", "INSURER", "CLINIC")


def split(text):
    return [f"MSH{part}" for part in text.split("MSH")[1:]]


@pytest.fixture
def example(tmp_path):
    """A file with the configuration of the example, beside messages and a secret."""
    (tmp_path / "in.hl7").write_text("".join(MESSAGES), newline="")
    content = yaml.safe_load((examples.FOLDER / "hl7v2" / "stream-masker.yaml").read_text())
    write_secret(tmp_path)
    content |= {"calibration": {"min_records": 50}, "secret": {"file": "secret"}}
    (tmp_path / "messages.yaml").write_text(yaml.safe_dump(content))
    return tmp_path / "messages.yaml"


@pytest.mark.parametrize("end", ["\r", "\r\n"])
def test_messages_are_written_as_they_stood_in_the_file(tmp_path, example, end):
    (tmp_path / "in.hl7").write_text("FHS|^~\\&" + end + "".join(message(k, end) for k in range(60)), newline="")
    run("mask", "-c", example, tmp_path / "in.hl7", tmp_path / "out.hl7")
    masked = split((tmp_path / "out.hl7").read_bytes().decode())
    assert len(masked) == 60
    assert {re.sub(r"[^\r\n]+", "", text).replace(end, "x") for text in masked} <= {"x" * 5, "x" * 6, "x" * 7}


def test_the_frames_of_mllp_are_left_out(tmp_path, example):
    (tmp_path / "in.mllp").write_bytes(b"".join(framed(text) for text in MESSAGES))
    run("mask", "-c", example, tmp_path / "in.mllp", tmp_path / "out.hl7")
    written = (tmp_path / "out.hl7").read_bytes().decode()
    assert len(split(written)) == 60
    assert not set(written) & {"\x0b", "\x1c"}


def test_a_configuration_for_other_records_is_named_before_anything_is_rejected(tmp_path, example, config):
    done = run("mask", "-c", config, tmp_path / "in.hl7", tmp_path / "out.hl7", code=1)
    assert "has HL7 v2 messages: use records: hl7v2" in done.stderr
    (tmp_path / "in.jsonl").write_text('{"a": 1}\n')
    done = run("mask", "-c", example, tmp_path / "in.jsonl", tmp_path / "out.hl7", code=1)
    assert "has no HL7 v2 messages" in done.stderr


def test_fields_that_are_kept_with_all_their_components_are_warned_about(tmp_path, example):
    check = ("config", "check", "-c", example, "--events", tmp_path / "in.hl7")
    assert "warning" not in run(*check).output
    with changed(example) as content:
        content["fields"]["keep"] += ["PV1.3"]
    assert re.findall(r"warning: (\S+)", run(*check).output) == ["PV1[*].3[*]"]


def test_the_example_writes_what_it_expects(tmp_path):
    given, expected = (examples.content("hl7v2", file, "hl7") for file in ("events", "expected"))
    assert examples.masked("hl7v2", tmp_path, "hl7") == expected
    assert (tmp_path / "rejected.jsonl").read_bytes() == b""
    assert len(split(expected.decode())) == 300
    assert not any(word in expected.decode() for word in SECRETS)
    before, after = (re.findall(r"DG1\|\d\|\|([A-Z0-9.]+)", text.decode()) for text in (given, expected))
    assert len(before) == len(after) > 300
    assert sum(one != other for one, other in zip(before, after, strict=True)) > 0.4 * len(before)


def test_masked_messages_are_valid_for_another_parser():
    for k, text in enumerate(split(examples.content("hl7v2", "expected", "hl7").decode())[:6]):
        parsed = parse_message(text, validation_level=VALIDATION_LEVEL.TOLERANT, find_groups=False)
        assert parsed.validate()
        assert parsed.msh.msh_10.to_er7() != f"M{k:05}"
        assert parsed.pid.pid_8.to_er7() == "F"
