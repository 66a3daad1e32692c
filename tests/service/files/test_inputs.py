"""Input files of events, recognised by their content."""

from __future__ import annotations

import gzip
import io
import json
import sys

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stream_masker.errors import ServiceError
from stream_masker.service.configuration.masking import ProduceSection
from stream_masker.service.files.events import open_events
from stream_masker.service.files.text import json_events

EVENTS = [{"id": k, "text": 'a "quoted" [text], {braces}\n', "list": [[], {}, [1, 2]]} for k in range(3)]
LINES = b"".join(orjson.dumps(event) + b"\n" for event in EVENTS)
TABLE = b"id,a,b\n1,x,y\n2,x,z\n"


def lines_of(path, **settings):
    with open_events(str(path), ProduceSection(**settings)) as source:
        return source.kind, list(source.lines)


def pack(content, packed):
    return gzip.compress(content) if packed else content


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("name", ["a", "a.jsonl", "a.csv", "a.jsonl.gz"])
@pytest.mark.parametrize(
    "content",
    [LINES, b"\xef\xbb\xbf" + LINES, orjson.dumps(EVENTS), json.dumps(EVENTS, indent=2).encode()],
    ids=["lines", "byte order mark", "array", "indented array"],
)
def test_json_is_read_whatever_its_name_and_compression(tmp_path, packed, name, content):
    (tmp_path / name).write_bytes(pack(content, packed))
    kind, found = lines_of(tmp_path / name)
    assert kind == "json"
    assert [orjson.loads(line) for _, line in found] == EVENTS
    assert [number for number, _ in found] == [1, 2, 3]
    assert not any(b"\n" in line for _, line in found)


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize(("delimiter", "name"), [(b",", "a.csv"), (b",", "a"), (b";", "a.txt"), (b"\t", "a.tsv")])
@pytest.mark.parametrize("start", [b"", b"sep=D\r\n", b"\xef\xbb\xbfsep=D\n", b'"sep=D"\r\n'])
def test_tables_are_recognised_with_their_delimiter(tmp_path, packed, delimiter, name, start):
    """Excel names the delimiter in a line before the first one."""
    content = start.replace(b"D", delimiter) + TABLE.replace(b",", delimiter)
    (tmp_path / name).write_bytes(pack(content, packed))
    kind, found = lines_of(tmp_path / name)
    assert kind == "csv"
    rows = [{"id": "1", "a": "x", "b": "y"}, {"id": "2", "a": "x", "b": "z"}]
    assert [orjson.loads(line) for _, line in found] == rows


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"PK\x03\x04....", "is no file of events that can be read: use JSON, JSON lines, CSV, Parquet or HL7 v2"),
        (b"\x28\xb5\x2f\xfd\x00", "is no file of events that can be read"),
        (b"<Bundle/>", "is no file of events that can be read"),
        (b"no event\nnor this\n", "is no file of events that can be read"),
        (b"\x01" + b"\n " * 1_000_000, "is no file of events that can be read"),
        (gzip.compress(LINES)[:-10], "not a complete gzip file"),
        (orjson.dumps(EVENTS)[:-3], "is not one complete JSON document"),
    ],
    ids=["zip", "zstd", "xml", "text", "blank", "torn gzip", "torn array"],
)
def test_other_and_incomplete_files_are_refused(tmp_path, content, message):
    (tmp_path / "a.jsonl").write_bytes(content)
    with pytest.raises(ServiceError, match=message):
        lines_of(tmp_path / "a.jsonl")


def test_standard_input_is_recognised_too(monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(gzip.compress(orjson.dumps(EVENTS)))))
    assert [orjson.loads(line) for _, line in lines_of("-")[1]] == EVENTS


@pytest.mark.parametrize("content", [b"", b'not json, at all\n{"id": 1, "a": 2}\n', b'\x01\n{"id": 1}\n'])
def test_a_text_with_a_json_object_is_lines(tmp_path, content):
    (tmp_path / "a").write_bytes(content)
    kind, found = lines_of(tmp_path / "a")
    assert (kind, [line for _, line in found]) == ("json", content.splitlines())


@pytest.mark.parametrize("packed", [False, True])
def test_a_document_over_several_lines_is_one_event(tmp_path, packed):
    (tmp_path / "a.json").write_bytes(pack(json.dumps(EVENTS[0], indent=2).encode(), packed))
    ((number, line),) = lines_of(tmp_path / "a.json")[1]
    assert (number, orjson.loads(line)) == (1, EVENTS[0])
    assert b"\n" not in line


values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)


@given(st.lists(st.dictionaries(st.text(max_size=3), values, max_size=3), max_size=5), st.sampled_from([None, 1, "\t"]))
def test_the_elements_of_an_array_are_its_events(elements, indent):
    text = json.dumps(elements, indent=indent)
    found = list(json_events(io.BytesIO(text.encode()), text, "a"))
    assert [json.loads(element) for _, element in found] == elements


def test_elements_keep_their_text():
    text = ' [ {"a": 1.50,\r\n "a": 12345678901234567890123} , "\\u00e9" ]\n'
    assert [element for _, element in json_events(io.BytesIO(text.encode()), text, "a")] == [
        b'{"a": 1.50,   "a": 12345678901234567890123}',
        b'"\\u00e9"',
    ]
