"""Plans that use every option, and a good record of each."""

from __future__ import annotations

from stream_masker.pipeline.paths import compile_path
from stream_masker.pipeline.transforms import (
    Constant,
    DateShift,
    DateUnit,
    FormattedPseudonym,
    LeadingCharacters,
    NumberBands,
)

FLAT = (
    {"a": {"path": "diag_1", "label": "text_1"}, "b": {"path": "diag_2", "missing": "keep", "unknown": "suppress"}},
    {"unlisted": "drop", "fields": {"keep": ["age", "n"], "pseudonymize": ["id", "n2"]}},
)
NESTED = (
    {
        "a": {"path": "d.p.code", "label": "d.p.text", "unknown": "ancestor"},
        "b": {"path": "d.s[*].code", "label": "d.s[*].text", "copies": ["again[*]"], "missing": "keep"},
    },
    {
        "unlisted": "keep",
        "fields": {"drop": ["n", "d.s[*].n", "age.n"], "pseudonymize": ["id", "n2", "d.p.n"]},
        "noise_key": "id",
    },
)
FHIR = (
    {
        "a": {"path": "coding[?system=icd].code", "label": "coding[?system=icd].text", "copies": ["copy"]},
        "b": {"path": "other[0].code", "missing": "keep"},
        "c": {"path": "codes[*]", "unknown": "suppress"},
    },
    {
        "unlisted": "drop",
        "fields": {
            "keep": ["n", "other[?kind=1].n", "other[?kind.x=true]", "other[2].id", "age", "id.n"],
            "drop": ["other[1].n", "coding[*].n"],
            "pseudonymize": ["other[*].id", "id", "n2[*].x"],
        },
        "noise_key": "id[?system=icd].n",
        "limits": {"depth": 6, "record_bytes": 2000},
    },
)
DEEP = (
    {"a": {"path": "x[?k=1].y[*].code", "missing": "keep"}, "b": {"path": "b", "copies": ["c", "e[0][1]"]}},
    {"unlisted": "drop", "fields": {"pseudonymize": ["x"], "keep": ["x[*].z", "e[1]"], "drop": ["x[*].z.n"]}},
)
NUMBERED = (
    {"a": {"path": "code", "label": "text"}, "b": {"path": "d.s[*]", "missing": "keep"}},
    {
        "unlisted": "drop",
        "fields": {"keep": ["x"], "pseudonymize": ["id"]},
        "numeric": {
            "n": {"path": "n", "integer": True, "minimum": 0, "maximum": 90},
            "m": {"path": "d.p[?k=1].n", "missing": "keep"},
        },
    },
)
TRANSFORMED = (
    {"a": {"path": "code"}},
    {
        "unlisted": "keep",
        "fields": {"drop": ["x.n"]},
        "noise_key": "id",
        "transforms": {
            "id": FormattedPseudonym("p-", 8),
            "age": NumberBands(10, 90),
            "x.born": DateShift(30, compile_path("id")),
            "x.visits[*]": DateUnit("month"),
            "x": Constant("x"),
            "place": LeadingCharacters(2),
            "flag": Constant(1),
        },
    },
)
PLANS = {"numbered": NUMBERED, "flat": FLAT, "nested": NESTED, "fhir": FHIR, "deep": DEEP, "transformed": TRANSFORMED}

GOOD = {
    "flat": {
        "diag_1": "I10",
        "text_1": "Diabetes",
        "diag_2": "e119",
        "age": 5,
        "id": "P1",
        "n": 1.5,
        "n2": 7,
        "x": [1, {}],
    },
    "nested": {
        "id": "P1",
        "age": {"n": 1, "m": None},
        "alpha": 0.25,
        "n": [1],
        "n2": {"x": [1, "y", True, None]},
        "d": {
            "p": {"code": "I10", "text": "ESSENTIAL", "n": 3},
            "s": [{"code": "E119", "text": "x", "n": 1}, {"code": "E11.65"}, {"text": "y"}, {"code": None}],
        },
        "again": ["i10", "E1165"],
    },
    "fhir": {
        "coding": [{"system": "snomed", "code": "1", "n": 2}, {"code": "I10", "system": "icd", "text": "état"}],
        "copy": "I110",
        "codes": ["E03", "zz", "E11.9"],
        "n": {"deep": [1]},
        "age": "[0-10)",
        "other": [{"code": "E03", "id": 1, "n": 1}, {"kind": 1, "n": 3, "id": "x"}, {"kind": {"x": True}, "n": 4}, 5],
        "id": [{"system": "x"}, {"system": "icd", "n": "KEY"}],
        "n2": [{"x": 1}, {"y": 2}, 3],
    },
    "transformed": {
        "id": "P1",
        "code": "I10",
        "age": 41.5,
        "n": 7,
        "x": {"born": "1980-02-29", "visits": ["2024-01-05", None, "2024-03-01"], "n": 1, "m": 2},
        "place": '80\u00e9"331',
        "flag": None,
    },
    "numbered": {
        "code": "I10",
        "text": "Diabetes",
        "id": 12,
        "n": 41,
        "x": [0.5, "\\", "é"],
        "d": {"s": ["E03", "I110"], "p": [{"k": 2, "n": 5}, {"k": 1, "n": -0.125}, None]},
    },
    "deep": {
        "x": [{"k": 1, "y": [{"code": "I10"}, {}], "z": {"n": 1, "m": 2}}, {"k": 2, "y": [{"code": "E03"}]}],
        "b": "E11.9",
        "c": "e119",
        "e": [[1, "I10", 2], {"keep": [1]}],
    },
}
