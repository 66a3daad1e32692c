"""What becomes of a document, by tables of plans, documents and results: attributes, the field policy, keys."""

from __future__ import annotations

import re
from typing import Any

import pytest

from stream_masker.pipeline.transforms import Pseudonym, Pseudonyms

PSEUDONYMS = Pseudonyms(b"a secret of the tests")
CODE = {"a": {"path": "d.code", "label": "d.text", "missing": "keep"}}


def p(value: Any) -> Any:
    return Pseudonym().of_value(value, PSEUDONYMS)


PATIENT = {"patient": {"id": 7, "name": {"first": "A", "last": "B"}, "age": 50}}
LIST = {"list": [{"t": "x", "v": 1}, {"t": "y", "v": 2}, {"t": "x", "v": 3}]}
PARTS = {"list": [{"a": 1, "b": 2}, {"b": 3}, {"a": None, "c": 4}]}
IDS = {"ids": [{"type": {"v": "mrn"}, "value": 1}, {"type": {"v": "ssn"}, "value": 2}]}
LETTERS = {"l": ["a", "b", "c"]}
INSIDE = {"drop": ["patient.name", "list[*].ssn"], "pseudonymize": ["patient.id"]}

POLICIES = [
    # the longest path decides
    (
        PATIENT,
        {"keep": ["patient", "patient.name.last"], "drop": ["patient.name"]},
        {"patient": {"id": 7, "name": {"last": "B"}, "age": 50}},
    ),
    (
        PATIENT,
        {"drop": ["patient"], "keep": ["patient.age"], "pseudonymize": ["patient.id"]},
        {"patient": {"id": p(7), "age": 50}},
    ),
    # of a pseudonymized object, what no longer path keeps is dropped
    (
        PATIENT,
        {"pseudonymize": ["patient"], "keep": ["patient.age"], "drop": ["patient.name.last"]},
        {"patient": {"name": {}, "age": 50}},
    ),
    (PATIENT, {"unlisted": "keep", "pseudonymize": ["patient"]}, {}),
    # lists: every element, positions, filters
    (PARTS, {"keep": ["list[*].a"]}, {"list": [{"a": 1}, {}, {"a": None}]}),
    (PARTS, {"unlisted": "keep", "drop": ["list[*].b"]}, {"list": [{"a": 1}, {}, {"a": None, "c": 4}]}),
    (
        PARTS,
        {"keep": ["list[*].a"], "pseudonymize": ["list[*].b"]},
        {"list": [{"a": 1, "b": p(2)}, {"b": p(3)}, {"a": None}]},
    ),
    ({"list": [[{"a": 1, "b": 1}], []]}, {"keep": ["list[*][*].a"]}, {"list": [[{"a": 1}], []]}),
    (LIST, {"keep": ["list[1].v"]}, {"list": [None, {"v": 2}]}),
    (LIST, {"keep": ["list[?t=x].v"]}, {"list": [{"t": "x", "v": 1}, {"t": "x", "v": 3}]}),
    (LIST, {"unlisted": "keep", "drop": ["list[?t=x]"]}, {"list": [{"t": "y", "v": 2}]}),
    (LIST, {"unlisted": "keep", "drop": ["list[?t=x].t"]}, {"list": [{"v": 1}, {"t": "y", "v": 2}, {"v": 3}]}),
    (
        LIST,
        {"keep": ["list[*].v"], "pseudonymize": ["list[0].v"], "drop": ["list[?t=x].v"]},
        {"list": [{}, {"v": 2}, {}]},
    ),
    (LIST, {"keep": ["list"], "drop": ["list[1]"]}, {"list": [LIST["list"][0], None, LIST["list"][2]]}),
    # equally long paths: drop before pseudonymize before keep
    (LETTERS, {"keep": ["l[*]"], "pseudonymize": ["l[0]"]}, {"l": [p("a"), "b", "c"]}),
    (LETTERS, {"pseudonymize": ["l[*]"], "keep": ["l[0]"]}, {"l": [p("a"), p("b"), p("c")]}),
    (LETTERS, {"drop": ["l[*]"], "keep": ["l[0]"]}, {"l": []}),
    # a value of another shape gets the strictest action of the paths that continue from there
    *(
        ({"patient": value}, {"unlisted": "keep", **INSIDE}, {})
        for value in ("Jane Doe", [{"id": 1, "name": "Jane"}], 77)
    ),
    *(({"list": value}, {"unlisted": "keep", **INSIDE}, {}) for value in ("077", {"ssn": "077"})),
    *(({"list": value}, {"unlisted": "keep", **INSIDE}, {"list": []}) for value in (["077"], [["077"]])),
    ({"patient": "Jane"}, {"unlisted": "keep", "pseudonymize": ["patient.id"]}, {}),
    ({"patient": "Jane"}, {"keep": ["patient.age"]}, {}),
    ({"patient": "Jane"}, {"unlisted": "keep", "keep": ["patient.age"]}, {"patient": "Jane"}),
    ({"patient": None}, {"pseudonymize": ["patient.id"]}, {"patient": None}),
    # the field of a filter is kept if its path keeps a value
    (IDS, {"pseudonymize": ["ids[?type.v=mrn].value"]}, {"ids": [{"type": {"v": "mrn"}, "value": p(1)}]}),
    (
        IDS,
        {"keep": ["ids[*].type"], "drop": ["ids[?type.v=ssn]"]},
        {"ids": [{"type": {"v": "mrn"}}, {"type": {"v": "ssn"}}]},
    ),
]


