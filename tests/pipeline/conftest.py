"""Small ontologies, plans, and a mechanism with a fixed replacement for each concept."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import orjson
import pytest
from support.results import InputRecord, inputs, outcomes

from stream_masker.core.batch import Batch, Column, Distortion, MaskedBatch
from stream_masker.core.ontology import ConceptMap, Ontology
from stream_masker.core.statistics.counts import Counts
from stream_masker.errors import StatisticsError
from stream_masker.pipeline.masker import RecordMasker
from stream_masker.pipeline.paths import compile_path
from stream_masker.pipeline.plan import AttributePlan, FieldPolicy, Place, Plan
from stream_masker.pipeline.transforms import FieldTransform, Pseudonym

SECRET = b"a secret of the tests"


def edges(children: Mapping[str, list[str]]) -> list[tuple[str, str]]:
    return [(child, parent) for parent, names in children.items() for child in names]


ICD10_EDGES = edges(
    {
        "ROOT": ["9", "4"],
        **{"9": ["I10-I16"], "I10-I16": ["I10", "I11"], "I11": ["I11.0"]},
        **{"4": ["E08-E13", "E03"], "E08-E13": ["E11"], "E11": ["E11.6", "E11.9"], "E11.6": ["E11.65"]},
    }
)
ICD10_LABELS = {
    "I10": "Essential hypertension",
    "I11.0": "Hypertensive heart disease",
    "E11": "Diabetes",
    "E11.65": "Type 2 diabetes with hyperglycemia",
    "E11.9": "Type 2 diabetes",
}
ICD9_EDGES = edges(
    {
        "ICD9CM": ["001-139", "800-999", "250", "V01"],
        **{"001-139": ["008", "038"], "008": ["008.45"], "038": ["038.9"]},
        **{"800-999": ["845"], "250": ["250.01"], "V01": ["V01.1"]},
    }
)

DEFAULT_TABLE = {
    "I10": "E11.9",
    "E11.9": "I11.0",
    "E11.65": "I10",
    "I11.0": "E11.65",
    "I11": "E03",
    "E11": "E08-E13",
    "E03": "E03",
    "E11.6": "I11",
}


class FixedMechanism:
    """Masks by a table of concept ids; other concepts become the root.

    ``seen``: the batches and keys of all calls.
    """

    name = "fixed"
    needs_group = False

    def __init__(self, tables: Mapping[str, Mapping[str, str]], taxonomies: Mapping[str, Any]) -> None:
        self.attributes = tuple(taxonomies)
        self.seen: list[tuple[Batch, Any]] = []
        self.ready = True
        self._tables = [_table(tables.get(name, {}), taxonomies[name]) for name in taxonomies]

    def mask_batch(self, batch: Batch, keys: Any) -> MaskedBatch:
        if not self.ready:
            raise StatisticsError("no statistics yet")
        self.seen.append((batch, keys))
        assert len(keys) == batch.size
        columns = tuple(_masked(column, table) for column, table in zip(batch.columns, self._tables, strict=True))
        return MaskedBatch(columns, tuple(Distortion(values=int((c.codes >= 0).sum())) for c in columns))


class GroupMechanism:
    """Masks groups of at least ``group_minimum`` records with another mechanism, or raises ``error``.

    ``sizes``: the number of records of each group.
    """

    name, needs_group, counts_units = "grouping", True, True

    def __init__(self, mechanism: FixedMechanism, least: int = 3) -> None:
        self.mechanism, self.group_minimum, self.attributes = mechanism, least, mechanism.attributes
        self.error: Exception | None = None
        self.sizes: list[int] = []

    def mask_batch(self, batch: Batch, keys: Any) -> MaskedBatch:
        self.sizes.append(batch.size)
        if self.error:
            raise self.error
        return self.mechanism.mask_batch(batch, keys)


def _table(pairs: Mapping[str, str], taxonomy: Any) -> np.ndarray:
    table = np.zeros(len(taxonomy), np.int32)
    for before, after in pairs.items():
        table[taxonomy.position(before)] = taxonomy.position(after)
    return table


def _masked(column: Column, table: np.ndarray) -> Column:
    return Column(np.where(column.codes >= 0, table[column.codes], column.codes), column.offsets)


class Bench:
    """A record masker with a fixed mechanism, built from short definitions; its records are Python objects."""

    icd9 = ICD9_EDGES

    def __init__(
        self,
        attributes: Mapping[str, Mapping[str, Any]],
        *,
        tables: Mapping[str, Mapping[str, str]] | None = None,
        edges: list[tuple[str, str]] = ICD10_EDGES,
        labels: Mapping[str, str] = ICD10_LABELS,
        synonyms: Mapping[str, list[str]] | None = None,
        unlisted: str = "keep",
        fields: Mapping[str, list[str]] | None = None,
        transforms: Mapping[str, FieldTransform] | None = None,
        message: Mapping[str, Any] | None = None,
        noise_key: str | None = None,
        record_bytes: int = 1_048_576,
    ) -> None:
        self.ontology = Ontology.from_edges(edges, labels=labels, synonyms=synonyms)
        self.taxonomy = self.ontology.taxonomy()
        self.plan = Plan(
            attributes=tuple(self._attribute(name, **given) for name, given in attributes.items()),
            fields=field_policy(unlisted, transforms, **fields or {}),
            configuration="c0ffee0123456789",
            **(message or {}),
            noise_key=compile_path(noise_key) if noise_key else None,
            record_bytes=record_bytes,
        )
        tables = tables or dict.fromkeys(attributes, DEFAULT_TABLE)
        self.mechanism = FixedMechanism(tables, dict.fromkeys(attributes, self.taxonomy))
        self.masker = RecordMasker(self.plan, self.mechanism, SECRET)

    def mask(self, *values: Any, **record: Any) -> list[Any]:
        """Mask values and return the outcomes. Bytes stay as they are, None is a tombstone, others become JSON."""
        return outcomes(self.result([self.record(100 + i, value, **record) for i, value in enumerate(values)]))

    def record(self, offset: int, value: Any, **record: Any) -> InputRecord:
        return InputRecord(offset, _bytes(value), **record)

    def result(self, records: list[InputRecord]) -> Any:
        return self.masker.mask("discharges", 3, inputs(records), statistics_version=7)

    def mask_one(self, value: Any, **record: Any) -> Any:
        """Mask one value: return the masked JSON, or the reason and the field of its rejection."""
        (outcome,) = self.mask(value, **record)
        return (outcome.reason, outcome.field) if hasattr(outcome, "reason") else orjson.loads(outcome.value)

    def texts_counted(self, counts: Counts) -> list[dict[str, int]]:
        """The number of occurrences of each concept, by attribute."""
        columns = ((self.taxonomy.decode(column.keys), column.counts.tolist()) for column in counts.values)
        return [dict(zip(*column, strict=True)) for column in columns]

    def _attribute(self, name: str, path: str, **given: Any) -> AttributePlan:
        concepts = ConceptMap(self.taxonomy, unknown=given.get("unknown", "reject"), mapping=given.get("mapping"))
        label = compile_path(given["label"]) if "label" in given else None
        first = Place(compile_path(path), label, _paths(given.get("copies", [])))
        places = (first, *map(Place, _paths(given.get("also", []))))
        policies = {key: given[key] for key in ("style", "missing") if key in given}
        return AttributePlan(name=name, places=places, concepts=concepts, **policies)


def field_policy(unlisted: str, transforms: Mapping[str, FieldTransform] | None = None, **lists: Any) -> FieldPolicy:
    """The policy of lists of paths; ``transforms``: the generalized ones."""
    treated = {
        key: dict.fromkeys(_paths(t), Pseudonym() if key == "pseudonymize" else None) for key, t in lists.items()
    }
    generalized = {compile_path(path): transform for path, transform in (transforms or {}).items()}
    return FieldPolicy(unlisted=unlisted, lists={**treated, "generalize": generalized})


def _paths(texts: list[str]) -> tuple[Any, ...]:
    return tuple(compile_path(text) for text in texts)


def _bytes(value: Any) -> bytes | None:
    return value if value is None or isinstance(value, bytes) else orjson.dumps(value)


@pytest.fixture(scope="session")
def bench() -> type[Bench]:
    return Bench
