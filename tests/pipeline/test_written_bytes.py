"""What is written depends on the masked concepts alone: not on how the record wrote its codes, labels and copies."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.input_records import InputRecord, inputs

from stream_masker.core.batch import Batch, Column, Distortion, MaskedBatch
from stream_masker.pipeline.masker import RecordMasker
from stream_masker.pipeline.style import CANONICAL, Style

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
COPIES = st.one_of(CODES, LABELS)
ICD, OTHER = "http://hl7.org/fhir/sid/icd-10-cm", "http://snomed.info/sct"

READ: dict[str, Any] = {"unknown": "ancestor", "mapping": {"htn": "I10"}, "missing": "keep"}


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


SHAPES: dict[str, tuple[Any, dict[str, dict[str, Any]]]] = {
    "nested": (
        nested,
        {
            "principal": {
                "path": "a.principal.code",
                "label": "a.principal.display",
                "copies": ["a.principal.billed[0]", "a.principal.billed[1]"],
            },
            "secondary": {
                "path": "a.secondary[*].code",
                "label": "a.secondary[*].display",
                "copies": ["a.copies[*]"],
            },
        },
    ),
    "fhir": (
        fhir,
        {
            "code": {
                "path": f"code.coding[?system={ICD}].code",
                "label": "code.text",
                "copies": [f"code.coding[?system={ICD}].display"],
            },
            "condition": {
                "path": f"conditions[*].coding[?system={ICD}].code",
                "label": f"conditions[*].coding[?system={ICD}].display",
            },
        },
    ),
}


@st.composite
def twins(draw: st.DrawFn, shape: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Two events of the same structure and the same kept fields, with other codes, labels and copies."""
    sizes = draw(st.lists(st.integers(0, 3), min_size=3, max_size=3))
    make = SHAPES[shape][0]
    return make(draw, sizes), make(draw, sizes)


STYLES = [CANONICAL, Style(dot="remove", case="lower"), Style(text="label")]


class PlacedMechanism:
    """Masks the value at each place of a column by a given concept, independently of the value."""

    name = "placed"
    needs_group = False
    targets: Sequence[int] = (0,)

    def __init__(self, attributes: Sequence[str]) -> None:
        self.attributes = tuple(attributes)

    def mask_batch(self, batch: Batch, keys: Any) -> MaskedBatch:
        columns = tuple(Column(self._placed(column.codes), column.offsets) for column in batch.columns)
        return MaskedBatch(columns, (Distortion(),) * len(columns))

    def _placed(self, codes: np.ndarray) -> np.ndarray:
        return np.where(codes >= 0, np.resize(np.array(self.targets, np.int32), len(codes)), codes)


@pytest.fixture(scope="module")
def maskers(bench: Any) -> dict[str, tuple[PlacedMechanism, RecordMasker]]:
    """For each shape a mechanism and its masker."""
    made = {}
    for shape, (_, attributes) in SHAPES.items():
        plan = bench({name: {**READ, **given} for name, given in attributes.items()}).plan
        mechanism = PlacedMechanism(tuple(attributes))
        made[shape] = mechanism, RecordMasker(plan, mechanism, b"a secret")
    return made


def written(masker: RecordMasker, document: dict[str, Any], *, ascii_only: bool) -> bytes | None:
    """The masked bytes of a record that nothing else is masked with."""
    value = json.dumps(document, ensure_ascii=ascii_only).encode()
    result = masker.mask("discharges", 0, inputs([InputRecord(5, value)]), statistics_version=1)
    assert not result.rejected
    return result.values[0]


@pytest.mark.parametrize("shape", SHAPES)
@given(
    data=st.data(),
    style=st.sampled_from(STYLES),
    targets=st.lists(st.integers(0, 11), min_size=6, max_size=6),
    ascii_only=st.booleans(),
)
def test_bytes_depend_on_the_masked_concepts_alone(maskers, shape, data, style, targets, ascii_only):
    mechanism, masker = maskers[shape]
    mechanism.targets = targets
    masker.set_styles(dict.fromkeys(mechanism.attributes, style))
    texts = {written(masker, twin, ascii_only=ascii_only) for twin in data.draw(twins(shape))}
    assert len(texts) == 1
