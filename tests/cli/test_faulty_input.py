"""Faulty input loses nothing silently, and no text that a path of an attribute selects is written as it is."""

from __future__ import annotations

from itertools import product

import orjson
import pytest
from support.file_commands import CODES, ROOT, run, write, write_deployment

LINKS = {**dict.fromkeys(ROOT, "R"), **{code: chapter for chapter, codes in ROOT.items() for code in codes}}
CANARY = "Anna Canary, ward 7"


def deployment(folder, attribute, **sections):
    """Write a configuration with one attribute ``a`` of the ontology ``tree``; return its path."""
    content = {
        "attributes": {"a": {"ontology": "tree", **attribute}},
        "fields": {"keep": ["id"], "unlisted": "drop"},
        "calibration": {"window_records": 400, "min_records": 10},
        "limits": {"rejected_share": 1.0},
    }
    return write_deployment(folder, LINKS, **content | sections)


ABSENT = object()
FAULTY = (
    ABSENT,
    None,
    "",
    " ",
    {},
    [],
    0,
    True,
    CANARY,
    {"code": CANARY},
    [CANARY],
    [None, CANARY],
    [{"code": None}, {"code": CANARY}],
    "A1",
    ["A1", CANARY],
)
"""What stands where a code is expected."""


def member(name, value, **others):
    """Return an object with a member, unless its value is absent, and with the label of a code."""
    labelled = {**others, "display": f"{CANARY}, label"} if name == "code" else others
    return labelled if value is ABSENT else {**labelled, name: value}


def coding(*values, name="code"):
    """Return the elements of one system, and one of another system before the last one."""
    elements = [member(name, value, system="icd") for value in values]
    return {"coding": [*elements[:-1], {"system": "own", name: "x"}, *elements[-1:]]}


PATHS = {
    "code": lambda first, _: member("code", first),
    "codes[0]": lambda first, second: {"codes": [x for x in (first, second) if x is not ABSENT]},
    "codes[*]": lambda first, second: {"codes": [x for x in (first, second) if x is not ABSENT]},
    "list[*].code": lambda first, second: {"list": [member("code", first), member("code", second)]},
    "coding[?system=icd].code": coding,
    "coding[*?system=icd].code": coding,
    "coding[?system=icd].code.value": lambda *values: coding(*(member("value", value) for value in values)),
    "coding[?system=icd].codes[0]": lambda *values: coding(*values, name="codes"),
    "coding[?system=icd].codes[*]": lambda *values: coding(*values, name="codes"),
    "list[0].coding[?system=icd].code": lambda *values: {"list": [coding(*values)]},
    "list[*].coding[?system=icd].code": lambda *values: {"list": [coding(*values), coding("A1", *values)]},
    "list[*].codes[*]": lambda first, second: {"list": [member("codes", first), member("codes", second)]},
}


@pytest.mark.parametrize("path", PATHS)
def test_what_the_path_of_an_attribute_selects_is_masked_or_not_written(tmp_path, path):
    paths = {"path": path, "missing": "keep", "unknown": "suppress"}
    if path.endswith("code"):
        paths["label"] = f"{path.removesuffix('code')}display"
    good = [PATHS[path](CODES[k % 8], CODES[3 * k % 8]) for k in range(60)]
    if path.endswith(("codes[*]", "codes[0]")) and path.count("[") > 1:
        good = [PATHS[path]([CODES[k % 8]], [CODES[3 * k % 8]]) for k in range(60)]
    faulty = [PATHS[path](*values) for values in product(FAULTY, repeat=2)]
    events = [{"id": k, **event} for k, event in enumerate((*good, *faulty))]
    source = write(tmp_path / "in.jsonl", map(orjson.dumps, events))
    done = run("mask", "-c", deployment(tmp_path, paths), source, tmp_path / "out.jsonl")
    written = (tmp_path / "out.jsonl").read_text()
    assert written.count("\n") > len(good)
    assert CANARY not in written + done.stderr
