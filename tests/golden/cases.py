"""The golden cases: a configuration in the documented format and rounds of events for each name."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from functools import cache
from typing import Any

from golden import events
from golden.adapter import Round
from golden.events import Codes
from golden.ontologies import ICD9_FILE, dag_codes, deep_codes, tree_codes

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
    "deep": {"source": "deep.csv"},
    "dag": {"source": "dag.csv"},
    "icd10": {"source": "icd10cm"},
    "icd9": {"source": ICD9_FILE.name},
    "values": {"values": [*ICD10, "extra"]},
}
CODES: Mapping[str, Callable[[], Codes]] = {
    "tree": lambda: Codes([code for code in tree_codes() if " " not in code]),
    "deep": lambda: Codes(deep_codes()),
    "dag": lambda: Codes(dag_codes()[::7]),
    "icd10": lambda: Codes(ICD10),
    "values": lambda: Codes(ICD10),
}


def flat(
    ontology: str,
    *more: Mapping[str, Any],
    sizes: Sequence[Sequence[int]] = SIZES,
    codes: Callable[[], Codes] | None = None,
) -> Case:
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
    rounds = cache(lambda: events.generated(events.flat, (codes or CODES[ontology])(), sizes, places=places))
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


def real(*more: Mapping[str, Any], sizes: Sequence[Sequence[int]] = REAL_SIZES, first: int = 0) -> Case:
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
    return Case(merged(SECTIONS, own, *more), cache(lambda: events.real(sizes, first=first)))


def mechanism(name: str = "semantic_noise", **parameters: Any) -> Json:
    """The section of a mechanism."""
    return {"mechanism": {"name": name, **parameters}}


def number(path: str, alpha: Any = 0.3, **kind: Any) -> Json:
    """A numeric attribute."""
    return {"path": path, "numeric": kind, **({} if alpha is None else {"alpha": alpha})}


AGE = number("age", minimum=0, maximum=99, integer=True)
STAY = number("stay", minimum=0, beyond="reflect")
NUMBERS: Json = {"attributes": {"age": AGE, "stay": STAY}, "fields": {"keep": ["id"]}}
PLAIN_NUMBERS: Json = {
    "attributes": {
        "age": number("age", None, minimum=0, maximum=99, integer=True),
        "stay": {**number("stay", None, minimum=0), "missing": "keep"},
    },
    "fields": {"keep": ["id"]},
}
"""Numeric attributes for mechanisms without a noise level."""
THIRD: Json = {"attributes": {"c": {"path": "diag_3", "ontology": "tree"}}}


def noises() -> Iterator[tuple[str, Case]]:
    """Every reference, rounding and kind of candidates, on the tree and on the graph."""
    for i, reference in enumerate(("mean", "pair", "root")):
        for j, rounding in enumerate(("ceil", "calibrated")):
            for k, candidates in enumerate(("all", "leaves")):
                odd = (i + j + k) % 2 == 1
                for ontology, laplace in (("tree", odd), ("dag", not odd)):
                    own = {"reference": reference, "rounding": rounding, "candidates": candidates}
                    drawn = {"distribution": "laplace" if laplace else "normal", "correlated": (i + k) % 2 == 0}
                    name = f"noise-{ontology}-{reference}-{rounding}-{candidates}"
                    yield name, flat(ontology, mechanism(**own, **drawn))


def of_mechanisms() -> dict[str, Case]:
    """Every mechanism, with the parameters that change its algorithm."""
    small_k, groups = {"a": 3, "b": 8}, {"groups": {"records": 60}}
    return {
        **dict(noises()),
        "noise-tree-log-taxonomic": flat("tree", mechanism(distance="log_taxonomic")),
        "noise-dag-log-taxonomic": flat("dag", mechanism(distance="log_taxonomic", reference="root")),
        "noise-deep-mean-calibrated-all": flat("deep", mechanism(reference="mean")),
        "noise-deep-pair-ceil-leaves": flat("deep", mechanism(rounding="ceil", candidates="leaves", correlated=False)),
        "noise-deep-root-log-taxonomic": flat(
            "deep", mechanism(reference="root", distance="log_taxonomic", distribution="laplace")
        ),
        **{
            f"noise-{ontology}-pair-{rounding}-observed": flat(
                ontology, mechanism(reference="pair", rounding=rounding, candidates="observed")
            )
            for ontology in ("tree", "dag")
            for rounding in ("ceil", "calibrated")
        },
        "noise-three-attributes": flat("tree", THIRD, mechanism(reference="root")),
        "noise-values": flat("values", mechanism(reference="mean")),
        "noise-numbers-correlated": flat("tree", NUMBERS, mechanism(numeric_noise="correlated")),
        "noise-numbers-uncorrelated": flat("tree", NUMBERS, mechanism(numeric_noise="uncorrelated")),
        "noise-numbers-kim": flat("tree", NUMBERS, mechanism(numeric_noise="kim", distribution="laplace")),
        "exponential-tree": flat("tree", mechanism("exponential", epsilon=3.0)),
        "exponential-tree-leaves": flat(
            "tree", mechanism("exponential", epsilon={"a": 5.0, "b": 0.5}, candidates="leaves")
        ),
        "exponential-dag": flat("dag", mechanism("exponential", epsilon=8.0)),
        "exponential-dag-leaves": flat(
            "dag", mechanism("exponential", epsilon=12.0, candidates="leaves", distance="log_taxonomic")
        ),
        "naive-distortion-tree": flat("tree", mechanism("naive_distortion")),
        "naive-distortion-values": flat("values", mechanism("naive_distortion")),
        "probabilistic-distortion-tree": flat("tree", mechanism("probabilistic_distortion")),
        "probabilistic-distortion-dag": flat("dag", mechanism("probabilistic_distortion", distance="log_taxonomic")),
        "pram-estimated": flat("tree", mechanism("pram", retention=0.7)),
        "pram-given": flat("tree", mechanism("pram", matrices={"a": "matrix.csv"})),
        "pram-invariant": flat(
            "tree", mechanism("pram", matrices={"a": "matrix.csv", "b": "matrix.json"}, invariant=True)
        ),
        "vicus-tree": flat("tree", mechanism("vicus")),
        "vicus-parts": flat("values", mechanism("vicus", parts=4, multigraph=False, generations=5, partition_seed=3)),
        "random-tree": flat("tree", mechanism("random", k1=2.0, k2=4.0)),
        "rank-swapping-dynamic": flat("tree", mechanism("rank_swapping", k=6)),
        "rank-swapping-dynamic-dag": flat("dag", mechanism("rank_swapping", k=small_k)),
        "transport-tree": flat("tree", mechanism("semantic_transport", target={"alpha": 0.5})),
        "transport-dag-rmse": flat("dag", mechanism("semantic_transport", target={"rmse": 0.6}, least=2)),
        "exponential-deep": flat("deep", mechanism("exponential", epsilon=7.0)),
        "rank-swapping-deep": flat("deep", mechanism("rank_swapping", k=5, distance="log_taxonomic")),
        "rank-swapping-fixed": flat("tree", mechanism("rank_swapping", intervals="fixed", p=10.0)),
        "rank-swapping-fixed-dag": flat("dag", mechanism("rank_swapping", intervals="fixed", distance="log_taxonomic")),
        "rank-swapping-multivariate": flat("tree", mechanism("rank_swapping", multivariate=True, k=5), groups),
        "rank-swapping-multivariate-dag": flat("dag", mechanism("rank_swapping", multivariate=True, p=15.0), groups),
        "data-swapping": flat("tree", mechanism("data_swapping")),
        "distributional-rank-swapping": flat("tree", mechanism("distributional_rank_swapping", k=small_k)),
        "distributional-rank-swapping-percent": flat("dag", mechanism("distributional_rank_swapping", p=5.0)),
        "microaggregation-semantic": flat("tree", mechanism("microaggregation", k=3)),
        "microaggregation-dag": flat("dag", mechanism("microaggregation", k=4, distance="wu_palmer")),
        "microaggregation-classic": flat("tree", mechanism("microaggregation", variant="classic")),
        "microaggregation-hybrid": flat("tree", mechanism("microaggregation", hybrid=True), groups),
        "microaggregation-numbers": flat("tree", PLAIN_NUMBERS, mechanism("microaggregation", k=4)),
        "microaggregation-numbers-paper": flat("tree", PLAIN_NUMBERS, mechanism("microaggregation", scaling="paper")),
        "microaggregation-too-small": flat("tree", mechanism("microaggregation", k=25)),
    }


def of_shapes() -> dict[str, Case]:
    """Shapes of events, and all configuration of records besides the mechanism."""
    own_alpha = {"alpha": {"path": "privacy.alpha", "default": 0.6}}
    header_alpha = {"alpha": {"header": "alpha", "default": 0.2}}
    lists = {"attributes": {"b": {"missing": "keep"}}}
    return {
        "nested-tree": nested("tree"),
        "nested-dag": nested("dag", mechanism(reference="mean", rounding="ceil")),
        "nested-own-alpha": nested("tree", {"attributes": {"principal": own_alpha, "secondary": own_alpha}}),
        "nested-keep-unlisted": nested(
            "tree",
            {"fields": {"keep": [], "drop": ["privacy", "patient.name"], "unlisted": "keep"}, "noise_key": "position"},
            {"message": {"key": "keep", "headers": ["trace", "content-type"]}},
        ),
        "nested-vicus": nested("tree", mechanism("vicus")),
        "nested-pram-suppress": nested(
            "tree", mechanism("pram"), {"attributes": {"secondary": {"unknown": "suppress"}}}
        ),
        "nested-rank-swapping": nested("tree", mechanism("rank_swapping", k=4)),
        "nested-microaggregation": nested("dag", mechanism("microaggregation", k=3)),
        "fhir-tree": fhir("tree"),
        "fhir-dag": fhir("dag", mechanism(reference="mean", rounding="ceil", correlated=False)),
        "fhir-exponential": fhir("tree", mechanism("exponential"), {"limits": {"depth": 4}}),
        "fhir-data-swapping": fhir("tree", mechanism("data_swapping"), {"message": {"key": "keep"}}),
        "flat-header-alpha": flat(
            "tree",
            {"attributes": {"a": header_alpha, "b": header_alpha}, "message": {"key": "drop", "headers": ["alpha"]}},
        ),
        "flat-ancestor": flat("tree", {"attributes": {"a": {"unknown": "ancestor"}, "b": {"unknown": "ancestor"}}}),
        "flat-suppress": flat("tree", {"attributes": {"a": {"unknown": "suppress"}, "b": {"unknown": "suppress"}}}),
        "flat-missing-kept": flat("tree", lists, {"noise_key": "id", "message": {"headers": ["trace"]}}),
        "flat-mapping-and-root": flat(
            "tree",
            {"attributes": {"a": {"mapping": "mapping.csv"}, "b": {"root": "chapter D", "unknown": "suppress"}}},
            {
                "fields": {
                    "keep": ["note"],
                    "pseudonymize": ["name", "note.free", "id", "score"],
                    "drop": ["note.free[1]"],
                }
            },
            mechanism(reference="mean"),
        ),
        "flat-window-age": flat("tree", {"calibration": {"window_age": 400}}),
        "flat-every-records": flat("tree", {"calibration": {"every_records": 60, "window_records": 100}}),
        "flat-many-records": flat(
            "tree",
            {"calibration": {"window_records": 9_000}, "message": {"headers": ["content-type"]}},
            sizes=((60, 50), (5_400,), (6_100, 5_900, 4_700)),
        ),
        "icd10-pair": flat("icd10"),
        "icd10-nested-ceil": nested("icd10", mechanism(reference="mean", rounding="ceil", candidates="leaves")),
        "icd10-microaggregation": flat("icd10", mechanism("microaggregation")),
    }


def of_slides() -> dict[str, Case]:
    """Windows that change little or much from one statistics version to the next."""
    few = {"calibration": {"window_records": 1_900}}
    some = {"calibration": {"window_records": 2_800}}
    slow = ((60,) * 36, (9,), (60, 30), (8, 7), (150,), (40, 12))
    fast = ((100,) * 33, (500, 200), (90,), (900,))
    fewer = ((100,) * 28, (300,), (100, 20))
    rare, frequent = (lambda: Codes(dag_codes(), 0.2)), (lambda: Codes(dag_codes()[:25]))
    return {
        "slides-tree": flat("tree", few, mechanism(reference="root"), sizes=slow),
        "slides-deep": flat("deep", few, mechanism(reference="mean", distance="log_taxonomic"), sizes=slow),
        "slides-dag": flat("dag", few, sizes=slow),
        "slides-dag-log-taxonomic": flat("dag", few, mechanism(distance="log_taxonomic"), sizes=slow),
        "slides-dag-many-codes": flat("dag", some, mechanism(reference="mean"), sizes=fast, codes=rare),
        "slides-dag-few-codes": flat("dag", some, mechanism(rounding="ceil"), sizes=slow, codes=frequent),
        "slides-exponential": flat("dag", few, mechanism("exponential", epsilon=9.0), sizes=fast, codes=rare),
        "slides-vicus": flat("tree", few, mechanism("vicus"), sizes=slow),
        "slides-numbers": flat("tree", few, NUMBERS, mechanism(reference="mean"), sizes=slow),
        "slides-discharges": real({"calibration": {"window_records": 2_500}}, sizes=fewer),
    }


def of_real_data() -> dict[str, Case]:
    """The real discharges."""
    numbers = {"attributes": {"stay": number("time_in_hospital", minimum=1, maximum=14, integer=True)}}
    three = {"attributes": {"third": {"path": "diag_3", "ontology": "icd9", "unknown": "suppress"}}}
    return {
        "discharges-pair-ceil": real(mechanism(rounding="ceil"), {"noise_key": "encounter_id"}),
        "discharges-three-numbers": real(three, numbers, mechanism(reference="mean")),
        "discharges-root-leaves": real(mechanism(reference="root", candidates="leaves", distance="log_taxonomic")),
        "discharges-exponential": real(mechanism("exponential", epsilon=6.0)),
        "discharges-pram": real(mechanism("pram")),
        "discharges-probabilistic": real(mechanism("probabilistic_distortion")),
        "discharges-rank-swapping": real(mechanism("rank_swapping", k=20)),
        "discharges-microaggregation": real(mechanism("microaggregation", k=5)),
    }


CASES: Mapping[str, Case] = {**of_mechanisms(), **of_shapes(), **of_slides(), **of_real_data()}
