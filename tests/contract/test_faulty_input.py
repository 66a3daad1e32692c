"""Faulty input loses nothing silently, and no message about it shows a value."""

from __future__ import annotations

import datetime

import orjson
import pytest
from support.file_commands import CODES, ROOT, amend, event, read, run, write, write_configuration, write_deployment

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


def table(number, row):
    """Return a table of 1,500 rows, of which that of a number is another one."""
    rows = [f"{k},Sturz,{CODES[k % 8]}" for k in range(1, 1501)]
    rows[number - 1] = row
    return "\n".join(["pid,note,a", *rows]) + "\n"


def test_a_table_that_cannot_be_read_to_its_end_has_no_output(tmp_path):
    source, config = tmp_path / "in.csv", deployment(tmp_path, {"path": "a"})
    source.write_text(table(701, f'233,"Sturz, {CANARY},A1'))
    for arguments in (
        ("mask", "-c", config, source, tmp_path / "out.csv"),
        ("config", "check", "-c", config, "--events", source),
        ("config", "init", "--events", source, "-o", tmp_path / "proposal.yaml"),
    ):
        done = run(*arguments, code=1)
        assert "in.csv, row 701 (line 702): a quote is not closed" in done.stderr
        assert CANARY not in done.output
    assert not (tmp_path / "out.csv").exists()
    assert not (tmp_path / "proposal.yaml").exists()


@pytest.mark.parametrize(("count", "path"), [(0, "a"), (15, "list[*].a"), (540, "list[*?k=1].a")])
def test_suppressed_codes_are_counted_and_many_of_them_are_a_warning(tmp_path, count, path):
    codes = [CANARY if k * 7919 % 3000 < count else CODES[k % 8] for k in range(3000)]
    events = [{"id": k, "a": code, "list": [{"k": 1, "a": code}]} for k, code in enumerate([*codes, None, "", " "])]
    config = deployment(tmp_path, {"path": path, "unknown": "suppress", "missing": "keep"})
    source = write(tmp_path / "in.jsonl", map(orjson.dumps, events))
    done = run("mask", "-c", config, source, tmp_path / "out.jsonl")
    total = f", suppressed {count:,} codes ({count:,} of a)" if count else ""
    assert f"masked 3,003, rejected 0{total}, by statistics version 1" in done.stderr
    checked = run("config", "check", "-c", config, "--events", source)
    assert f"read 3,003: masked 3,003, rejected 0{total}\n" in checked.stdout
    assert (f"warning: {count:,} of 3,000 codes of a (18.0%) are removed" in checked.stdout) == (count == 540)
    assert CANARY not in done.output + checked.output + (tmp_path / "out.jsonl").read_text()


def test_codes_that_are_masked_as_coarser_ones_are_counted(tmp_path):
    links = {"B99": "ICD10CM", "B99.9": "B99", "E11": "ICD10CM", "E11.6": "E11", "E11.65": "E11.6"}
    codes = ["E11.65", "B99.9", "E11", "E11.659", "E11.99"]
    own = {"ontology": "tree", "unknown": "ancestor"}
    attributes = {"a": {**own, "path": "a"}, "b": {**own, "path": "b[*]"}}
    config = deployment(tmp_path, {}, links, attributes=attributes, limits={})
    source = write(tmp_path / "in.jsonl", (orjson.dumps({"a": codes[k % 5], "b": ["E11", "B99"]}) for k in range(100)))
    done = run("mask", "-c", config, source, tmp_path / "out.jsonl")
    assert "masked 100, rejected 0, generalized 40 codes (40 of a), by statistics version 1" in done.stderr
    checked = run("config", "check", "-c", config, "--events", source)
    assert "masked 100, rejected 0, generalized 40 codes (40 of a)\n" in checked.stdout


ROWS = {
    "too many cells": ("1,x,A1,B1", "not_in_format at the number of cells 1"),
    "no code": ("1,x,??", "unknown_code at a 1"),
}


@pytest.mark.parametrize("case", ROWS)
def test_a_row_that_is_rejected_names_its_field(tmp_path, case):
    row, cause = ROWS[case]
    (tmp_path / "in.csv").write_text(table(701, row))
    config = deployment(tmp_path, {"path": "a"})
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


def test_what_is_wrong_with_many_codes_is_named_with_shares(tmp_path):
    links = {"038": "ICD9CM", "038.9": "038", "V01": "ICD9CM", "V01.9": "V01"}
    codes = ["038.9", "V01.9", "E11.9", "I10", "038.9"]
    config = deployment(tmp_path, {"path": "a", "unknown": "suppress"}, links)
    source = write(tmp_path / "in.jsonl", (orjson.dumps({"a": codes[k % 5]}) for k in range(100)))
    lost = "warning: 40 of 100 codes of a (40.0%) are removed, because they are unknown and attributes.a.unknown is"
    assert lost in run("mask", "-c", config, source, tmp_path / "out.jsonl").stderr
    checked = run("config", "check", "-c", config, "--events", source).stdout
    assert lost in checked
    assert "a: two revisions are mixed (40% ICD-9, 40% ICD-10): write each revision in a field of its own" in checked


@pytest.mark.parametrize(
    ("number", "lacking"), [(3, {"missing": "keep"}), (3, {"unknown": "suppress"}), (13, {})], ids=str
)
def test_the_promise_covers_records_that_lack_codes_of_at_most_twelve(tmp_path, lacking, number):
    names = [f"d{k}" for k in range(number)]
    attributes = {name: {"path": name, "ontology": "tree", **lacking} for name in names}
    events = [{name: CODES[(2 * j + 1) * k % 8] for j, name in enumerate(names)} for k in range(400)]
    for one in events[::3] if lacking else ():
        one[names[1]] = CANARY if "unknown" in lacking else None
    source = write(tmp_path / "in.jsonl", map(orjson.dumps, events))
    config = deployment(tmp_path, {"path": "a"}, attributes=attributes, mechanism={"name": "semantic_transport"})
    done = run("calibrate", "-c", config, source, "-o", tmp_path / "snapshot")
    assert ("can be at most" in done.stderr) == (number <= 12)
    assert ("Nothing is promised about single records" in done.stderr) == (number > 12)


def test_values_that_a_treatment_does_not_fit_are_removed_and_counted(tmp_path):
    config = write_configuration(tmp_path)
    shift = {"admitted": {"days": 30, "key": "patient"}}
    amend(config, fields={"unlisted": "drop", "shift": shift, "generalize": {"birth": {"date": "year"}}})
    events = [event(k) | {"admitted": f"{1 + k % 28:02}.03.2024", "birth": "July 1948"} for k in range(60)]
    events[7]["admitted"] = CANARY
    source = write(tmp_path / "in.jsonl", map(orjson.dumps, events))
    shown = run("config", "check", "-c", config, "--events", source).stdout
    assert "birth     100.0%  generalized\n" in shown
    done = run("mask", "-c", config, source, tmp_path / "out.jsonl")
    assert "masked 60, rejected 0, emptied 61 values (60 of birth, 1 of admitted)" in done.stderr
    masked = read(tmp_path / "out.jsonl")
    dates = [datetime.datetime.strptime(one["admitted"], "%d.%m.%Y").date() for k, one in enumerate(masked) if k != 7]
    assert all(1 <= abs((date - datetime.date(2024, 3, 1)).days) <= 58 for date in dates)
    assert CANARY not in shown + done.stderr + str(masked)
    assert not any("birth" in one for one in masked)
