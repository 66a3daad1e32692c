"""The style of an attribute: one text for each concept, in the style of most observed codes."""

from __future__ import annotations

import numpy as np
import orjson
import pytest

from stream_masker.core.ontology import ConceptMap
from stream_masker.pipeline.style import (
    STYLES,
    Style,
    add_styles,
    count_styles,
    learned_styles,
    styles_of,
    written_code,
)

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
    return written_code(concepts, Style(style), bench.taxonomy.position(concept))


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
        ("icd10", "E08-E13", "bare", "E08-E13"),
        ("icd10", "ROOT", "bare", "ROOT"),
        ("icd9", "038.9", "unpadded", "38.9"),
        ("icd9", "038.9", "dotless", "0389"),
        ("icd9", "V01.1", "bare", "V011"),
        ("icd9", "001-139", "bare", "001-139"),
    ],
)
def test_codes_in_a_style(request, name, concept, style, text):
    assert written(request.getfixturevalue(name), concept, style) == text


def test_a_text_that_the_mapping_file_takes_is_avoided(bench):
    mapped = bench({"code": {"path": "code", "mapping": {"E1165": "I10"}}})
    assert written(mapped, "E11.65", "dotless") == "E11.65"


@pytest.mark.parametrize("style", STYLES[:-1], ids=str)
@pytest.mark.parametrize("name", ["icd10", "icd9"])
def test_every_written_text_is_found_again_as_its_concept(request, name, style):
    on_bench = request.getfixturevalue(name)
    concepts = on_bench.plan.attributes[0].concepts
    texts = [written_code(concepts, style, position) for position in range(len(on_bench.taxonomy))]
    assert [concepts.find(text).position for text in texts] == list(range(len(texts)))
    assert len(set(texts)) == len(texts)


ORIGINALS = ["I10", "i10", " I10", "Essential hypertension", "high blood pressure", "htn", "I10.9", "i109"]


@pytest.mark.parametrize(
    ("style", "masked"),
    [("id", "E11.9"), ("dotless", "E119"), ("label", "Type 2 diabetes")],
)
def test_one_style_is_written_whatever_the_record_has(bench, style, masked):
    given = {"path": "code", "unknown": "ancestor", "mapping": {"htn": "I10"}}
    on_bench = bench({"code": given}, synonyms={"I10": ["High blood pressure"]})
    on_bench.masker.set_styles({"code": Style(style)})
    written = [orjson.loads(outcome.value)["code"] for outcome in on_bench.mask(*({"code": c} for c in ORIGINALS))]
    assert written == [masked] * len(ORIGINALS)


def test_a_learned_style_holds_from_its_version_on(bench):
    on_bench, event = bench({"a": {"path": "a"}, "b": {"path": "b[*]"}}), {"a": "I110", "b": ["i10", "E11.9"]}
    assert on_bench.mask_one(event) == {"a": "E11.65", "b": ["E11.9", "I11.0"]}
    on_bench.masker.set_styles({"b": Style.DOTLESS})
    assert on_bench.mask_one(event) == {"a": "E11.65", "b": ["E119", "I110"]}
    on_bench.masker.set_styles({"a": Style.DOTLESS})
    assert on_bench.mask_one(event) == {"a": "E1165", "b": ["E11.9", "I11.0"]}


CODES = ["I10", "I11.0", "E11.9", "E11.65", "E03", "E11"]
DOTLESS = Style.DOTLESS


@pytest.mark.parametrize(
    ("bench_name", "texts", "style"),
    [
        ("icd10", CODES, Style.ID),
        ("icd10", ["I10", "E03"], Style.ID),
        ("icd10", ["I10", "E119", "E1165", "I11.0"], DOTLESS),
        ("icd10", ["E119", "I11.0"], Style.ID),
        ("icd10", ["i10", "e119", "I110"], Style.DOTLESS),
        ("icd10", ["E11999", "E119"], DOTLESS),
        ("icd10", ["Diabetes", "TYPE 2 DIABETES", "I10"], Style.LABEL),
        ("icd10", ["Diabetes", "I10"], Style.ID),
        ("icd9", ["8.45", "250", "38.9"], Style.UNPADDED),
        ("icd9", ["00845", "0389"], DOTLESS),
        ("icd10", [], Style.BARE),
    ],
)
def test_the_style_of_most_texts_is_learned(request, bench_name, texts, style):
    taxonomy = request.getfixturevalue(bench_name).taxonomy
    concepts = ConceptMap(taxonomy, unknown="ancestor")
    fitting = [styles_of(concepts, text, concepts.find(text)) for text in texts]
    assert learned_styles("a", [count_styles(np.array(fitting, np.int64))], {"a": Style.BARE}) == {"a": style}


def test_without_texts_the_earlier_style_stays():
    earlier = {"a": DOTLESS, "gone": Style.LABEL}
    nothing, canonical = (), (1,)
    assert learned_styles("ab", (), earlier) == {"a": DOTLESS, "b": Style.ID}
    assert learned_styles("ab", [nothing, nothing], earlier) == {"a": DOTLESS, "b": Style.ID}
    assert learned_styles("ab", [canonical, canonical], earlier) == {"a": Style.ID, "b": Style.ID}
    assert add_styles([[nothing], [canonical], [canonical]]) == ((2,),)


def test_blocks_and_samples_count_the_styles_of_original_codes(bench):
    on_bench = bench({"a": {"path": "a", "copies": ["copy"], "missing": "keep"}, "b": {"path": "b[*]"}})
    events = [
        {"a": "I110", "copy": "i11.0", "b": ["e11.9", "Diabetes", "I10"]},
        {"a": None, "b": []},
        {"a": "I10", "b": ["E03", "E119"]},
        {"a": "E119", "b": ["no code"]},
    ]
    expected = (2, 3)
    counted = on_bench.masker.count(map(orjson.dumps, events)).styles
    assert tuple(counts[STYLES.index(DOTLESS)] for counts in counted) == expected
    records = [on_bench.record(number, event) for number, event in enumerate(events)]
    assert add_styles(block.styles for block in on_bench.result(records).blocks) == counted
