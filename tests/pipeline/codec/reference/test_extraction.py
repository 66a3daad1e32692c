"""Codes with their labels and copies: extraction, rejections, and replacement."""

from __future__ import annotations

import pytest

from stream_masker.core.ontology.concepts import LONGEST_CACHED
from stream_masker.pipeline.masker import RecordMasker

SECRET = b"a secret of the tests"

LABELLED = {"a": {"path": "d.code", "label": "d.text"}}
COPIED = {"a": {"path": "d.code", "label": "other.text", "copies": ["copy", "d.again", "list[0].code"]}}
ARRAY = {"a": {"path": "d[*].code", "label": "d[*].text"}}


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        (None, "not_a_code"),
        (1, "not_a_code"),
        (1.5, "not_a_code"),
        (True, "not_a_code"),
        ({}, "not_a_code"),
        ({"code": "I10"}, "not_a_code"),
        ([], "not_a_code"),
        (["I10"], "not_a_code"),
        ("", "empty"),
        (" \t\n\u00a0", "empty"),
        ("X99", "unknown_code"),
        ("I10\u0000", "unknown_code"),
    ],
)
@pytest.mark.parametrize(
    ("path", "wrap"),
    [
        ("code", lambda code: {"code": code}),
        ("a.b.c.code", lambda code: {"a": {"b": {"c": {"code": code}}}}),
        ("a[1].code", lambda code: {"a": [1, {"code": code}]}),
        ("a[?s=x].code", lambda code: {"a": [{"s": "y", "code": "I10"}, {"s": "x", "code": code}]}),
        ("codes[*]", lambda code: {"codes": ["I10", code, "I10"]}),
        ("a.b[*].code", lambda code: {"a": {"b": [{"code": "I10"}, {"code": code}]}}),
        (
            "a[*].b[?s=x].code",
            lambda code: {"a": [{"b": [{"s": "x", "code": "I10"}]}, {"b": [{"s": "x", "code": code}]}]},
        ),
    ],
)
def test_rejects_a_value_that_is_not_a_code(bench, path, wrap, code, reason):
    assert bench({"a": {"path": path}}).mask_one(wrap(code)) == (reason, path)


@pytest.mark.parametrize(
    ("path", "record"),
    [
        ("code", {}),
        ("a.b.code", {}),
        ("a.b.code", {"a": None}),
        ("a.b.code", {"a": {"b": {}}}),
        ("a[1].code", {"a": [{"code": "I10"}]}),
        ("a[?s=x].code", {"a": [{"s": "y", "code": "I10"}, None]}),
        ("a[?s=x].code", {"a": []}),
        ("codes[*]", {}),
        ("codes[*]", {"codes": None}),
        ("a[*].code", {"a": [{"code": "I10"}, {}]}),
        ("a[*].code", {"a": [None]}),
        ("a[*].b.code", {"a": [{"b": {"code": "I10"}}, {"b": None}]}),
    ],
)
def test_missing_attributes(bench, path, record):
    assert bench({"a": {"path": path}}).mask_one(record) == ("missing", path)
    assert bench({"a": {"path": path, "missing": "keep"}}).mask(record)[0].value is not None


@pytest.mark.parametrize("empty", ["", " \t"])
def test_an_empty_code_is_null_where_missing_ones_are_kept(bench, empty):
    scalar = {"a": {"path": "d.code", "label": "d.text", "missing": "keep"}}
    assert bench(scalar).mask_one({"d": {"code": empty, "text": "x"}}) == {"d": {"code": None, "text": None}}
    array = {"a": {"path": "d[*]", "missing": "keep"}}
    assert bench(array).mask_one({"d": [empty, "I10"]}) == {"d": [None, "E11.9"]}


