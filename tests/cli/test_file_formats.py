"""Every format of files in every command that reads events, and compressed in some: all give the same result."""

from __future__ import annotations

import json
from pathlib import Path

import orjson
import pytest
import yaml
from support.event_files import COMPRESSIONS, FORMATS
from support.file_commands import changed, event, read, run, write_configuration
from support.kafka_records import mock_broker, read_all

from stream_masker.service.configuration import load_configuration
from stream_masker.service.files.events import open_events

EVENTS = [event(k) for k in range(1, 121)]
SUFFIXES = [form + packed for form in FORMATS for packed in COMPRESSIONS]
TABLES = [suffix for suffix in SUFFIXES if not suffix.startswith(".json")]


@pytest.fixture(scope="module")
def broker():
    with mock_broker() as bootstrap:
        yield bootstrap


@pytest.fixture(scope="module")
def here(tmp_path_factory, broker):
    """A folder with a configuration, and the events as ``in`` with every suffix."""
    folder = tmp_path_factory.mktemp("formats")
    config = write_configuration(folder)
    with changed(config) as content:
        content["noise_key"] = "patient"
        content["kafka"] = {"bootstrap_servers": broker}
        content["produce"] = {"numbers": ["id"], "key": "patient"}
    for form, write in FORMATS.items():
        for packed, compress in COMPRESSIONS.items():
            (folder / f"in{form}{packed}").write_bytes(compress(write(EVENTS)))
    run("mask", "-c", config, folder / "in.jsonl", folder / "expected.jsonl")
    return folder


def config_of(here: Path) -> Path:
    return here / "stream-masker.yaml"


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_mask(here, suffix):
    run("mask", "-c", config_of(here), here / f"in{suffix}", here / "out.jsonl")
    masked = read(here / "out.jsonl")
    assert masked == read(here / "expected.jsonl")
    assert [one["id"] for one in masked] == [one["id"] for one in EVENTS]
    assert all("name" not in one and len(one["patient"]) == 32 for one in masked)


@pytest.mark.parametrize("suffix", TABLES)
def test_mask_to_the_same_format(here, suffix):
    target = here / f"out{suffix}"
    run("mask", "-c", config_of(here), here / f"in{suffix}", target)
    with open_events(str(target), load_configuration(config_of(here)).produce) as source:
        masked = [orjson.loads(line) for _, line in source.lines]
    assert source.table is not None
    assert [{key: value for key, value in one.items() if value is not None} for one in masked] == read(
        here / "expected.jsonl"
    )


def snapshot(here, suffix):
    found = orjson.loads(run("calibrate", "-c", config_of(here), here / f"in{suffix}").stdout)
    return {key: value for key, value in found.items() if key != "published"}


@pytest.fixture(scope="module")
def expected_snapshot(here):
    return snapshot(here, ".jsonl")


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_calibrate(here, expected_snapshot, suffix):
    assert snapshot(here, suffix) == expected_snapshot
    assert expected_snapshot["snapshot"]["statistics"]["records"] == 50


def measures(here, suffix):
    options = (
        "--mechanisms",
        "naive_distortion",
        "--alpha",
        "0.3",
        "--repeats",
        "2",
        "--processes",
        "1",
        "--records",
        "60",
    )
    outputs = ("--json", "-o", here / "report.html")
    return json.loads(run("evaluate", "-c", config_of(here), *options, *outputs, here / f"in{suffix}").stdout)


@pytest.fixture(scope="module")
def expected_measures(here):
    return measures(here, ".jsonl")


@pytest.mark.parametrize("suffix", FORMATS)
def test_evaluate(here, expected_measures, suffix):
    assert measures(here, suffix) == expected_measures


@pytest.mark.parametrize("suffix", FORMATS)
def test_produce(here, broker, suffix):
    topic = f"events{suffix}"
    run("produce", "-c", config_of(here), here / f"in{suffix}", env={"STREAM_MASKER__TOPICS__INPUT": topic})
    found = read_all(broker, topic)
    assert sorted((one.json["id"], one.key) for one in found) == [
        (one["id"], one["patient"].encode()) for one in EVENTS
    ]
    assert sorted((one.json for one in found), key=lambda one: one["id"]) == EVENTS


@pytest.mark.parametrize("suffix", FORMATS)
def test_config_check(here, suffix):
    shown = run("config", "check", "-c", config_of(here), "--events", here / f"in{suffix}").stdout
    assert shown == run("config", "check", "-c", config_of(here), "--events", here / "in.jsonl").stdout


@pytest.mark.parametrize("suffix", FORMATS)
def test_config_init(here, suffix):
    options = ("--ontology", f"tree={here / 'tree.csv'}")
    proposed = yaml.safe_load(run("config", "init", "--events", here / f"in{suffix}", *options).stdout)
    assert "produce" not in proposed
    assert proposed == yaml.safe_load(run("config", "init", "--events", here / "in.jsonl", *options).stdout)
    assert list(proposed["attributes"]) == ["a", "b"]
