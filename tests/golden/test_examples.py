"""The folder ``examples``: its events and configurations are those of the pages, and its masks those of the command."""

from __future__ import annotations

import orjson
import pytest
import yaml

from golden import examples

STRUCTURED = sorted(examples.HEADINGS.keys() - {"debezium", "nested"})
UPDATE = "PYTHONPATH=tests python -m golden update writes the expected files again"


@pytest.mark.usefixtures("no_comparison")
@pytest.mark.parametrize(
    "name", ["debezium", *(pytest.param(name, marks=pytest.mark.exhaustive) for name in STRUCTURED)]
)
def test_the_command_writes_what_the_example_expects(tmp_path, name):
    """The commands of the README do the same with the nested events."""
    assert examples.masked(name, tmp_path) == examples.content(name, "expected"), UPDATE
    assert (tmp_path / "rejected.jsonl").read_bytes() == b""


@pytest.mark.parametrize("name", examples.HEADINGS)
def test_the_example_is_that_of_the_documentation(name):
    given = yaml.safe_load((examples.FOLDER / name / "stream-masker.yaml").read_text())
    assert given == examples.documented_configuration(name), UPDATE
    events, expected = (examples.content(name, file) for file in ("events", "expected"))
    assert orjson.loads(events.partition(b"\n")[0]) == examples.documented_event(name), UPDATE
    assert events.count(b"\n") == expected.count(b"\n") >= 300