@pytest.mark.parametrize(
    ("path", "record"),
    [
        ("a.code", {"a": "I10"}),
        ("a.code", {"a": [{"code": "I10"}]}),
        ("a.b.code", {"a": {"b": 7}}),
        ("a[0]", {"a": "I10"}),
        ("a[0].code", {"a": {"0": {"code": "I10"}}}),
        ("a[?s=x].code", {"a": {"s": "x", "code": "I10"}}),
        ("a[?s=x].code", {"a": ["I10"]}),
        ("a[?s=x].code", {"a": ["I10", {"s": "x", "code": "I10"}]}),
        ("a[*].b[?s=x].code", {"a": [{"b": [{"s": "x", "code": "I10"}, ["I10"]]}]}),
        ("codes[*]", {"codes": "I10"}),
        ("codes[*]", {"codes": {}}),
        ("codes[*].code", {"codes": ""}),
        ("codes[*].code", {"codes": {}}),
        ("a[*].code", {"a": ["I10"]}),
        ("a[*].code", {"a": {"code": "I10"}}),
        ("a[*].code", {"a": [["I10"]]}),
    ],
)
@pytest.mark.parametrize("missing", ["reject", "keep"])
def test_rejects_a_record_whose_shape_does_not_fit_the_path(bench, path, record, missing):
    assert bench({"a": {"path": path, "missing": missing}}).mask_one(record) == ("wrong_shape", path)


@pytest.mark.parametrize(
    "other",
    [
        {"other": "Hypertension"},
        {"other": ["Hypertension"]},
        {"list": {"code": "I10"}},
        {"list": ["I10"]},
        {"list": "I10"},
    ],
)
def test_rejects_labels_and_copies_of_another_shape(bench, other):
    reason, field = bench(COPIED).mask_one({"d": {"code": "I10"}, **other})
    assert reason == "wrong_shape"
    assert field in ("other.text", "list[0].code")


@pytest.mark.parametrize(
    ("label", "masked"),
    [
        ("Essential hypertension", "Type 2 diabetes"),
        ("ESSENTIAL", "Type 2 diabetes"),
        ("essential", "Type 2 diabetes"),
        ("", "Type 2 diabetes"),
        (12, "Type 2 diabetes"),
        (False, "Type 2 diabetes"),
        ({"de": "Bluthochdruck"}, "Type 2 diabetes"),
        (["Bluthochdruck"], "Type 2 diabetes"),
        (None, None),
    ],
)
def test_labels_are_replaced_with_their_codes(bench, label, masked):
    assert bench(LABELLED).mask_one({"d": {"code": "I10", "text": label}}) == {"d": {"code": "E11.9", "text": masked}}
    assert bench(COPIED).mask_one({"d": {"code": "I10"}, "other": {"text": label}}) == {
        "d": {"code": "E11.9"},
        "other": {"text": masked},
    }
    assert bench(ARRAY).mask_one({"d": [{"code": "I10", "text": label}]}) == {"d": [{"code": "E11.9", "text": masked}]}


def test_the_label_of_a_concept_without_label_becomes_null(bench):
    assert bench(LABELLED).mask_one({"d": {"code": "I11", "text": "Heart"}}) == {"d": {"code": "E03", "text": None}}


def test_a_label_is_rewritten_even_if_the_code_is_unchanged(bench):
    on_bench = bench(COPIED)
    assert on_bench.mask_one({"d": {"code": "E03"}, "other": {"text": "Lazy thyroid"}, "copy": "E039"}) == {
        "d": {"code": "E03"},
        "other": {"text": None},
        "copy": "E03",
    }


def test_absent_labels_and_copies_stay_absent(bench):
    assert bench(LABELLED).mask_one({"d": {"code": "I10"}}) == {"d": {"code": "E11.9"}}
    assert bench(COPIED).mask_one({"d": {"code": "I10"}, "other": {}, "list": []}) == {
        "d": {"code": "E11.9"},
        "other": {},
        "list": [],
    }


def test_copies_are_written_as_the_code(bench):
    record = {"copy": "i110", "d": {"code": "I11.0", "again": "I11.0"}, "list": [{"code": "I110"}]}
    assert bench(COPIED).mask_one(record) == {
        "copy": "E11.65",
        "d": {"code": "E11.65", "again": "E11.65"},
        "list": [{"code": "E11.65"}],
    }


