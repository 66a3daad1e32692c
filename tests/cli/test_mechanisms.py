"""Every mechanism on files."""

from __future__ import annotations

import random

import orjson
import pytest
import yaml
from click.testing import CliRunner
from support.small_configuration import write_secret

from stream_masker.cli import main
from stream_masker.core.mechanisms import MECHANISMS

VALUES = ["almond", "anise", "creosote", "fishy", "foul", "musty", "none", "pungent"]
GROUP, RECORDS = 50, 320
"""The last group has 20 records."""


def event(number: int) -> bytes:
    rng = random.Random(number)
    smell, taste = rng.choice(VALUES), rng.choice(VALUES)
    return orjson.dumps(
        {"id": number, "smell": smell, "tastes": [taste, smell], "age": rng.randrange(100), "free": "x"}
    )


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_secret(tmp_path, content=bytes(16))
    (tmp_path / "events.jsonl").write_bytes(b"\n".join(map(event, range(RECORDS))))
    return tmp_path


def configure(folder, name):
    attributes = {
        "smell": {"path": "smell", "ontology": "flat"},
        "taste": {"path": "tastes[*]", "ontology": "flat"},
    }
    content = {
        "ontologies": {"flat": {"source": "flat.csv"}},
        "attributes": attributes,
        "fields": {"keep": ["id"], "unlisted": "drop"},
        "noise_key": "position",
        "mechanism": {"name": name},
        "calibration": {"min_records": 100},
        "groups": {"records": GROUP},
        "secret": {"file": "secret"},
    }
    (folder / "flat.csv").write_text(
        "\n".join(["concept,parent", "any flat,", *(f"{one},any flat" for one in VALUES), ""])
    )
    (folder / "stream-masker.yaml").write_text(yaml.safe_dump(content, sort_keys=False))
    return attributes


def run(*arguments: str):
    done = CliRunner().invoke(main, arguments, prog_name="stream-masker")
    assert done.exit_code == 0, done.output
    return done


@pytest.mark.usefixtures("few_groups")
@pytest.mark.exhaustive
@pytest.mark.parametrize("name", MECHANISMS)
def test_check_calibrate_and_mask(name, folder):
    attributes = configure(folder, name)
    assert "valid" in run("config", "check").output
    run("calibrate", "events.jsonl", "-o", "snapshot.json")
    expected = run("mask", "--statistics", "snapshot.json", "events.jsonl", "masked.jsonl").stderr
    assert f"masked {RECORDS}, rejected 0, by statistics version 1" in expected
    masked = [orjson.loads(line) for line in (folder / "masked.jsonl").read_bytes().splitlines()]
    assert [event["id"] for event in masked] == list(range(RECORDS))
    assert {frozenset(event) for event in masked} == {frozenset({"id", "smell", "tastes", *attributes} - {"taste"})}
    for before, after in zip(map(event, range(RECORDS)), masked, strict=True):
        assert {after["smell"], *after["tastes"]} <= {*VALUES, "any flat"}
        assert len(after["tastes"]) == len(orjson.loads(before)["tastes"])
