"""The field policy: keep, drop and pseudonymize; the longest matching path decides."""

from __future__ import annotations

import re

import orjson
import pytest

from stream_masker.pipeline.transforms import Pseudonyms
from stream_masker.pipeline.walk import Reading, Tree

PSEUDONYMS = Pseudonyms(b"secret")
CODE = {"a": {"path": "d.code", "label": "d.text"}}


def p(value):
    return PSEUDONYMS.of_value(value)


def treated_by(plan, record):
    """Treat a copy of a record by the field policy alone: values that masking replaces stay."""
    document = orjson.loads(orjson.dumps(record))
    Tree(plan, PSEUDONYMS).walk([document], Reading({}))
    return document


@pytest.fixture
def treat(bench):
    def treated(record, *, attributes=None, unlisted="drop", **fields):
        plan = bench(attributes or CODE, unlisted=unlisted, fields=fields).plan
        return treated_by(plan, record)

    return treated


def test_unlisted_fields_are_dropped_or_kept(treat):
    record = {"z": 1, "d": {"x": 1, "text": "t", "code": "c"}, "a": {"b": 1}}
    assert treat(record) == {"d": {"text": "t", "code": "c"}}
    assert treat(record, unlisted="keep") == record


def test_the_order_of_keys_is_kept(treat):
    record = {"z": 1, "d": {"text": "t", "y": 2, "code": "c"}, "a": 3}
    assert list(treat(record, keep=["a", "z"])) == ["z", "d", "a"]
    assert list(treat(record, unlisted="keep", pseudonymize=["z", "a"])) == ["z", "d", "a"]
    assert orjson.dumps(treat(record, keep=["d.y"])) == b'{"d":{"text":"t","y":2,"code":"c"}}'


@pytest.mark.parametrize("unlisted", ["keep", "drop"])
def test_the_longest_path_decides(treat, unlisted):
    record = {"patient": {"id": 7, "name": {"first": "A", "last": "B"}, "age": 50}}
    policy = {"unlisted": unlisted, "keep": ["patient", "patient.name.last"], "drop": ["patient.name"]}
    assert treat(record, **policy) == {"patient": {"id": 7, "name": {"last": "B"}, "age": 50}}
    policy = {"unlisted": unlisted, "drop": ["patient"], "keep": ["patient.age"], "pseudonymize": ["patient.id"]}
    assert treat(record, **policy) == {"patient": {"id": p(7), "age": 50}}
    policy = {"unlisted": unlisted, "pseudonymize": ["patient"], "keep": ["patient.age"], "drop": ["patient.name.last"]}
    assert treat(record, **policy) == {"patient": {p("id"): p(7), "name": {p("first"): p("A")}, "age": 50}}


@pytest.mark.parametrize("policy", [{"drop": ["d"]}, {"pseudonymize": ["d"]}, {"unlisted": "keep", "drop": ["d"]}])
def test_attributes_are_kept_inside_dropped_or_pseudonymized_objects(treat, policy):
    kept = treat({"d": {"code": "c", "text": "t", "x": 1}}, **policy)
    assert (kept["d"]["code"], kept["d"]["text"]) == ("c", "t")
    assert "x" not in kept["d"]
    assert kept["d"].get(p("x")) in (None, p(1))


def test_names_in_a_pseudonymized_object_are_pseudonyms_unless_a_path_has_them(treat):
    """Names can be data: ``{"relatives": {"Ada Smith": "mother"}}``."""
    record = {"relatives": {"Ada Smith": "mother", "count": 2, "": {"Bo": [{"deep": None}]}}}
    treated = treat(record, pseudonymize=["relatives"], keep=["relatives.count"])
    assert treated == {"relatives": {p("Ada Smith"): p("mother"), "count": 2, p(""): {p("Bo"): [{p("deep"): None}]}}}


def test_each_steps_apply_to_every_element(treat):
    record = {"list": [{"a": 1, "b": 2}, {"b": 3}, {"a": None, "c": 4}]}
    assert treat(record, keep=["list[*].a"]) == {"list": [{"a": 1}, {}, {"a": None}]}
    assert treat(record, unlisted="keep", drop=["list[*].b"]) == {"list": [{"a": 1}, {}, {"a": None, "c": 4}]}
    kept = treat(record, keep=["list[*].a"], pseudonymize=["list[*].b"])
    assert kept == {"list": [{"a": 1, "b": p(2)}, {"b": p(3)}, {"a": None}]}
    nested = {"list": [[{"a": 1, "b": 1}], []]}
    assert treat(nested, keep=["list[*][*].a"]) == {"list": [[{"a": 1}], []]}