@pytest.mark.parametrize("copy", ["no code", 17, {"code": "I110"}, ["I110"], "", True])
def test_copies_that_are_no_code_are_replaced(bench, copy):
    assert bench(COPIED).mask_one({"copy": copy, "d": {"code": "i110"}}) == {"copy": "E11.65", "d": {"code": "E11.65"}}


def test_null_copies_stay_null(bench):
    assert bench(COPIED).mask_one({"copy": None, "d": {"code": "I10"}}) == {"copy": None, "d": {"code": "E11.9"}}


def test_unknown_codes_follow_the_policy(bench):
    record = {"d": {"code": "E11.99", "text": "Diabetes"}, "copy": "E11.99", "other": {"text": "Diabetes"}}
    for policy, expected in [("reject", ("unknown_code", "d.code")), ("ancestor", "I11.0"), ("suppress", None)]:
        got = bench({"a": {**COPIED["a"], "unknown": policy}}).mask_one(record)
        assert (got if policy == "reject" else got["d"]["code"]) == expected
    assert got == {"d": {"code": None, "text": "Diabetes"}, "copy": None, "other": {"text": None}}
    got = bench({"a": {**LABELLED["a"], "unknown": "suppress"}}).mask_one({"d": {"code": "X", "text": "Diabetes"}})
    assert got == {"d": {"code": None, "text": None}}
    assert bench({"a": {**LABELLED["a"], "unknown": "ancestor"}}).mask_one(record | {"d": {"code": "Z1"}}) == (
        "unknown_code",
        "d.code",
    )


def test_labels_and_copies_without_a_code_are_removed(bench):
    keep = {"a": {**COPIED["a"], "missing": "keep"}}
    record = {"d": {"again": "I10"}, "copy": "I10", "other": {"text": "Hypertension"}}
    assert bench(keep).mask_one(record) == {"d": {"again": None}, "copy": None, "other": {"text": None}}
    assert bench(keep).mask_one({"d": {"code": None}, "copy": "I10"}) == {"d": {"code": None}, "copy": None}
    beside = {"a": {**LABELLED["a"], "missing": "keep"}}
    assert bench(beside).mask_one({"d": {"text": "Hypertension"}}) == {"d": {"text": None}}


def test_arrays_are_masked_element_by_element(bench):
    record = {"d": [{"code": "I10", "text": "X"}, {"code": "i110"}, {"code": "E11.65", "text": "y"}]}
    assert bench(ARRAY).mask_one(record) == {
        "d": [
            {"code": "E11.9", "text": "Type 2 diabetes"},
            {"code": "E11.65"},
            {"code": "I10", "text": "Essential hypertension"},
        ]
    }
    assert bench(ARRAY).mask_one({"d": []}) == {"d": []}
    assert bench({"a": {"path": "codes[*]"}}).mask_one({"codes": ["I10", "I11"]}) == {"codes": ["E11.9", "E03"]}


def test_elements_without_a_code_keep_their_positions(bench):
    keep = bench({"a": {**ARRAY["a"], "missing": "keep"}})
    record = {"d": [{"text": "X"}, {"code": "I10", "text": "X"}, {"code": None, "text": "X"}, {}, None]}
    assert keep.mask_one(record) == {
        "d": [{"text": None}, {"code": "E11.9", "text": "Type 2 diabetes"}, {"code": None, "text": None}, {}, None]
    }
    suppress = bench({"a": {**ARRAY["a"], "unknown": "suppress"}})
    record = {"d": [{"code": "Z", "text": "X"}, {"code": "I10", "text": "X"}]}
    assert suppress.mask_one(record) == {
        "d": [{"code": None, "text": None}, {"code": "E11.9", "text": "Type 2 diabetes"}]
    }


