"""The golden cases: a configuration in the documented format and rounds of events for each name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from copy import deepcopy
from dataclasses import dataclass
from functools import cache
from typing import Any

from golden import events
from golden.adapter import Round
from golden.events import Codes
from golden.ontologies import ICD9_FILE, dag_codes, tree_codes

Json = dict[str, Any]

ICD10 = ("I21.4", "I10", "E11.9", "J18.9", "J44.1", "I50.9", "N17.9", "A41.9", "E11.65", "E78.5", "K21.9", "I25.10")
ICD10 += ("F32.9", "G47.33", "M54.5", "N39.0", "D64.9", "J96.01", "R07.9", "Z79.4", "S72.001A", "T81.4XXA", "C34.90")

SIZES = ((300, 180), (150, 280, 120), (220, 200))
"""The records of each partition in each of three rounds; the window slides after the second."""

REAL_SIZES = ((900, 500), (700, 400), (800, 300))
SECTIONS: Json = {
    "calibration": {"window_records": 650, "every_records": 1_000_000, "min_records": 20},
    "groups": {"records": 40},
    "limits": {"record_bytes": 5_000},
    "secret": {"file": "secret"},
}


@dataclass(frozen=True, slots=True)
class Case:
    """A configuration and its events."""

    configuration: Json
    rounds: Callable[[], list[Round]]


def merged(*parts: Mapping[str, Any]) -> Json:
    """Configurations merged into one. Later values replace earlier ones; lists and mechanisms are not merged."""
    found: Json = {}
    for part in parts:
        for key, value in part.items():
            whole = key == "mechanism" or not isinstance(value, Mapping)
            found[key] = deepcopy(value) if whole else merged(found.get(key, {}), value)
    return found


SOURCES: Mapping[str, Json] = {
    "tree": {"source": "tree.csv"},
    "dag": {"source": "dag.csv"},
    "icd10": {"source": "icd10cm"},
    "icd9": {"source": ICD9_FILE.name},
    "values": {"values": [*ICD10, "extra"]},
}
CODES: Mapping[str, Callable[[], Codes]] = {
    "tree": lambda: Codes([code for code in tree_codes() if " " not in code]),
    "dag": lambda: Codes(dag_codes()[::7]),
    "icd10": lambda: Codes(ICD10),
    "values": lambda: Codes(ICD10),
}


def flat(ontology: str, *more: Mapping[str, Any]) -> Case:
    """Flat events with two attributes of one ontology."""
    attributes = {name: {"path": path, "ontology": ontology} for name, path in (("a", "diag_1"), ("b", "diag_2"))}
    own = {
        "ontologies": {ontology: SOURCES[ontology]},
        "attributes": attributes,
        "fields": {"keep": ["id", "age"], "pseudonymize": ["patient"], "unlisted": "drop"},
        "noise_key": "position",
        **mechanism(),
    }
    places = ("diag_1", "diag_2", "age", "stay", "id", "patient")
    rounds = cache(lambda: events.generated(events.flat, CODES[ontology](), SIZES, places=places))
    return Case(merged(SECTIONS, own, *more), rounds)


def nested(ontology: str, *more: Mapping[str, Any]) -> Case:
    """Nested events with a principal diagnosis, its copy, and an array of secondary ones with labels."""
    own = {
        "ontologies": {ontology: SOURCES[ontology]},
        "attributes": {
            "principal": {
                "path": "diagnoses.principal.code",
                "label": "diagnoses.principal.display",
                "copies": ["billing.main"],
                "ontology": ontology,
            },
            "secondary": {
                "path": "diagnoses.secondary[*].code",
                "label": "diagnoses.secondary[*].display",
                "copies": ["billing.all[*]"],
                "ontology": ontology,
                "missing": "keep",
            },
        },
        "fields": {
            "keep": ["encounter", "patient.age", "diagnoses.secondary[*].rank"],
            "drop": ["encounter.ward"],
            "pseudonymize": ["patient.id"],
            "unlisted": "drop",
        },
        "mechanism": {"reference": "mean"},
        "noise_key": "patient.id",
    }
    places = ("diagnoses.principal.code", "diagnoses.secondary.0.code", "patient.id", "privacy.alpha", "billing.main")
    rounds = cache(lambda: events.generated(events.nested, CODES[ontology](), SIZES, seed=2, places=places))
    return Case(merged(SECTIONS, own, *more), rounds)


def fhir(ontology: str, *more: Mapping[str, Any]) -> Case:
    """FHIR events, with codes found by filters and positions."""
    own = {
        "ontologies": {ontology: SOURCES[ontology]},
        "attributes": {
            "coding": {
                "path": "code.coding[?system=icd].code",
                "label": "code.coding[?system=icd].display",
                "ontology": ontology,
            },
            "reason": {"path": "reason[*]", "ontology": ontology, "unknown": "suppress"},
            "evidence": {"path": "evidence[0].code", "ontology": ontology, "missing": "keep"},
        },
        "fields": {
            "keep": ["resourceType", "evidence[?kind=1].n", "onset", "code.coding[*].system"],
            "drop": ["code.text"],
            "pseudonymize": ["identifier[?use=official].value", "id"],
            "unlisted": "drop",
        },
        "mechanism": {"reference": "root"},
        "noise_key": "identifier[?use=official].value",
    }
    places = ("code.coding.0", "code.coding.0.code", "reason.0", "evidence.0.code", "identifier.1.value", "onset")
    rounds = cache(lambda: events.generated(events.fhir, CODES[ontology](), SIZES, seed=3, places=places))
    return Case(merged(SECTIONS, own, *more), rounds)


def real(*more: Mapping[str, Any]) -> Case:
    """The real discharges, with two diagnoses of ICD-9-CM."""
    own = {
        "ontologies": {"icd9": SOURCES["icd9"]},
        "attributes": {
            "principal": {"path": "diag_1", "ontology": "icd9", "unknown": "ancestor"},
            "secondary": {"path": "diag_2", "ontology": "icd9", "unknown": "ancestor"},
        },
        "fields": {"keep": ["age"], "pseudonymize": ["patient_nbr"], "unlisted": "drop"},
        "noise_key": "position",
        **mechanism(),
        "calibration": {"window_records": 2_000},
        "groups": {"records": 200},
    }
    return Case(merged(SECTIONS, own, *more), cache(lambda: events.real(REAL_SIZES)))


def mechanism(name: str = "semantic_noise", **parameters: Any) -> Json:
    """The section of a mechanism."""
    return {"mechanism": {"name": name, **parameters}}


def number(path: str, alpha: Any = 0.3, **kind: Any) -> Json:
    """A numeric attribute."""
    return {"path": path, "numeric": kind, **({} if alpha is None else {"alpha": alpha})}


PLAIN_NUMBERS: Json = {
    "attributes": {
        "age": number("age", None, minimum=0, maximum=99, integer=True),
        "stay": {**number("stay", None, minimum=0), "missing": "keep"},
    },
    "fields": {"keep": ["id"]},
}
"""Numeric attributes for mechanisms without a noise level."""


CASES: Mapping[str, Case] = {
    "noise-tree": flat("tree", mechanism(reference="mean", rounding="calibrated")),
    "noise-dag": flat("dag", mechanism(reference="pair", rounding="ceil", distribution="laplace", correlated=False)),
    "noise-observed": flat(
        "dag", mechanism(reference="root", rounding="calibrated", candidates="observed", distance="log_taxonomic")
    ),
    "transport-tree": flat("tree", mechanism("semantic_transport", alpha=0.5, certainty=1.0)),
    "transport-dag": flat("dag", mechanism("semantic_transport", certainty=0.4, least=2)),
    "exponential-dag-leaves": flat(
        "dag", mechanism("exponential", epsilon=12.0, candidates="leaves", distance="log_taxonomic")
    ),
    "naive-distortion-values": flat("values", mechanism("naive_distortion")),
    "probabilistic-distortion-dag": flat("dag", mechanism("probabilistic_distortion", distance="log_taxonomic")),
    "pram-invariant": flat("tree", mechanism("pram", matrices={"a": "a.json", "b": "b.json"}, invariant=True)),
    "vicus-parts": flat("values", mechanism("vicus", parts=4, multigraph=False)),
    "random-values": flat("values", mechanism("random", k1=2.0, k2=4.0)),
    "rank-swapping-dynamic": flat("tree", mechanism("rank_swapping", k=6)),
    "rank-swapping-multivariate-dag": flat(
        "dag", mechanism("rank_swapping", multivariate=True, k=9), {"groups": {"records": 60}}
    ),
    "microaggregation-numbers": flat("tree", PLAIN_NUMBERS, mechanism("microaggregation", k=4)),
    "microaggregation-too-small": flat("tree", mechanism("microaggregation", k=25)),
    "nested-keep-unlisted": nested(
        "tree",
        {"fields": {"keep": [], "drop": ["privacy", "patient.name"], "unlisted": "keep"}, "noise_key": "position"},
        {"message": {"key": "keep", "headers": ["trace", "content-type"]}},
    ),
    "fhir-tree": fhir("tree"),
    "flat-header-alpha": flat(
        "tree",
        {"attributes": {name: {"alpha": {"header": "alpha", "default": 0.2}} for name in "ab"}},
        {"message": {"key": "drop", "headers": ["alpha"]}},
    ),
    "flat-mapping-and-root": flat(
        "tree",
        {"attributes": {"a": {"mapping": "mapping.csv"}, "b": {"root": "chapter D", "unknown": "suppress"}}},
        {"fields": {"keep": ["note"], "pseudonymize": ["name", "note.free", "id", "score"], "drop": ["note.free[1]"]}},
        mechanism(reference="mean"),
    ),
    "icd10-pair": flat("icd10"),
    "discharges": real(mechanism(reference="mean")),
}
