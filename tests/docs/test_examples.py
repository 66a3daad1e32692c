"""The folder ``examples``: every command runs, and writes what the folder expects."""

from __future__ import annotations

import gzip

import orjson
import pytest
import yaml
from support import examples

STRUCTURED = sorted(examples.HEADINGS.keys() - {"debezium", "nested"})
UPDATE = "PYTHONPATH=tests python -m support.examples writes the expected files again"


@pytest.mark.parametrize(
    "name", ["debezium", *(pytest.param(name, marks=pytest.mark.exhaustive) for name in STRUCTURED)]
)
def test_the_command_writes_what_the_example_expects(tmp_path, name):
    """The commands of the README do the same with the nested events."""
    expected = gzip.decompress((examples.FOLDER / name / "expected.jsonl.gz").read_bytes())
    assert expected.count(b"\n") == examples.RECORDS[name]
    assert examples.masked(name, tmp_path) == expected, UPDATE
    assert (tmp_path / "rejected.jsonl").read_bytes() == b""


@pytest.mark.parametrize("name", examples.HEADINGS)
def test_the_example_is_that_of_the_documentation(name):
    content = yaml.safe_load((examples.FOLDER / name / "stream-masker.yaml").read_text())
    documented = examples.documented_configuration(name)
    assert {**content, "secret": None} == {**documented, "secret": None}, UPDATE
    first = gzip.decompress((examples.FOLDER / name / "events.jsonl.gz").read_bytes()).partition(b"\n")[0]
    assert orjson.loads(first) == examples.documented_event(name), UPDATE
