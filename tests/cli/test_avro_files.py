"""Avro object container files in ``mask``, ``calibrate`` and ``evaluate``, and as events of ``produce``."""

from __future__ import annotations

import datetime
import gzip

import fastavro
import pytest
from support.file_commands import changed, event, read, run

from stream_masker.cli.evaluate import read_dataset
from stream_masker.service.configuration import load_configuration
from stream_masker.service.local.tables import open_events

FIELDS = [
    {"name": "id", "type": "long"},
    {"name": "patient", "type": "string"},
    {"name": "a", "type": "string"},
    {"name": "b", "type": ["null", "string"]},
    {"name": "name", "type": ["null", "string"], "default": None},
    {"name": "day", "type": {"type": "int", "logicalType": "date"}},
]
SCHEMA = {"type": "record", "name": "Event", "fields": FIELDS}
DAY = datetime.date(2021, 3, 4)


@pytest.fixture
def source(tmp_path, config):
    """An Avro file of 120 events with a date that the configuration keeps."""
    with changed(config) as content:
        content["fields"] = {**content["fields"], "keep": ["id", "day"]}
    return written(tmp_path / "in.avro")


def written(path, fields=FIELDS):
    records = [{**event(k), "id": k, "patient": f"patient {k}", "day": DAY} for k in range(120)]
    with path.open("wb") as stream:
        fastavro.writer(stream, {**SCHEMA, "fields": fields}, records, codec="deflate")
    return path


def test_an_avro_file_is_masked_as_an_avro_file_of_the_same_schema(tmp_path, config, source):
    run("mask", "-c", config, source, tmp_path / "out.avro")
    run("mask", "-c", config, source, tmp_path / "out.jsonl")
    with (tmp_path / "out.avro").open("rb") as stream:
        reader = fastavro.reader(stream)
        masked = list(reader)
    assert reader.codec == "deflate"
    assert [field["name"] for field in reader.writer_schema["fields"]] == [field["name"] for field in FIELDS]
    assert [(one["id"], one["day"], one["name"]) for one in masked] == [(k, DAY, None) for k in range(120)]
    lines = read(tmp_path / "out.jsonl")
    assert [(one["patient"], one["a"], one["b"]) for one in masked] == [(o["patient"], o["a"], o["b"]) for o in lines]
    assert all(one["a"] != event(k)["a"] and len(one["patient"]) == 32 for k, one in enumerate(masked))
    assert lines[0]["day"] == "2021-03-04"


def test_a_packed_avro_file_without_a_suffix_is_read(tmp_path, config, source):
    (tmp_path / "events").write_bytes(gzip.compress(source.read_bytes()))
    run("mask", "-c", config, tmp_path / "events", tmp_path / "out.jsonl")
    assert len(read(tmp_path / "out.jsonl")) == 120


def test_calibrate_and_evaluate_read_avro(config, source):
    done = run("calibrate", "-c", config, source)
    assert '"records":50' in done.stdout.replace(" ", "")
    assert read_dataset(load_configuration(config, {}), str(source), 100).whole.size == 100


def test_produce_reads_avro(config, source):
    settings = load_configuration(config, {}).produce.model_copy(update={"key": "patient"})
    with open_events(str(source), settings) as (_, events):
        found = list(events)
    assert [one.key for one in found] == [f"patient {k}".encode() for k in range(120)]


def test_a_masked_record_that_does_not_fit_is_an_error_with_its_field(tmp_path, config, source):
    required = [{**field, "type": "string"} if field["name"] == "name" else field for field in FIELDS]
    required = [{k: v for k, v in field.items() if k != "default"} for field in required]
    written(source, required)
    done = run("mask", "-c", config, source, tmp_path / "out.avro", code=1)
    assert "does not fit the schema of" in done.stderr
    assert "in.avro at name: write a .jsonl file" in done.stderr
    assert not (tmp_path / "out.avro").exists()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"Obj\x01", "cannot be read as Avro"),
        (b"no Avro", "cannot be read as Avro: it does not start like a file of this kind"),
        (None, "cannot be read to its end: it is not a complete Avro file"),
    ],
)
def test_a_damaged_file_is_named(tmp_path, config, source, content, message):
    source.write_bytes(source.read_bytes()[:-20] if content is None else content)
    done = run("mask", "-c", config, source, tmp_path / "out.jsonl", code=1)
    assert message in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "out.jsonl").exists()
