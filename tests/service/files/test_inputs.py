"""Input files of events, recognised by their content."""

from __future__ import annotations

import gzip
import io
import json
import sys

import cramjam
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stream_masker.errors import ServiceError
from stream_masker.service.files.inputs import kind_of, open_input
from stream_masker.service.files.lines import array_elements, numbered_lines

EVENTS = [{"id": k, "text": 'a "quoted" [text], {braces}\n', "list": [[], {}, [1, 2]]} for k in range(3)]
LINES = b"".join(orjson.dumps(event) + b"\n" for event in EVENTS)
TABLE = b"id,a,b\n1,x,y\n2,x,z\n"


def pack(content, packed):
    if packed == "gzip":
        return gzip.compress(content)
    return bytes(cramjam.zstd.compress(content)) if packed == "zstd" else content


@pytest.mark.parametrize("packed", ["", "gzip", "zstd"])
@pytest.mark.parametrize("name", ["a", "a.jsonl", "a.json", "a.csv", "a.txt", "a.jsonl.gz"])
@pytest.mark.parametrize(
    "content",
    [LINES, b"\xef\xbb\xbf" + LINES, orjson.dumps(EVENTS), json.dumps(EVENTS, indent=2).encode()],
    ids=["lines", "byte order mark", "array", "indented array"],
)
def test_json_is_read_whatever_its_name_and_compression(tmp_path, packed, name, content):
    (tmp_path / name).write_bytes(pack(content, packed))
    with open_input(str(tmp_path / name)) as file:
        found = list(numbered_lines(file))
    assert [orjson.loads(line) for _, line in found] == EVENTS
    assert [number for number, _ in found] == [1, 2, 3]
    assert not any(b"\n" in line for _, line in found)


@pytest.mark.parametrize("packed", ["", "gzip", "zstd"])
@pytest.mark.parametrize(("delimiter", "name"), [(b",", "a.csv"), (b",", "a"), (b";", "a.txt"), (b"\t", "a.tsv")])
def test_tables_are_recognised_with_their_delimiter(tmp_path, packed, delimiter, name):
    (tmp_path / name).write_bytes(pack(TABLE.replace(b",", delimiter), packed))
    with open_input(str(tmp_path / name)) as file:
        assert (file.kind, file.delimiter) == ("csv", delimiter.decode())


@pytest.mark.parametrize("start", [b"sep=;\r\n", b"\xef\xbb\xbfsep=;\n", b'"sep=;"\r\n'])
def test_the_line_in_which_excel_names_the_delimiter_is_no_row(tmp_path, start):
    (tmp_path / "a.csv").write_bytes(start + TABLE)
    with open_input(str(tmp_path / "a.csv")) as file:
        assert (file.kind, file.delimiter, file.stream.read()) == ("csv", ";", TABLE)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (
            b"PK\x03\x04....",
            "is a zip archive: use JSON, JSON lines, CSV, Parquet, Avro, Protobuf or HL7 v2",
        ),
        (b"BZh91AY", "is compressed with bzip2"),
        (b"<Bundle/>", "is XML or HTML"),
        ("id;a".encode("utf-16"), "is text in UTF-16"),
        (b"no event\nnor this\n", "is text without columns, and no line of it is a JSON object"),
    ],
)
def test_other_kinds_are_named(tmp_path, content, message):
    (tmp_path / "a.jsonl").write_bytes(content)
    with pytest.raises(ServiceError, match=message), open_input(str(tmp_path / "a.jsonl")):
        pass


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (gzip.compress(LINES)[:-10], "not a complete gzip file"),
        (bytes(cramjam.zstd.compress(LINES * 100))[:-10], "not a complete zstd file"),
        (orjson.dumps(EVENTS)[:-3], "is not a complete JSON array"),
    ],
    ids=["gzip", "zstd", "array"],
)
def test_files_that_end_too_early(tmp_path, content, message):
    (tmp_path / "a.jsonl").write_bytes(content)

    def read():
        with open_input(str(tmp_path / "a.jsonl")) as file:
            list(numbered_lines(file))

    with pytest.raises(ServiceError, match=message):
        read()


def test_standard_input_is_recognised_too(monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(gzip.compress(orjson.dumps(EVENTS)))))
    with open_input("-") as file:
        assert [orjson.loads(line) for _, line in numbered_lines(file)] == EVENTS


def test_a_text_that_is_nothing_else_is_lines():
    assert kind_of(b"", "a.jsonl") == "lines"
    assert kind_of(b'not json, at all\n{"id": 1, "a": 2}\n', "a.jsonl") == "lines"


@pytest.mark.parametrize("packed", ["", "gzip", "zstd"])
def test_a_document_over_several_lines_is_one_event(tmp_path, packed):
    (tmp_path / "a.json").write_bytes(pack(json.dumps(EVENTS[0], indent=2).encode(), packed))
    with open_input(str(tmp_path / "a.json")) as file:
        ((number, line),) = numbered_lines(file)
    assert (number, orjson.loads(line)) == (1, EVENTS[0])
    assert b"\n" not in line


values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)


@given(st.lists(values, max_size=5), st.sampled_from([None, 1, "\t"]))
def test_array_elements_are_those_of_the_array(elements, indent):
    text = json.dumps(elements, indent=indent).encode()
    assert [json.loads(element) for element in array_elements(text, "a")] == elements


def test_array_elements_keep_their_text():
    assert list(array_elements(b' [ {"a": 1.50,\r\n "a": 12345678901234567890123} , "\\u00e9" ]\n', "a")) == [
        b'{"a": 1.50,   "a": 12345678901234567890123}',
        b'"\\u00e9"',
    ]


@pytest.mark.parametrize("blank", [b" ", b"\n", b"\n ", b"\r\n"])
def test_blank_data_of_an_unknown_kind_is_searched_once(blank):
    """A search that starts again at each blank takes hours here."""
    with pytest.raises(ServiceError, match="binary data of an unknown kind"):
        kind_of(b"\x01" + blank * 1_000_000, "a")
    assert kind_of(b"\x01" + blank * 1_000 + b"\n\t {", "a") == "lines"
