"""What the README says of its own configuration, on the events that its commands generate, and of real diagnoses."""

from __future__ import annotations

import orjson
import pytest
import yaml
from click.testing import CliRunner
from support.documentation import ROOT, blocks

from stream_masker.cli import main

RECORDS = 5_000


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The configuration of the README with a secret, and generated events."""
    path = tmp_path_factory.mktemp("readme")
    (shown,) = blocks("yaml", "Kafka in five minutes", "README.md")
    (path / "secret").write_bytes(b"a secret of the tests for README")
    (path / "secret").chmod(0o600)
    (path / "stream-masker.yaml").write_text(shown.text)
    rounded = yaml.safe_load(shown.text) | {"mechanism": {"name": "semantic_noise", "rounding": "calibrated"}}
    (path / "calibrated.yaml").write_text(yaml.safe_dump(rounded))
    command(path, "simulate", "--records", str(RECORDS), "--seed", "1", "--out", "events.jsonl")
    return path


def command(folder, *arguments):
    """Run a command in the folder and return what it says."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        done = CliRunner().invoke(main, list(arguments), prog_name="stream-masker")
    assert done.exit_code == 0, done.output
    return done.stderr


def codes(line):
    diagnoses = orjson.loads(line)["diagnoses"]
    return [diagnoses["principal"]["code"], *(each["code"] for each in diagnoses["secondary"])]


def unchanged(folder, configuration):
    """Return what the command says, and the share of codes that stay."""
    said = command(folder, "mask", "--config", configuration, "events.jsonl", "masked.jsonl")
    lines = [(folder / name).read_bytes().splitlines() for name in ("events.jsonl", "masked.jsonl")]
    events = zip(*lines, strict=True)
    pairs = [pair for before, after in events for pair in zip(codes(before), codes(after), strict=True)]
    return said, sum(before == after for before, after in pairs) / len(pairs)


@pytest.mark.exhaustive
def test_every_code_of_the_configuration_changes(folder):
    said, share = unchanged(folder, "stream-masker.yaml")
    assert "mechanism: semantic_noise" in said
    assert share == 0.0
    assert "| codes that stay as they are | none (`rounding: ceil`) |" in (ROOT / "README.md").read_text()


@pytest.mark.exhaustive
def test_most_codes_stay_with_the_calibrated_rounding(folder):
    _, share = unchanged(folder, "calibrated.yaml")
    text = " ".join((ROOT / "docs" / "choosing-a-method.md").read_text().split())
    assert "82 % of the codes of the generated events" in text
    assert share == pytest.approx(0.82, abs=0.02)


def test_the_table_of_the_python_page_changes_as_it_says():
    (block,) = [block.text for block in blocks("python", "Tables") if "changed =" in block.text]
    names = {}
    exec(block, names)
    text = " ".join((ROOT / "docs" / "python-api.md").read_text().split())
    assert f"In this example {100 * names['changed']:.0f} % of the principal diagnoses change." in text
