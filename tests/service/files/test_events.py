"""Files of events: recognised by their content, and read; tables with their cells and encodings.

Faults are one error or a rejected row, without a value of the file.
"""

from __future__ import annotations

import gzip
import io
import json
import re
import sys

import orjson
import pytest

from stream_masker.errors import ConfigurationError, ServiceError
from stream_masker.service.configuration.masking import CsvSection
from stream_masker.service.files.events import open_events

EVENTS = [{"id": k, "text": 'a "quoted" [text], {braces}\n', "list": [[], {}, [1, 2]]} for k in range(3)]
LINES = b"".join(orjson.dumps(event) + b"\n" for event in EVENTS)
TABLE = b"id,a,b\n1,x,y\n2,x,z\n"
TABLE_EVENTS = [{"id": "1", "a": "x", "b": "y"}, {"id": "2", "a": "x", "b": "z"}]


def read(path, content, **settings):
    """Write a file; return its kind and its events."""
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
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


SECRET = "E11.9-very-private"
ROWS = [f"{k},Sturz,A1" for k in range(1, 1501)]
HEADER = "pid,note,a"


def table(path, content, **settings):
    """Return the objects of a CSV file, and the numbers and problems of rows that are none."""
    _, events = read(path, content, **settings)
    values = [orjson.loads(event.value) for event in events if event.problem is None]
    return values, [(event.number, *event.problem) for event in events if event.problem is not None]


def lines(*rows):
    return "\n".join(rows) + "\n"


def rows_with(number, row):
    """Return 1,500 rows, of which that of a number is another one."""
    return [*ROWS[: number - 1], row, *ROWS[number:]]


CELLS = {
    "lists and missing cells": (
        "id,a.b,age,dx,more\r\n07,x,61,038,?\r\n8,x,?,\u00e9,a; b ;\r\n",
        {"null_values": ["?", ""], "lists": {"more": "; "}},
        [
            {"id": "07", "a.b": "x", "age": "61", "dx": "038"},
            {"id": "8", "a.b": "x", "dx": "\u00e9", "more": ["a", "b"]},
        ],
    ),
    "a quoted cell of several lines": ('a,b\n"x, ""y""","1\n\n2"\n', {}, [{"a": 'x, "y"', "b": "1\n\n2"}]),
    "a delimiter in the name of a column": ('"b (x, y, z)";a\n1;2\n', {}, [{"b (x, y, z)": "1", "a": "2"}]),
    "a byte order mark": ("id,a\n1,Größe\n".encode("utf-8-sig"), {}, [{"id": "1", "a": "Größe"}]),
    "UTF-16": ("id,a\n1,Größe\n".encode("utf-16"), {}, [{"id": "1", "a": "Größe"}]),
    "an encoding that is named": (
        "id,a\n1,Größe\n".encode("cp850"),
        {"encoding": "cp850"},
        [{"id": "1", "a": "Größe"}],
    ),
}


@pytest.mark.parametrize("case", CELLS)
def test_cells_become_texts_and_lists(tmp_path, case):
    content, settings, expected = CELLS[case]
    assert table(tmp_path / "a.csv", content, **settings) == (expected, [])


def test_rows_that_are_no_events_are_named_without_content(tmp_path):
    rows = [SECRET, f"{SECRET},1,2", f'"{SECRET}"x,1', "", "ok,2"]
    found, problems = table(tmp_path / "a.csv", lines("a,n", "ok,1", *rows))
    assert found == [{"a": "ok", "n": "1"}, {"a": "ok", "n": "2"}]
    assert problems == [(k, "not_in_format", "the number of cells") for k in (2, 3, 4)]
    assert SECRET not in str(problems)


OPEN_QUOTES = {
    "no quote follows": rows_with(701, f'233,"Sturz, {SECRET},A1'),
    "a closing quote follows": [*rows_with(701, f'233,"Sturz, {SECRET},A1')[:800], '801,leicht",A1,A1', "802,x,A1"],
    "many rows follow before the closing quote": [*rows_with(200, f'233,"{SECRET}')[:1300], 'x",A1', "1302,x,A1"],
    "it is in the last row": rows_with(1500, f'233,"Sturz, {SECRET},A1'),
}


@pytest.mark.parametrize("case", OPEN_QUOTES)
def test_a_quote_that_is_not_closed_is_an_error_that_names_its_row(tmp_path, case):
    rows = OPEN_QUOTES[case]
    (number,) = (k for k, row in enumerate(rows, start=1) if SECRET in row)
    with pytest.raises(ServiceError, match=re.escape(f"row {number:,} (line {number + 1:,})")) as caught:
        table(tmp_path / "a.csv", lines(HEADER, *rows))
    assert SECRET not in str(caught.value)


WITHOUT_NAMES = {
    "every kind": ("4711;Mustermann0;1961-03-01;M;B99.9", "{k};Muster{k};1950-01-02;M;I21.{k}"),
    "a date": ("Mustermann0\t01.03.1961", "Muster{k}\t02.01.1950"),
    "a code": ("Mustermann0;B99.9", "Muster{k};I21.{k}"),
    "a code with a prefix": ("Mustermann0;ORPHA:984", "Muster{k};ORPHA:{k}"),
    "a text that occurs again": ("Mustermann0;weiblich", "Muster{k};weiblich"),
    "two equal cells": (f"{SECRET},{SECRET}", "x{k},y{k}"),
    "nothing": ("", ""),
}


@pytest.mark.parametrize("case", WITHOUT_NAMES)
def test_a_table_without_names_of_columns_is_refused_without_its_values(tmp_path, case):
    first, row = WITHOUT_NAMES[case]
    with pytest.raises(ServiceError, match=r"does not start with a line of column names|have the same name") as caught:
        table(tmp_path / "a.csv", lines(first, *(row.format(k=k) for k in range(1, 100))))
    assert not any(cell in str(caught.value) for cell in re.split("[;,\t]", first) if len(cell) > 1)


@pytest.mark.parametrize(
    ("names", "row"),
    [
        ("D10,D11,a", "E11,I21,B{k}"),
        ("E11.9,I21.4,a", "0,1,B{k}"),
        ("2019,2020,a", "yes,no,B{k}"),
        ("dx1,DIAG2,a", "E11.9,I21.4,B{k}"),
    ],
)
def test_names_of_columns_may_look_like_codes_and_come_again(tmp_path, names, row):
    rows = [row.format(k=k) for k in range(100)]
    found, problems = table(tmp_path / "a.csv", lines(names, *rows[:50], names, *rows[50:]))
    assert (len(found), problems) == (101, [])


@pytest.mark.parametrize(
    ("encoding", "named", "message"),
    [
        ("cp1252", "", "a.csv: the text is not in utf-8: name the encoding of the file in csv.encoding"),
        ("cp1252", "ascii", "a.csv: the text is not in ascii"),
        ("utf-8", "klingon", "csv.encoding: 'klingon' is no encoding"),
    ],
)
def test_another_encoding_is_one_error(tmp_path, encoding, named, message):
    with pytest.raises(ConfigurationError if named == "klingon" else ServiceError, match=message) as caught:
        table(tmp_path / "a.csv", lines("id,wort", "1,x", "2,y", "3,Größe").encode(encoding), encoding=named)
    assert "Gr" not in str(caught.value)


def test_columns_of_the_settings_that_are_missing_are_named(tmp_path):
    with pytest.raises(ConfigurationError, match=r"csv\.lists names columns that are not in the file: 'b'"):
        table(tmp_path / "a.csv", f"{SECRET}\n1\n", lists={"b": ";"})
