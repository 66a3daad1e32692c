"""Faulty input loses nothing silently, and no message about it shows a value."""

from __future__ import annotations

import re

import orjson
import pytest
from support.file_commands import CODES, ROOT, run, write, write_deployment

LINKS = {**dict.fromkeys(ROOT, "R"), **{code: chapter for chapter, codes in ROOT.items() for code in codes}}
CANARY = "Anna Canary, ward 7"


def deployment(folder, attribute, links=LINKS, **sections):
    """Write a configuration with one attribute ``a`` of the ontology ``tree`` of links; return its path."""
    content = {
        "attributes": {"a": {"ontology": "tree", **attribute}},
        "fields": {"keep": ["id"], "unlisted": "drop"},
        "calibration": {"window_records": 400, "min_records": 10},
        "limits": {"rejected_share": 1.0},
    }
    return write_deployment(folder, links, **content | sections)


def table(*rows, header="pid,note,a"):
    return "\n".join([header, *rows]) + "\n"


def rows_with(number, row, note="Sturz"):
    """Return 1,500 rows, of which that of a number is another one."""
    rows = [f"{k},{note},{CODES[k % 8]}" for k in range(1, 1501)]
    return [*rows[: number - 1], row, *rows[number:]]


OPEN_QUOTES = {
    "no quote follows": rows_with(701, f'233,"Sturz, {CANARY},A1'),
    "a closing quote follows": [*rows_with(701, f'233,"Sturz, {CANARY},A1')[:800], '801,leicht",A1,A1', "802,x,A1"],
    "many rows follow before the closing quote": [*rows_with(200, f'233,"{CANARY}')[:1300], 'x",A1', "1302,x,A1"],
    "it is in the last row": rows_with(1500, f'233,"Sturz, {CANARY},A1'),
}


@pytest.mark.parametrize("case", OPEN_QUOTES)
def test_a_quote_that_is_not_closed_is_an_error_that_names_its_row(tmp_path, case):
    rows, config = OPEN_QUOTES[case], deployment(tmp_path, {"path": "a"})
    (number,) = (k for k, row in enumerate(rows, start=1) if CANARY in row)
    (tmp_path / "in.csv").write_text(table(*rows))
    done = run("mask", "-c", config, tmp_path / "in.csv", tmp_path / "out.csv", code=1)
    assert f"row {number:,} (line {number + 1:,})" in done.stderr
    assert CANARY not in done.output
    assert not (tmp_path / "out.csv").exists()


def test_the_lines_of_a_quoted_cell_are_one_row(tmp_path):
    rows = rows_with(701, '701,"Sturz\n\nzu ""Hause"",\nleicht",A1')
    (tmp_path / "in.csv").write_text(table(*rows, "1501,too,many,A1", '1502,"x"y,A1'))
    done = run("mask", "-c", deployment(tmp_path, {"path": "a"}), tmp_path / "in.csv", tmp_path / "out.csv")
    assert "read 1,502: masked 1,500, rejected 2 (not_in_format at the number of cells 2)" in done.stderr


def names_missing(first, row):
    return [first, *(row.format(k=k, code=CODES[k % 8]) for k in range(1, 1500))]


TABLES_WITHOUT_NAMES = {
    "every kind": names_missing("4711;Mustermann0;1961-03-01;M;B99.9", "{k};Muster{k};1950-01-02;M;{code}"),
    "a date": names_missing("Mustermann0\t01.03.1961", "Muster{k}\t02.01.1950"),
    "a code": names_missing("Mustermann0;B99.9", "Muster{k};I21.{k}"),
    "a code with a prefix": names_missing("Mustermann0;ORPHA:984", "Muster{k};ORPHA:{k}"),
    "a text that occurs again": names_missing("Mustermann0;weiblich", "Muster{k};weiblich"),
}


@pytest.mark.parametrize("case", TABLES_WITHOUT_NAMES)
def test_a_table_without_names_of_columns_is_refused_without_its_values(tmp_path, case):
    rows = TABLES_WITHOUT_NAMES[case]
    source, config = tmp_path / "in.csv", deployment(tmp_path, {"path": "a"}, fields={"unlisted": "keep"})
    source.write_text("\n".join(rows) + "\n")
    for arguments in (
        ("mask", "-c", config, source, tmp_path / "out.csv"),
        ("config", "check", "-c", config, "--events", source),
        ("config", "init", "--events", source, "-o", tmp_path / "proposal.yaml"),
    ):
        done = run(*arguments, code=1)
        assert "does not start with a line of column names" in done.stderr
        assert "Put a line before it that names" in done.stderr
        assert not any(cell in done.output for cell in re.split("[;,|\t]", rows[0]) if len(cell) > 1)
    assert not (tmp_path / "out.csv").exists()
    assert not (tmp_path / "proposal.yaml").exists()


NAMED_TABLES = {
    "numbered names of codes": ("D10,D11,a", "E11,I21,{code}"),
    "names like codes above numbers": ("E11.9,I21.4,a", "0,1,{code}"),
    "years above texts": ("2019,2020,a", "yes,no,{code}"),
    "names with digits": ("dx1,DIAG2,a", "E11.9,I21.4,{code}"),
}


@pytest.mark.parametrize("case", NAMED_TABLES)
def test_a_table_with_names_of_columns_is_read_also_if_they_come_again(tmp_path, case):
    names, row = NAMED_TABLES[case]
    rows = names_missing(f"x,y,{CODES[0]}", row)
    (tmp_path / "in.csv").write_text(table(*rows[:700], names, *rows[700:], header=names))
    config = deployment(tmp_path, {"path": "a", "unknown": "suppress"})
    done = run("mask", "-c", config, tmp_path / "in.csv", tmp_path / "out.csv")
    assert "masked 1,501, rejected 0" in done.stderr


