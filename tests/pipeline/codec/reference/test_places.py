"""Codes in lists of lists, in elements that filters select, and in several places."""

from __future__ import annotations

import pytest

from stream_masker.pipeline.paths import compile_path
from stream_masker.pipeline.plan import Place

EVERY = "reasons[*].coding[*?system=icd]"


def coding(code, display="raw", system="icd"):
    return {"system": system, "code": code, "display": display}


def place(path):
    return Place(compile_path(f"{path}.code"), compile_path(f"{path}.display"))


@pytest.fixture
def on_bench(bench):
    attribute = {"path": f"{EVERY}.code", "label": f"{EVERY}.display", "also": (place("more[*].deep[*].one"),)}
    return bench({"a": {**attribute, "missing": "keep"}}, unlisted="drop")


def test_every_coding_of_a_system_is_masked_on_its_own(on_bench):
    first = {"coding": [coding("X", system="other"), coding("I10"), coding("E11.9")], "text": "in words"}
    event = {"reasons": [first, {"coding": []}, {}, {"coding": [coding("E11.65")]}]}
    assert on_bench.mask_one(event) == {
        "reasons": [
            {"coding": [coding("E11.9", "Type 2 diabetes"), coding("I11.0", "Hypertensive heart disease")]},
            {"coding": []},
            {},
            {"coding": [coding("I10", "Essential hypertension")]},
        ]
    }


def test_all_places_have_the_codes_of_one_attribute(on_bench):
    deep = [{"deep": [{"one": {"code": "I10", "display": "raw"}}, {"one": {"code": "I11.0"}}]}]
    masked = on_bench.mask_one({"reasons": [{"coding": [coding("E11.9")]}], "more": deep})
    assert masked["more"] == [
        {"deep": [{"one": {"code": "E11.9", "display": "Type 2 diabetes"}}, {"one": {"code": "E11.65"}}]}
    ]
    ((batch, _),) = on_bench.mechanism.seen
    ids = on_bench.taxonomy.ids
    assert [ids[code] for code in batch.columns[0].codes] == ["E11.9", "I10", "I11.0"]


def test_a_code_that_is_none_is_rejected_with_its_own_path(on_bench):
    deep = [{"deep": [{"one": {"code": "nonsense"}}]}]
    assert on_bench.mask_one({"more": deep}) == ("unknown_code", "more[*].deep[*].one.code")
    (result,) = on_bench.result([on_bench.record(0, {"more": deep})]).blocks
    assert result.original.unknown == (1,)
    assert on_bench.mask_one({"reasons": [{"coding": [coding("nonsense")]}]}) == ("unknown_code", f"{EVERY}.code")


@pytest.mark.parametrize(
    "event",
    [{}, {"reasons": None}, {"reasons": []}, {"reasons": [{}]}, {"reasons": [{"coding": [coding("X", system="o")]}]}],
)
def test_absent_codes_are_masked_as_none(on_bench, event):
    assert on_bench.mask_one(event) in (
        {},
        {"reasons": None},
        {"reasons": []},
        {"reasons": [{}]},
        {"reasons": [{"coding": []}]},
    )


@pytest.mark.parametrize(
    ("event", "field"),
    [
        ({"reasons": "I10"}, f"{EVERY}.code"),
        ({"reasons": ["I10"]}, f"{EVERY}.code"),
        ({"reasons": [{"coding": {"code": "I10"}}]}, f"{EVERY}.code"),
        ({"reasons": [{"coding": ["I10"]}]}, f"{EVERY}.code"),
        ({"more": [{"deep": [{"one": "I10"}]}]}, "more[*].deep[*].one.display"),
    ],
)
def test_values_of_other_shapes_are_rejected(on_bench, event, field):
    assert on_bench.mask_one(event) == ("wrong_shape", field)


def test_without_any_list_an_attribute_is_missing(bench):
    required = bench({"a": {"path": f"{EVERY}.code"}})
    assert required.mask_one({}) == ("missing", f"{EVERY}.code")
    assert required.mask_one({"reasons": [{}]}) == ("missing", f"{EVERY}.code")
    assert required.mask_one({"reasons": [{"coding": []}]}) == {"reasons": [{"coding": []}]}


def test_labels_and_copies_belong_to_the_element_at_the_same_positions(bench):
    on_bench = bench({"a": {"path": "x[*].y[*].code", "label": "x[*].y[*].text", "copies": ["again[*].y[*]"]}})
    event = {
        "x": [{"y": [{"code": "I10", "text": "raw"}]}, {"y": [{"code": "E11.9"}]}],
        "again": [{"y": ["I10", "raw"]}],
    }
    assert on_bench.mask_one(event) == {
        "x": [{"y": [{"code": "E11.9", "text": "Type 2 diabetes"}]}, {"y": [{"code": "I11.0"}]}],
        "again": [{"y": ["E11.9", None]}],
    }


def test_such_plans_are_decoded_by_the_reference_codec(on_bench, bench):
    assert not on_bench.masker.is_compiled
    assert not bench({"a": {"path": "x[*?s=1].code"}}).masker.is_compiled
    assert bench({"a": {"path": "x[*].code"}}).masker.is_compiled
