"""A comparison of the scanner with the reference codec on fixed records, made once at the start of a process.

A compiler can generate wrong machine code for one processor, version or option. The machine code of the scanner is the
same for every plan. A fixed plan and fixed records that use each part of the scanner can therefore detect wrong code
before a record is masked.
"""

from __future__ import annotations

import logging
from functools import cache
from typing import Any, Final

import numpy as np
import orjson

from stream_masker.core.batch import Batch, MaskedBatch
from stream_masker.core.context import ContextAttribute
from stream_masker.core.numeric import Numeric
from stream_masker.core.ontology import ConceptMap, Ontology
from stream_masker.pipeline.codec.base import DecodedBatch
from stream_masker.pipeline.codec.reference.codec import ReferenceCodec
from stream_masker.pipeline.codec.scanner.codec import ScannerCodec
from stream_masker.pipeline.contexts import ContextField
from stream_masker.pipeline.paths import compile_path
from stream_masker.pipeline.plan import AlphaSource, AttributePlan, FieldPolicy, NumericPlan, Plan
from stream_masker.pipeline.pseudonyms import Pseudonyms
from stream_masker.pipeline.records import InputRecord, Inputs
from stream_masker.pipeline.transforms import LeadingCharacters

_log = logging.getLogger(__name__)

_EDGES: Final = [("A", "root"), ("B", "root"), ("A1", "A"), ("A1.2", "A1"), ("B7", "B")]
_LABELS: Final = {"A1": "first", "A1.2": "second", "B7": "dernière"}

_EVENT: Final[dict[str, Any]] = {
    "id": "P 1",
    "alpha": 0.25,
    "age": 41,
    "main": {"code": "A1.2", "text": "second", "note": "n", "more": {"x": [1, 2.5, True, None], "y": '"'}},
    "list": [{"code": "B7", "text": "é"}, {"code": "a1", "n": -0.125}, {"code": None}, {"other": "x"}],
    "coding": [{"system": "other", "code": "1"}, {"system": "own", "code": "A1", "kept": 7}],
    "again": ["B7", "A1"],
    "postcode": "80\n331",
    "hidden": {"name": "N", "known": 3, "deep": [{"k": "v"}, 12, False]},
    "positions": [[0], {"kept": 1}, "second", {"dropped": 2}],
    "unlisted": {"a": [[], {}, ""]},
}
"""A record that the scanner decodes; every part of the plan selects something in it."""


def _records() -> list[bytes]:
    """Return the fixed records: the event in several notations and variants, cut off, and with single bytes changed."""
    text = orjson.dumps(_EVENT)
    numbers = [
        "1e5",
        "-0",
        "1.50",
        "18446744073709551615",
        "18446744073709551616",
        "0.1234567890123456789",
        "01",
        "1e999",
    ]
    variants: list[dict[str, Any]] = [
        {"main": {"code": "A1"}, "list": []},
        {"main": {"code": "unknown"}},
        {"main": {"code": 5}},
        {"list": None, "again": None},
        {"age": 4.5},
        {"age": None},
        {"alpha": 11},
        {"alpha": "0.5", "id": " "},
        {"coding": {}},
        {"positions": []},
        {"hidden": ["x", {"y": "z" * 300}]},
    ]
    return [
        text,
        orjson.dumps(_EVENT, option=orjson.OPT_INDENT_2),
        *(orjson.dumps({**_EVENT, **variant}) for variant in variants),
        *(text.replace(b'"unlisted":', b'"kept":%b,"unlisted":' % number.encode()) for number in numbers),
        text.replace(b'"id":', b'"id":"P 2","id":'),
        text.replace(b"second", b"\\u0073econd\\/\\n"),
        *(text[:end] for end in range(0, len(text), 7)),
        *(text[:at] + bytes([text[at] ^ 1 + at % 127]) + text[at + 1 :] for at in range(0, len(text), 5)),
    ]


_POLICY: Final = {
    "keep": (
        "kept",
        "main",
        "hidden.known",
        "positions[1].kept",
        "positions[2]",
        "list[*].n",
        "coding[?system=own].kept",
    ),
    "drop": ("main.more.x[1]",),
    "pseudonymize": ("id", "hidden", "main.note"),
}


