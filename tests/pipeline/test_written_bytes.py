"""What is written depends on the masked concepts alone: not on how the record wrote its codes, labels and copies."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

CODES = st.sampled_from(
    ["I10", "i10", " I10", "E11.9", "e11.9", "E119", "e119", "I110", "I11.0", "E1165", "E03", "E11.99", "i109", "htn"]
) | st.sampled_from(["Diabetes", "DIABETES", "type 2 diabetes", "Essential hypertension"])
LABELS = st.one_of(
    st.sampled_from(["Diabetes", "DIABETES", "état", "ÉTAT", "", " ", "I10", 'say "x"', "x" * 300, "\U0001f642"]),
    st.text(max_size=5),
    st.integers(-5, 5),
    st.booleans(),
    st.lists(st.integers(0, 3), max_size=2),
    st.dictionaries(st.sampled_from(["a", "b"]), st.integers(0, 3), max_size=2),
)
COPIES = CODES | LABELS
ICD, OTHER = "http://hl7.org/fhir/sid/icd-10-cm", "http://snomed.info/sct"
MATCHING = f"coding[?system={ICD}]"


def coding(system: str, code: Any, display: Any) -> dict[str, Any]:
    return {"system": system, "code": code, "display": display}


def nested(draw: st.DrawFn, sizes: list[int]) -> dict[str, Any]:
    secondary = [{"code": draw(CODES), "display": draw(LABELS), "rank": rank} for rank in range(sizes[0])]
    principal = {"code": draw(CODES), "display": draw(LABELS), "billed": [draw(COPIES), draw(COPIES)]}
    return {"a": {"principal": principal, "secondary": secondary, "copies": [draw(COPIES) for _ in range(sizes[0])]}}


def fhir(draw: st.DrawFn, sizes: list[int]) -> dict[str, Any]:
    others = [coding(OTHER, "38341003", "kept") for _ in range(sizes[1])]
    matches = [coding(ICD, draw(CODES), draw(LABELS)), *(coding(ICD, draw(COPIES), "kept") for _ in range(sizes[2]))]
    conditions = [{"coding": [coding(ICD, draw(CODES), draw(LABELS)), *others]} for _ in range(sizes[0])]
    return {"code": {"coding": [*others, *matches], "text": draw(LABELS)}, "conditions": conditions}


SHAPES: dict[Any, list[dict[str, Any]]] = {
    nested: [
        {
            "path": "a.principal.code",
            "label": "a.principal.display",
            "copies": [f"a.principal.billed[{k}]" for k in (0, 1)],
        },
        {"path": "a.secondary[*].code", "label": "a.secondary[*].display", "copies": ["a.copies[*]"]},
    ],
    fhir: [
        {"path": f"code.{MATCHING}.code", "label": "code.text", "copies": [f"code.{MATCHING}.display"]},
        {"path": f"conditions[*].{MATCHING}.code", "label": f"conditions[*].{MATCHING}.display"},
    ],
}
STYLES = ("id", "dotless", "label")
READ = {"unknown": "ancestor", "mapping": {"htn": "I10"}, "missing": "keep"}


@pytest.fixture(scope="module")
def benches(bench: Any) -> dict[Any, Any]:
    """For each shape and style a bench; the masks of its two attributes are always the same two concepts."""
    tables = {
        name: dict.fromkeys(bench({"x": {"path": "x"}}).taxonomy.ids, mask)
        for name, mask in (("x", "E11.65"), ("y", "I11.0"))
    }
    return {
        (shape, style): bench(
            {name: {**READ, **given, "style": style} for name, given in zip("xy", attributes, strict=True)},
            tables=tables,
        )
        for shape, attributes in SHAPES.items()
        for style in STYLES
    }


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("style", STYLES)
@given(data=st.data(), sizes=st.lists(st.integers(0, 3), min_size=3, max_size=3), ascii_only=st.booleans())
def test_bytes_depend_on_the_masked_concepts_alone(benches, shape, style, data, sizes, ascii_only):
    """Of two events of the same structure and the same kept fields, with other codes, labels and copies."""
    make = st.composite(lambda draw: shape(draw, sizes))()
    twins = [json.dumps(data.draw(make), ensure_ascii=ascii_only).encode() for _ in range(2)]
    one, other = (outcome.value for outcome in benches[shape, style].mask(*twins))
    assert one == other
