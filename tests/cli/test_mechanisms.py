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


def configure(folder, name, **sections):
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
        **sections,
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


@pytest.mark.parametrize(
    ("mechanism", "expected"),
    [
        (
            {"name": "microaggregation", "k": 60},
            "groups.records: 50 is too small: microaggregation needs at least 60",
        ),
        ({"name": "microaggregation", "k": 10**9}, "mechanism: k="),
        ({"name": "vicus", "k1": 0.5}, "mechanism.k1: 0.5 is not allowed: use a number of at least 1"),
        ({"name": "rank_swapping", "k": {"smell": 2, "taste": 3}}, "mechanism.k: a mapping of 2 is not allowed"),
    ],
)
def test_invalid_parameters_fail_at_the_check(mechanism, expected, folder):
    configure(folder, mechanism["name"], mechanism=mechanism)
    done = CliRunner().invoke(main, ["config", "check"], prog_name="stream-masker")
    assert done.exit_code == 2
    assert expected in done.output