def _plan() -> Plan:
    ontology = Ontology.from_edges(_EDGES, labels=_LABELS)
    taxonomy = ontology.taxonomy()
    paths = {name: tuple(map(compile_path, texts)) for name, texts in _POLICY.items()}

    def attribute(name: str, path: str, unknown: Any, **more: Any) -> AttributePlan:
        concepts = ConceptMap(taxonomy, unknown=unknown, ontology=ontology)
        return AttributePlan(name=name, path=compile_path(path), concepts=concepts, **more)

    return Plan(
        attributes=(
            attribute("main", "main.code", "reject", label=compile_path("main.text")),
            attribute(
                "list",
                "list[*].code",
                "suppress",
                label=compile_path("list[*].text"),
                copies=(compile_path("again[*]"),),
                missing="keep",
            ),
            attribute("coded", "coding[?system=own].code", "ancestor", missing="keep"),
        ),
        numeric=(NumericPlan(name="age", path=compile_path("age"), kind=Numeric(integer=True), missing="keep"),),
        fields=FieldPolicy(
            unlisted="drop",
            keep=paths["keep"],
            drop=paths["drop"],
            pseudonymize=paths["pseudonymize"],
            transforms={"generalize": {compile_path("postcode"): LeadingCharacters(3)}},
        ),
        noise_key=compile_path("id"),
        alpha=AlphaSource(path=compile_path("alpha"), default=0.5),
        context=(
            ContextField(compile_path("alpha"), ContextAttribute("alpha", bounds=(0.5, 1.0))),
            ContextField(compile_path("main.note"), ContextAttribute("note", texts=("n", "m"))),
            ContextField(compile_path("kept"), ContextAttribute("kept", bounds=(0.0, 2.0))),
        ),
        configuration="self-check",
    )


@cache
def scanner_agrees() -> bool:
    """Return whether the scanner gives the results of the reference codec for the fixed records. Log an error if
    not."""
    problem = find_difference()
    if problem is not None:
        _log.error(
            "the compiled scanner is wrong on this machine (%s): all records are decoded by the reference codec, which "
            "is slow; another version of numba or llvmlite, or another processor, may compile it correctly",
            problem,
        )
    return problem is None


def find_difference() -> str | None:
    """Return what differs between the scanner and the reference codec on the fixed records; None if nothing does."""
    plan, pseudonyms = _plan(), Pseudonyms(b"the fixed secret of the self-check")
    reference = ReferenceCodec(plan, pseudonyms)
    scanner = ScannerCodec(plan, reference.attributes, pseudonyms)
    records = Inputs.of([InputRecord(offset, value) for offset, value in enumerate(_records())])
    try:
        scanned = scanner.read(records)
        written = scanner.render(scanned, _unchanged(scanned.batch))
    except Exception as error:  # noqa: BLE001 - wrong machine code may raise anything
        return f"it failed with {type(error).__name__}"
    if 0 not in scanned.indices:
        return "it does not decode a plain record"
    literal = reference.read(records.at(scanned.indices.tolist()))
    if literal.rejected:
        return "it decodes a record that must be rejected"
    if not _equal(scanned, literal):
        return "it reads other values"
    return None if written == reference.render(literal, _unchanged(literal.batch)) else "it writes other bytes"


def _unchanged(batch: Batch) -> MaskedBatch:
    return MaskedBatch(batch.columns, (), batch.numeric)


def _equal(scanned: DecodedBatch[Any], literal: DecodedBatch[Any]) -> bool:
    """Return whether two decoded batches have the same values, keys, alphas and contexts."""
    pairs = zip(_arrays(scanned.batch), _arrays(literal.batch), strict=True)
    return scanned.keys == literal.keys and all(np.array_equal(*pair, equal_nan=True) for pair in pairs)


def _arrays(batch: Batch) -> list[Any]:
    return [
        *(array for column in batch.columns for array in (column.codes, column.offsets) if array is not None),
        *(array for array in (batch.alpha, batch.numeric, batch.context) if array is not None),
    ]