def test_paths_select_by_position_and_by_filter(treat):
    record = {"list": [{"t": "x", "v": 1}, {"t": "y", "v": 2}, {"t": "x", "v": 3}]}
    assert treat(record, keep=["list[1].v"]) == {"list": [None, {"v": 2}]}
    assert treat(record, keep=["list[?t=x].v"]) == {"list": [{"t": "x", "v": 1}, {"t": "x", "v": 3}]}
    assert treat(record, unlisted="keep", drop=["list[?t=x]"]) == {"list": [{"t": "y", "v": 2}]}
    assert treat(record, unlisted="keep", drop=["list[?t=x].t"]) == {"list": [{"v": 1}, {"t": "y", "v": 2}, {"v": 3}]}
    kept = treat(record, keep=["list[*].v"], pseudonymize=["list[0].v"], drop=["list[?t=x].v"])
    assert kept == {"list": [{}, {"v": 2}, {}]}
    assert treat(record, keep=["list"], drop=["list[1]"]) == {"list": [record["list"][0], None, record["list"][2]]}


def test_equally_long_paths_drop_before_pseudonymize_before_keep(treat):
    record = {"l": ["a", "b", "c"]}
    assert treat(record, keep=["l[*]"], pseudonymize=["l[0]"]) == {"l": [p("a"), "b", "c"]}
    assert treat(record, pseudonymize=["l[*]"], keep=["l[0]"]) == {"l": [p("a"), p("b"), p("c")]}
    assert treat(record, drop=["l[*]"], keep=["l[0]"]) == {"l": []}


@pytest.mark.parametrize(
    "misshapen",
    [
        {"patient": "Jane Doe"},
        {"patient": [{"id": 1, "name": "Jane"}]},
        {"patient": 77},
        {"list": {"ssn": "077"}},
        {"list": "077"},
        {"list": ["077"]},
        {"list": [["077"]]},
    ],
)
def test_a_value_of_another_shape_than_a_dropped_path_is_dropped(treat, misshapen):
    policy = {"drop": ["patient.name", "list[*].ssn"], "pseudonymize": ["patient.id"]}
    assert str(treat(misshapen, unlisted="keep", **policy)) in ("{}", "{'list': []}")
    assert treat(misshapen, keep=["patient", "list"], **policy) in ({}, {"list": []})


def test_a_value_of_another_shape_gets_the_strictest_action_of_its_paths(treat):
    assert treat({"patient": "Jane"}, unlisted="keep", pseudonymize=["patient.id"]) == {"patient": p("Jane")}
    assert treat({"patient": "Jane"}, keep=["patient.age"]) == {}
    assert treat({"patient": "Jane"}, unlisted="keep", keep=["patient.age"]) == {"patient": "Jane"}
    assert treat({"patient": None}, pseudonymize=["patient.id"]) == {"patient": None}


def test_the_field_of_a_filter_is_kept_if_its_path_keeps_a_value(treat):
    attributes = {"a": {"path": "coding[?system=icd].code"}}
    record = {"coding": [{"system": "icd", "code": "c", "x": 1}, {"system": "sct", "code": "d"}]}
    assert treat(record, attributes=attributes) == {"coding": [{"system": "icd", "code": "c"}]}
    record = {"ids": [{"type": {"v": "mrn"}, "value": 1}, {"type": {"v": "ssn"}, "value": 2}]}
    kept = treat(record, pseudonymize=["ids[?type.v=mrn].value"])
    assert kept == {"ids": [{"type": {"v": "mrn"}, "value": p(1)}]}
    assert treat(record, keep=["ids[*].type"], drop=["ids[?type.v=ssn]"]) == {
        "ids": [{"type": {"v": "mrn"}}, {"type": {"v": "ssn"}}]
    }


def test_pseudonyms_are_keyed_hashes_of_the_text_alone():
    assert re.fullmatch("[0-9a-f]{32}", p("12"))
    assert p("12") == p(12) == PSEUDONYMS.of_bytes(b"12")
    assert p("ä") == PSEUDONYMS.of_bytes("ä".encode())
    assert (p(1.5), p(True)) == (p("1.5"), p("true"))
    assert p(None) is None
    assert p({"a": [1, {"b": None}], "c": "x"}) == {p("a"): [p(1), {p("b"): None}], p("c"): p("x")}
    assert len({p("a"), p("b"), p(""), Pseudonyms(b"other").of_value("a")}) == 4
