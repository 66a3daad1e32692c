"""The README says what is so: its generated parts, its examples, its commands."""

from __future__ import annotations

import re
import shlex

import orjson
import pytest
import yaml
from click.testing import CliRunner
from support.readme import README, blocks, rewritten

from stream_masker.cli import COMMANDS, main
from stream_masker.pipeline.masker import RecordMasker
from stream_masker.pipeline.records import InputRecord, Masked
from stream_masker.service.configuration import parse_configuration
from stream_masker.service.configuration.build import build_mechanism, build_plan

SECRET = b"a secret of the tests"
EVENTS = ["A flat event", "A nested event", "A FHIR R4 Encounter"]


def test_generated_parts_are_those_of_the_code():
    text = README.read_text()
    assert rewritten(text) == text, "run: python tests/support/readme.py"


@pytest.mark.parametrize("event", EVENTS)
def test_every_example_is_masked_by_its_configuration(event):
    before = orjson.loads(blocks("json", event)[0])
    after = mask(before, (blocks("yaml", event) or blocks("yaml", "Kafka in five minutes"))[0])
    secrets = ["I21.4", "E11.9", "E119", "Ada Example", "4711", "8222157", "401314000", "NSTEMI"]
    told = orjson.dumps(after).decode()
    assert [secret for secret in secrets if secret in told] == []
    assert len(after) >= 3


def mask(event, text):
    """Masks an event by the papers' rounding, which never keeps a code, after calibrating on it and its opposites."""
    configuration = parse_configuration({**yaml.safe_load(text), "mechanism": {"rounding": "ceil"}})
    mechanism = build_mechanism(configuration, SECRET)
    masker = RecordMasker(build_plan(configuration), mechanism, SECRET)
    others = [orjson.dumps(event).replace(b"I21.4", code) for code in (b"J18.9", b"S72.001A", b"C50.911")]
    others += [other.replace(code, b"O80") for other in others for code in (b"E11.9", b"E119")]
    statistics = mechanism.compute(masker.count([orjson.dumps(event), *others]).counts, version=1)
    mechanism.restore(mechanism.snapshot_of(statistics))
    (outcome,) = masker.mask("t", 0, [InputRecord(0, orjson.dumps(event))], statistics_version=1).outcomes
    assert isinstance(outcome, Masked)
    return orjson.loads(outcome.value)


def test_the_python_example_runs(capsys):
    (source,) = blocks("python")
    exec(compile(source, "README.md", "exec"), {})
    assert capsys.readouterr().out.count("\n") == 3


def test_every_command_line_of_the_readme_exists_with_its_options():
    lines = [line for block in blocks("sh") for line in block.splitlines()]
    told = [part.strip() for line in lines for part in re.split(r"&&|\|", line.split("#")[0].rstrip(" &"))]
    ours = [shlex.split(line)[1:] for line in told if line.startswith("stream-masker ")]
    assert {words[0] for words in ours} >= {"demo", "config", "topics", "calibrator", "worker", "simulate"}
    for words in ours:
        name = words[:2] if words[0] in ("config", "ontology") else words[:1]
        shown = CliRunner().invoke(main, [*name, "--help"])
        assert shown.exit_code == 0
        assert all(word in shown.output for word in words if word.startswith("--"))


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_every_command_has_a_help_with_an_example(name):
    shown = CliRunner().invoke(main, [name, "--help"])
    assert shown.exit_code == 0, shown.output
    assert "Example" in shown.output
    assert f"stream-masker {name}" in shown.output


def test_the_two_commands_stand_in_it_as_they_are_run():
    told = blocks("sh", "Two commands")
    assert told == ["pip install . && stream-masker demo --records 20000\n", "pip install '.[test]' && pytest\n"]
