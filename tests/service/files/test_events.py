"""Reading of events from files, which are recognised by their content."""

from __future__ import annotations

import gzip
import io
import json
import sys

import orjson
import pytest

from stream_masker.errors import ServiceError
from stream_masker.service.configuration.masking import CsvSection
from stream_masker.service.files.events import open_events

EVENTS = [{"id": k, "text": 'a "quoted" [text], {braces}\n', "list": [[], {}, [1, 2]]} for k in range(3)]
LINES = b"".join(orjson.dumps(event) + b"\n" for event in EVENTS)
TABLE = b"id,a,b\n1,x,y\n2,x,z\n"
TABLE_EVENTS = [{"id": "1", "a": "x", "b": "y"}, {"id": "2", "a": "x", "b": "z"}]


def read(path, content, **settings):
    """Write a file; return its kind and its events."""
    path.write_bytes(content)
    with open_events(str(path), CsvSection(**settings)) as source:
        return source.kind, list(source.events)


KINDS = {
    "lines": ("json", LINES, EVENTS),
    "lines with a byte order mark": ("json", b"\xef\xbb\xbf" + LINES, EVENTS),
    "array": ("json", orjson.dumps(EVENTS), EVENTS),
    "indented array": ("json", json.dumps(EVENTS, indent=2).encode(), EVENTS),
    "array of nothing": ("json", b" [ ]\n", []),
    "indented document": ("json", json.dumps(EVENTS[0], indent=2).encode(), EVENTS[:1]),
    "commas": ("csv", TABLE, TABLE_EVENTS),
    "semicolons": ("csv", TABLE.replace(b",", b";"), TABLE_EVENTS),
    "tabs": ("csv", TABLE.replace(b",", b"\t"), TABLE_EVENTS),
}


@pytest.mark.parametrize("case", KINDS)
@pytest.mark.parametrize("packed", [False, True])
def test_files_are_recognised_whatever_their_name_and_compression(tmp_path, case, packed):
    kind, content, expected = KINDS[case]
    found, events = read(tmp_path / "a", gzip.compress(content) if packed else content)
    assert found == kind
    assert [orjson.loads(event.value) for event in events] == expected
    assert [event.number for event in events] == list(range(1, len(expected) + 1))
    assert not any(b"\n" in event.value for event in events)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"PK\x03\x04....", "is no file of events that can be read: use JSON, JSON lines, CSV, Parquet or HL7 v2"),
        (b"<Bundle/>", "is no file of events that can be read"),
        (b"Obj\x01\x04\x14avro.codec", "is no file of events that can be read"),
        ('{"a": 1}\n'.encode("utf-16"), "is in UTF-16, which only tables may be"),
        (b"no event\nnor this\n", "is no file of events that can be read"),
        (gzip.compress(LINES)[:-10], "not a complete gzip file"),
        (orjson.dumps(EVENTS)[:-3], "is not one complete JSON document"),
        (b"", None),
    ],
    ids=["zip", "xml", "avro", "utf-16", "text", "torn gzip", "torn array", "nothing"],
)
def test_other_and_incomplete_files_are_refused(tmp_path, content, message):
    if message is None:
        assert read(tmp_path / "a.jsonl", content) == ("json", [])
        return
    with pytest.raises(ServiceError, match=message):
        read(tmp_path / "a.jsonl", content)
    with pytest.raises(ServiceError, match="No such file"), open_events(str(tmp_path / "b"), CsvSection()):
        pass


def test_standard_input_is_recognised_too(monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(gzip.compress(orjson.dumps(EVENTS)))))
    with open_events("-", CsvSection()) as source:
        assert [orjson.loads(event.value) for event in source.events] == EVENTS


def test_lines_stay_as_they_are_without_blank_ones(tmp_path):
    content = b'{"b": 1.0,  "a": {"id": 5}}\n\n{"a": {}, "a": {"id": "x"}}\r\n{"a": \n"\xff"\n'
    _, events = read(tmp_path / "a.jsonl", content)
    assert [event[:2] for event in events] == [
        (1, b'{"b": 1.0,  "a": {"id": 5}}'),
        (3, b'{"a": {}, "a": {"id": "x"}}'),
        (4, b'{"a": '),
        (5, b'"\xff"'),
    ]