@pytest.mark.parametrize(("document", "policy", "treated"), POLICIES)
def test_fields(bench, document, policy, treated):
    unlisted = policy.get("unlisted", "drop")
    fields = {action: paths for action, paths in policy.items() if action != "unlisted"}
    assert bench(CODE, unlisted=unlisted, fields=fields).mask_one(document) == treated


@pytest.mark.parametrize("policy", [{"drop": ["d"]}, {"pseudonymize": ["d"]}, {"unlisted": "keep", "drop": ["d"]}])
def test_attributes_are_masked_inside_dropped_or_pseudonymized_objects(bench, policy):
    unlisted, fields = policy.pop("unlisted", "drop"), dict(policy)
    masked = bench(CODE, unlisted=unlisted, fields=fields).mask_one({"d": {"code": "I10", "text": "t", "x": 1}})
    assert masked == {"d": {"code": "E11.9", "text": "Type 2 diabetes"}}


def test_the_order_of_names_is_that_of_the_record_or_if_unlisted_ones_are_dropped_of_the_plan(bench):
    record = {"z": 1, "d": {"text": "t", "y": 2, "code": "I10"}, "a": 3}
    (kept,) = bench(CODE).mask(record)
    assert kept.value == b'{"z":1,"d":{"text":"Type 2 diabetes","y":2,"code":"E11.9"},"a":3}'
    (listed,) = bench(CODE, unlisted="drop", fields={"keep": ["a", "z", "d.y"]}).mask(record)
    assert listed.value == b'{"d":{"code":"E11.9","text":"Type 2 diabetes","y":2},"a":3,"z":1}'


def test_pseudonyms_are_keyed_hashes_of_the_text_alone():
    assert re.fullmatch("[0-9a-f]{32}", p("12"))
    assert p("12") == p(12) == PSEUDONYMS.of_bytes(b"12")
    assert (p("ä"), p(1.5), p(True), p(None)) == (PSEUDONYMS.of_bytes("ä".encode()), p("1.5"), p("true"), None)
    assert len({p("a"), p("b"), p(""), Pseudonyms(b"another secret of the tests").of_bytes(b"a")}) == 4


REJECTIONS = [
    ({"a": {"path": "d.code"}}, {"d": {}}, ("missing", "d.code")),
    ({"a": {"path": "d.code"}}, {"d": None}, ("missing", "d.code")),
    ({"a": {"path": "d.code"}}, {"d": {"code": None}}, ("missing", "d.code")),
    ({"a": {"path": "d.code"}}, {"d": {"code": 7}}, ("not_a_code", "d.code")),
    ({"a": {"path": "d.code"}}, {"d": {"code": ["I10"]}}, ("not_a_code", "d.code")),
    ({"a": {"path": "d.code"}}, {"d": {"code": " "}}, ("empty", "d.code")),
    ({"a": {"path": "d.code"}}, {"d": {"code": "Z99"}}, ("unknown_code", "d.code")),
    ({"a": {"path": "d.code"}}, {"d": ["I10"]}, ("wrong_shape", "d.code")),
    ({"a": {"path": "s[*].code"}}, {}, ("missing", "s[*].code")),
    ({"a": {"path": "s[*].code"}}, {"s": [{"code": "I10"}, {}]}, ("missing", "s[*].code")),
    ({"a": {"path": "s[*].code"}}, {"s": {"code": "I10"}}, ("wrong_shape", "s[*].code")),
    ({"a": {"path": "c[?s=x].code"}}, {"c": ["I10"]}, ("wrong_shape", "c[?s=x].code")),
    ({"a": {"path": "x", "also": ["y"]}}, {"z": 1}, ("missing", "x")),
    ({"a": {"path": "x", "also": ["y"]}}, {"x": None, "y": "Z99"}, ("unknown_code", "x")),
    ({"a": {"path": "x", "also": ["y"]}}, {"x": 7, "y": "I10"}, ("not_a_code", "x")),
]


@pytest.mark.parametrize(("attributes", "document", "rejection"), REJECTIONS)
def test_rejections(bench, attributes, document, rejection):
    assert bench(attributes).mask_one(document) == rejection
