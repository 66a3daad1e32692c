"""The style of an attribute: one text for each concept."""

from __future__ import annotations

from collections import Counter
from typing import get_args

import orjson
import pytest

from stream_masker.pipeline.plan import Style, written_code
from stream_masker.service.init.proposal import most_used_style

ICD9 = {
    "250": "038",
    "250.01": "008.45",
    "038.9": "V01.1",
    "038": "250.01",
    "008": "038.9",
    "008.45": "001-139",
    "V01.1": "008.45",
    "V01": "038",
    "845": "ICD9CM",
}

CODE = {"code": {"path": "code"}}


def written(bench, concept, style):
    """The text of a concept under a style."""
    concepts = bench.plan.attributes[0].concepts
    return written_code(concepts, style, bench.taxonomy.position(concept))


@pytest.fixture(scope="module")
def icd10(bench):
    return bench(CODE)


@pytest.fixture(scope="module")
def icd9(bench):
    return bench(CODE, edges=bench.icd9, labels={}, tables={"code": ICD9})


@pytest.mark.parametrize(
    ("name", "concept", "style", "text"),
    [
        ("icd10", "E11.65", "id", "E11.65"),
        ("icd10", "E11.65", "dotless", "E1165"),
        ("icd10", "E11.65", "label", "Type 2 diabetes with hyperglycemia"),
        ("icd10", "E11.6", "label", "E11.6"),
        ("icd10", "E08-E13", "dotless", "E08-E13"),
        ("icd10", "ROOT", "label", "ROOT"),
        ("icd9", "038.9", "dotless", "0389"),
        ("icd9", "V01.1", "dotless", "V011"),
        ("icd9", "001-139", "dotless", "001-139"),
    ],
)
def test_codes_in_a_style(request, name, concept, style, text):
    assert written(request.getfixturevalue(name), concept, style) == text


def test_a_text_that_the_mapping_file_takes_is_avoided(bench):
    mapped = bench({"code": {"path": "code", "mapping": {"E1165": "I10"}}})
    assert written(mapped, "E11.65", "dotless") == "E11.65"


@pytest.mark.parametrize("style", [style for style in get_args(Style) if style != "label"])
@pytest.mark.parametrize("name", ["icd10", "icd9"])
def test_every_written_text_is_found_again_as_its_concept(request, name, style):
    on_bench = request.getfixturevalue(name)
    concepts = on_bench.plan.attributes[0].concepts
    texts = [written_code(concepts, style, position) for position in range(len(on_bench.taxonomy))]
    assert [concepts.find(text).position for text in texts] == list(range(len(texts)))
    assert len(set(texts)) == len(texts)


ORIGINALS = ["I10", "i10", " I10", "Essential hypertension", "high blood pressure", "htn", "I10.9", "i109"]


@pytest.mark.parametrize(("style", "masked"), [("id", "E11.9"), ("dotless", "E119"), ("label", "Type 2 diabetes")])
def test_one_style_is_written_whatever_the_record_has(bench, style, masked):
    given = {"path": "code", "style": style, "unknown": "ancestor", "mapping": {"htn": "I10"}}
    on_bench = bench({"code": given}, synonyms={"I10": ["High blood pressure"]})
    written = [orjson.loads(outcome.value)["code"] for outcome in on_bench.mask(*({"code": c} for c in ORIGINALS))]
    assert written == [masked] * len(ORIGINALS)


def test_each_attribute_has_its_own_style(bench):
    on_bench = bench({"a": {"path": "a"}, "b": {"path": "b[*]", "style": "dotless"}})
    assert on_bench.mask_one({"a": "I110", "b": ["i10", "E11.9"]}) == {"a": "E11.65", "b": ["E119", "I110"]}


CODES = ["I10", "I11.0", "E11.9", "E11.65", "E03", "E11"]


@pytest.mark.parametrize(
    ("bench_name", "texts", "style"),
    [
        ("icd10", CODES, "id"),
        ("icd10", ["I10", "E03"], "id"),
        ("icd10", ["I10", "E119", "E1165", "I11.0"], "dotless"),
        ("icd10", ["E119", "I11.0"], "id"),
        ("icd10", ["i10", " e119", "i110", "I11.0"], "dotless"),
        ("icd10", ["Diabetes", "TYPE 2 DIABETES", "I10"], "label"),
        ("icd10", ["Diabetes", "I10"], "id"),
        ("icd10", ["no code", "E11.99"], "id"),
        ("icd9", ["8.45", "250", "38.9"], "id"),
        ("icd9", ["00845", "0389"], "dotless"),
        ("icd10", [], "id"),
    ],
)
def test_the_style_of_most_texts_is_found(request, bench_name, texts, style):
    assert most_used_style(request.getfixturevalue(bench_name).plan.attributes[0].concepts, Counter(texts)) == style