def test_labels_and_copies_in_separate_lists_belong_to_the_code_at_the_same_position(bench):
    attribute = {"path": "codes[*]", "label": "labels[*]", "copies": ["rows[*].c"], "missing": "keep"}
    record = {
        "labels": ["A", "b", "C", "surplus"],
        "codes": ["I10", None, "I11.0"],
        "rows": [{"c": "I10"}, {"c": "x"}, {}, {"c": "surplus"}],
    }
    assert bench({"a": attribute}).mask_one(record) == {
        "labels": ["Type 2 diabetes", None, "Type 2 diabetes with hyperglycemia", None],
        "codes": ["E11.9", None, "E11.65"],
        "rows": [{"c": "E11.9"}, {"c": None}, {}, {"c": None}],
    }
    assert bench({"a": attribute}).mask_one({"labels": ["A"], "rows": [{"c": "I10"}]}) == {
        "labels": [None],
        "rows": [{"c": None}],
    }


def test_further_matches_of_a_filter_are_copies(bench):
    attribute = {"path": "coding[?s=icd].code", "label": "coding[?s=icd].display"}
    record = {
        "coding": [
            {"s": "sct", "code": "38341003", "display": "High"},
            {"s": "icd", "code": "I11.0", "display": "High"},
            {"s": "icd", "code": "i10", "display": "low"},
            {"s": "icd", "display": "Alone"},
        ]
    }
    assert bench({"a": attribute}).mask_one(record) == {
        "coding": [
            {"s": "sct", "code": "38341003", "display": "High"},
            {"s": "icd", "code": "E11.65", "display": "Type 2 diabetes with hyperglycemia"},
            {"s": "icd", "code": "E11.65", "display": "Type 2 diabetes with hyperglycemia"},
            {"s": "icd", "display": "Type 2 diabetes with hyperglycemia"},
        ]
    }
    outer = bench({"a": {"path": "lists[?s=x].codes[*]", "missing": "keep"}})
    record = {"lists": [{"s": "x", "codes": ["I10"]}, {"s": "x", "codes": ["I10", "I11.0"]}]}
    assert outer.mask_one(record) == {"lists": [{"s": "x", "codes": ["E11.9"]}, {"s": "x", "codes": ["E11.9", None]}]}


def test_the_batch_holds_positions_of_all_records(bench):
    on_bench = bench({"a": {"path": "a", "missing": "keep"}, "b": {"path": "b[*]", "unknown": "suppress"}})
    outcomes = on_bench.mask(
        {"a": "I10", "b": ["E03", "Z", "I11"]}, {"b": []}, {"a": "X", "b": []}, {"a": "i10", "b": ["e03"]}
    )
    assert [type(outcome).__name__ for outcome in outcomes] == ["Masked", "Masked", "Rejected", "Masked"]
    ((batch, _),) = on_bench.mechanism.seen
    ids = on_bench.taxonomy.ids
    assert batch.size == 3
    assert [ids[c] if c >= 0 else c for c in batch.columns[0].codes] == ["I10", -1, "I10"]
    assert [ids[c] for c in batch.columns[1].codes] == ["E03", "I11", "E03"]
    assert batch.columns[1].offsets.tolist() == [0, 2, 2, 3]


def uncompiled(on_bench):
    on_bench.masker = RecordMasker(on_bench.plan, on_bench.mechanism, SECRET, compiled=False)
    return on_bench


@pytest.mark.parametrize("unknown", ["reject", "suppress", "ancestor"])
def test_long_texts_are_not_cached(bench, unknown):
    on_bench = uncompiled(bench({"a": {"path": "a", "unknown": unknown}}))
    (attribute,) = on_bench.masker._reference.attributes
    for text in ("I10" + " " * LONGEST_CACHED, "X" * (LONGEST_CACHED + 1), "I10" + "X" * LONGEST_CACHED):
        on_bench.mask_one({"a": text})
    assert not attribute._values
    assert not attribute.plan.concepts._cache
