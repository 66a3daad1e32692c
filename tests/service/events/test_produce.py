"""Publishing of events, with librdkafka's mock broker and with failing producers."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path

import orjson
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from kafka_records import mock_broker, read_all
from support.small_configuration import small_configuration

from stream_masker.errors import ServiceError
from stream_masker.service.configuration import Configuration, parse_configuration
from stream_masker.service.events.files import FileEvent, MalformedLine
from stream_masker.service.events.publishing import MAX_REPORTED_LINES, MalformedLineFilter, produce


def configured(bootstrap: str, **sections: object) -> Configuration:
    kept = {"mechanism": {"reference": "mean"}, "fields": {"unlisted": "keep"}}
    return parse_configuration(
        small_configuration("principal", kafka={"bootstrap_servers": bootstrap}, **{**kept, **sections})
    )


def test_events_of_a_file_are_published_with_keys(tmp_path: Path) -> None:
    file, stream = tmp_path / "events.csv", io.StringIO()
    file.write_text("id,principal\n1,A00\n2\n3,?\n")
    with mock_broker() as bootstrap:
        configuration = configured(bootstrap, produce={"key": "id", "null_values": ["?"]})
        summary = produce(configuration, file, stream=stream)
        records = read_all(bootstrap, "discharges")
    assert sorted((r.key, r.value) for r in records) == [(b"1", b'{"id":"1","principal":"A00"}'), (b"3", b'{"id":"3"}')]
    assert (summary.delivered, summary.malformed, summary.complete) == (2, 1, True)
    assert stream.getvalue() == "events.csv, event 2: its cells do not fit the header\n"


EVENTS = [{"id": k, "principal": "A00"} for k in range(5)]


def array(file: Path) -> None:
    file.write_bytes(orjson.dumps(EVENTS))


def parquet(file: Path) -> None:
    pq.write_table(pa.Table.from_pylist(EVENTS), file)


@pytest.mark.parametrize("write", [array, parquet])
def test_other_formats_are_published_too(tmp_path: Path, write: Callable[[Path], None]) -> None:
    write(tmp_path / "events")
    with mock_broker() as bootstrap:
        produce(configured(bootstrap, produce={"key": "id"}), tmp_path / "events", stream=io.StringIO())
        records = read_all(bootstrap, "discharges")
    assert sorted((r.key, r.json) for r in records) == [(str(e["id"]).encode(), e) for e in EVENTS]


def test_records_with_equal_keys_stay_in_order(tmp_path: Path) -> None:
    file = tmp_path / "events.jsonl"
    file.write_text("".join(f'{{"id": "{i % 7}", "n": {i}}}\n' for i in range(2_000)))
    with mock_broker() as bootstrap:
        produce(configured(bootstrap, produce={"key": "id"}), file, stream=io.StringIO())
        records = read_all(bootstrap, "discharges")
    assert len(records) == 2_000
    for key in {r.key for r in records}:
        numbers = [r.json["n"] for r in records if r.key == key]
        assert numbers == sorted(numbers)


def test_limit_ends_the_run(tmp_path: Path) -> None:
    file = tmp_path / "events.jsonl"
    file.write_text('{"n": 1}\n' * 10)
    with mock_broker() as bootstrap:
        assert produce(configured(bootstrap), file, stream=io.StringIO(), limit=4).delivered == 4


def test_strict_stops_at_the_first_malformed_line(tmp_path: Path) -> None:
    file = tmp_path / "events.jsonl"
    file.write_text('{"n": 1}\nno\n{"n": 2}\n')
    with mock_broker() as bootstrap:
        with pytest.raises(ServiceError, match=r"events\.jsonl, event 2"):
            produce(configured(bootstrap), file, stream=io.StringIO(), strict=True)
        assert [r.json["n"] for r in read_all(bootstrap, "discharges")] == [1]


def test_reports_of_malformed_lines_are_limited() -> None:
    reports: list[str] = []
    line_filter = MalformedLineFilter(name="f", strict=False, report=reports.append)
    assert list(line_filter.events([MalformedLine(i, "not JSON") for i in range(50)] + [FileEvent(b"{}")])) == [
        FileEvent(b"{}")
    ]
    assert line_filter.malformed == 50
    assert len(reports) == MAX_REPORTED_LINES + 1