ICD10 = {"B99": "ICD10CM", "B99.9": "B99", "E11": "ICD10CM", "E11.6": "E11", "E11.65": "E11.6"}
SUPPRESSED = {
    "none": (0, ""),
    "few": (15, ""),
    "many": (540, "540 of 3,000 codes of a (18.0%) are removed"),
}


@pytest.mark.parametrize(("kind", "path"), [("none", "a"), ("few", "list[*].a"), ("many", "list[*?k=1].a")])
def test_suppressed_codes_are_counted_and_many_of_them_are_a_warning(tmp_path, kind, path):
    count, warning = SUPPRESSED[kind]
    codes = [CANARY if k * 7919 % 3000 < count else CODES[k % 8] for k in range(3000)]
    events = [{"id": k, "a": code, "list": [{"k": 1, "a": code}]} for k, code in enumerate([*codes, None, "", " "])]
    config = deployment(tmp_path, {"path": path, "unknown": "suppress", "missing": "keep"})
    source = write(tmp_path / "in.jsonl", map(orjson.dumps, events))
    done = run("mask", "-c", config, source, tmp_path / "out.jsonl")
    total = f", suppressed {count:,} codes ({count:,} of a)" if count else ""
    assert f"masked 3,003, rejected 0{total}, by statistics version 1" in done.stderr
    assert (f"warning: {warning}" in done.stderr) == bool(warning)
    assert ("are removed" in done.stderr) == bool(warning)
    checked = run("config", "check", "-c", config, "--events", source)
    assert (f"{count:,} of 3,000 codes of a" in checked.stdout) == bool(count)
    assert (f"warning: {count:,} of 3,000 codes of a" in checked.stdout) == bool(warning)
    assert CANARY not in done.output + checked.output + (tmp_path / "out.jsonl").read_text()


def test_codes_that_are_masked_as_coarser_ones_are_counted(tmp_path):
    codes = ["E11.65", "B99.9", "E11", "E11.659", "E11.99"]
    config = deployment(tmp_path, {"path": "a", "unknown": "ancestor"}, ICD10, limits={})
    source = write(tmp_path / "in.jsonl", (orjson.dumps({"a": codes[k % 5]}) for k in range(100)))
    done = run("mask", "-c", config, source, tmp_path / "out.jsonl")
    assert "masked 100, rejected 0, generalized 40 codes (40 of a), by statistics version 1" in done.stderr
    checked = run("config", "check", "-c", config, "--events", source)
    assert "40 of 100 codes of a (40.0%) are unknown, and are masked as the concept that they begin" in checked.stdout


ROWS = {
    "too many cells": ("1,x,A1,B1", {}, "not_in_format at the number of cells 1"),
    "too few cells": ("1,x", {}, "not_in_format at the number of cells 1"),
    "text in a numeric column": ("one,x,A1", {"numbers": ["pid"]}, "not_a_number at pid 1"),
    "no code": ("1,x,??", {}, "unknown_code at a 1"),
}


@pytest.mark.parametrize("case", ROWS)
def test_a_row_that_is_rejected_names_its_field(tmp_path, case):
    row, settings, cause = ROWS[case]
    (tmp_path / "in.csv").write_text(table(*rows_with(701, row)))
    config = deployment(tmp_path, {"path": "a"}, produce=settings)
    rejected = tmp_path / "rejected.jsonl"
    done = run("mask", "-c", config, tmp_path / "in.csv", tmp_path / "out.csv", "--rejected", rejected)
    assert f"read 1,500: masked 1,499, rejected 1 ({cause})" in done.stderr
    (line,) = map(orjson.loads, rejected.read_text().splitlines())
    assert cause == f"{line['reason']} at {line['field']} 1"
    assert line["offset"] == 701
    assert cause in run("config", "check", "-c", config, "--events", tmp_path / "in.csv").stdout


def test_numbers_where_codes_are_expected_say_what_to_do(tmp_path):
    events = [{"a": 250.01 if k % 9 == 0 else CODES[k % 8]} for k in range(90)]
    source = write(tmp_path / "in.jsonl", map(orjson.dumps, events))
    done = run("mask", "-c", deployment(tmp_path, {"path": "a"}), source, tmp_path / "out.jsonl")
    assert "not_a_code at a 10 (a code is a text: quote numbers, or read the column as text)" in done.stderr


@pytest.mark.parametrize(
    ("number", "lacking"), [(3, {"missing": "keep"}), (3, {"unknown": "suppress"}), (13, {})], ids=str
)
def test_the_promise_covers_records_that_lack_codes_of_at_most_twelve(tmp_path, lacking, number):
    names = [f"d{k}" for k in range(number)]
    attributes = {name: {"path": name, "ontology": "tree", **lacking} for name in names}
    events = [{name: CODES[(2 * j + 1) * k % 8] for j, name in enumerate(names)} for k in range(400)]
    for event in events[::3] if lacking else ():
        event[names[1]] = CANARY if "unknown" in lacking else None
    source = write(tmp_path / "in.jsonl", map(orjson.dumps, events))
    config = deployment(tmp_path, {"path": "a"}, attributes=attributes, mechanism={"name": "semantic_transport"})
    done = run("calibrate", "-c", config, source, "-o", tmp_path / "snapshot")
    assert ("can be at most" in done.stderr) == (number <= 12)
    assert ("Nothing is promised about single records" in done.stderr) == (number > 12)
