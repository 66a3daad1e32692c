"""What the README says of its own configuration, on the events that its commands generate, and of real diagnoses."""

from __future__ import annotations

import numpy as np
import orjson
import pytest
import yaml
from click.testing import CliRunner
from support.documentation import ROOT, blocks
from support.small_configuration import write_secret

from stream_masker import Ontology
from stream_masker.cli import main
from stream_masker.core.arrays import offsets_from_lengths
from stream_masker.core.batch import Batch, Column

RECORDS = 5_000
TAU = Ontology.load("icd10cm").taxonomy()


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The configuration of the README with a secret, and generated events."""
    path = tmp_path_factory.mktemp("readme")
    (shown,) = blocks("yaml", "Kafka in five minutes", "README.md")
    write_secret(path, content=b"a secret of the tests for README")
    (path / "stream-masker.yaml").write_text(shown.text)
    noise = (
        {"mechanism": {"name": "semantic_noise"}},
        {"mechanism": {"name": "semantic_noise", "rounding": "calibrated"}},
    )
    for name, section in zip(("noise", "calibrated"), noise, strict=True):
        (path / f"{name}.yaml").write_text(yaml.safe_dump(yaml.safe_load(shown.text) | section))
    command(path, "produce", "--synthetic", str(RECORDS), "--seed", "1", "--out", "events.jsonl")
    return path


def command(folder, *arguments):
    """Run a command in the folder and return what it says."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        done = CliRunner().invoke(main, list(arguments), prog_name="stream-masker")
    assert done.exit_code == 0, done.output
    return done.stderr


def masked(folder, configuration):
    """Return what the command says, and the events before and after masking."""
    said = command(folder, "mask", "--config", configuration, "events.jsonl", "masked.jsonl")
    return said, *(events(folder / name) for name in ("events.jsonl", "masked.jsonl"))


def events(path):
    """Return the codes of a file's events: the principal ones, and the secondary ones as an array."""
    diagnoses = [orjson.loads(line)["diagnoses"] for line in path.read_bytes().splitlines()]
    lengths = np.array([len(each["secondary"]) for each in diagnoses])
    principal = TAU.encode([each["principal"]["code"] for each in diagnoses])
    secondary = TAU.encode([one["code"] for each in diagnoses for one in each["secondary"]])
    return Batch(lengths.size, (Column(principal), Column(secondary, offsets_from_lengths(lengths))))


def unchanged(before, after):
    pairs = zip(before.columns, after.columns, strict=True)
    return np.mean(np.concatenate([one.codes == other.codes for one, other in pairs]))


@pytest.mark.exhaustive
def test_most_codes_stay_with_the_calibrated_rounding(folder):
    _, before, after = masked(folder, "calibrated.yaml")
    text = " ".join((ROOT / "docs" / "methods" / "semantic-noise.md").read_text().split())
    assert "82 % of the codes of the generated events" in text
    assert unchanged(before, after) == pytest.approx(0.82, abs=0.02)


def test_the_table_of_the_python_page_changes_as_it_says():
    (block,) = [block.text for block in blocks("python", "Tables") if "changed =" in block.text]
    names = {}
    exec(block, names)
    text = " ".join((ROOT / "docs" / "python-api.md").read_text().split())
    assert f"In this example {100 * names['changed']:.0f} % of the principal diagnoses change." in text
