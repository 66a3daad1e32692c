"""Every format of files: all give the same result as JSON lines."""

from __future__ import annotations

import csv
import gzip
import io

import orjson
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.file_commands import changed, event, read, run, write_configuration

from stream_masker.service.configuration.masking import CsvSection
from stream_masker.service.files.events import open_events


def csv_table(events):
    text = io.StringIO()
    rows = csv.DictWriter(text, events[0], lineterminator="\n")
    rows.writeheader()
    rows.writerows(events)
    return text.getvalue().encode()


def parquet(events):
    stream = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(events), stream)
    return stream.getvalue()


FORMATS = {
    ".jsonl": lambda events: b"".join(orjson.dumps(event) + b"\n" for event in events),
    ".json": lambda events: orjson.dumps(events, option=orjson.OPT_INDENT_2),
    ".csv": csv_table,
    ".parquet": parquet,
}
"""The function that writes events, by the suffix of the format."""

EVENTS = [event(k) | {"id": str(k)} for k in range(1, 121)]


@pytest.fixture(scope="module")
def here(tmp_path_factory):
    """A folder with a configuration, and the events as ``in`` with every suffix."""
    folder = tmp_path_factory.mktemp("formats")
    config = write_configuration(folder)
    with changed(config) as content:
        content["noise_key"] = "patient"
    for form, write in FORMATS.items():
        (folder / f"in{form}").write_bytes(write(EVENTS))
        (folder / f"in{form}.gz").write_bytes(gzip.compress(write(EVENTS)))
    run("mask", "-c", config, folder / "in.jsonl", folder / "expected.jsonl")
    return folder


@pytest.mark.parametrize("suffix", [*FORMATS, ".jsonl.gz"])
def test_mask(here, suffix):
    run("mask", "-c", here / "stream-masker.yaml", here / f"in{suffix}", here / "out.jsonl")
    masked = read(here / "out.jsonl")
    assert masked == read(here / "expected.jsonl")
    assert [one["id"] for one in masked] == [one["id"] for one in EVENTS]
    assert all("name" not in one and len(one["patient"]) == 32 for one in masked)


@pytest.mark.parametrize("suffix", [".csv.gz", ".parquet"])
def test_mask_to_the_same_format(here, suffix):
    run("mask", "-c", here / "stream-masker.yaml", here / f"in{suffix}", here / f"out{suffix}")
    with open_events(str(here / f"out{suffix}"), CsvSection()) as source:
        masked = [orjson.loads(event.value) for event in source.events]
    assert source.table is not None
    assert masked == read(here / "expected.jsonl")


@pytest.mark.parametrize(("source", "suffix"), [("in.csv", ".xlsx"), ("in.csv", ".parquet"), ("in.jsonl", ".csv.gz")])
def test_another_suffix_is_one_error_that_names_those_that_fit(here, source, suffix):
    done = run("mask", "-c", here / "stream-masker.yaml", here / source, here / f"other{suffix}", code=1)
    kind, fitting = (
        ("csv", ".json, .jsonl, .ndjson, .csv, .tsv") if "csv" in source else ("json", ".json, .jsonl, .ndjson")
    )
    assert done.stderr.splitlines()[-1].endswith(
        f"{kind} events are not written to files {suffix.removesuffix('.gz')}: use {fitting}"
    )
    assert not (here / f"other{suffix}").exists()
