"""Synthetic discharges: correlated and skewed like real ones, of nobody, and the same for the same seed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count, islice

import numpy as np

from stream_masker.core.dtypes import Int64Array
from stream_masker.core.numeric import Numeric
from stream_masker.core.ontology import Taxonomy
from stream_masker.errors import ParameterError
from stream_masker.pipeline.paths import JsonValue, Path, compile_path
from stream_masker.service.configuration.build import build_taxonomies, numeric_range
from stream_masker.service.configuration.fieldpaths import POSITION
from stream_masker.service.configuration.model import AttributeSection, Configuration
from stream_masker.service.events.event_builder import ColumnPath, assemble, event_shape
from stream_masker.service.events.synthetic_codes import AFTER, BEFORE, Companions, Popularity

GENERATED_BLOCK = 8_192
"""Events that are made at once."""

SECONDARY_COUNTS = np.array([0.18, 0.22, 0.25, 0.20, 0.15])
"""The shares of events with 1, 2, ... elements in their array attributes."""

RETURNING = 0.3
"""The share of events that are another visit of an earlier patient."""

LONGEST_STAY = 60
PATIENT = "patient.id"

IDENTITY = {name: compile_path(name) for name in ("encounter_id", PATIENT, "patient.name", "age", "sex", "stay_days")}
"""Every event's fields beside the attributes."""


NO_NUMBERS: Mapping[Path, Numeric] = {}

PERIOD_SPAN = 100.0
"""How far numbers without bounds spread."""


@dataclass(frozen=True, slots=True)
class SyntheticAttribute:
    """An attribute to fill: its leaves are drawn and written at ``path`` and ``copies``, their labels at ``label``."""

    name: str
    taxonomy: Taxonomy
    path: Path
    label: Path | None = None
    copies: tuple[Path, ...] = ()

    @property
    def is_array(self) -> bool:
        """Whether it has 1 to 5 values an event, not one."""
        return self.path.arrays > 0

    @property
    def columns(self) -> dict[str, Path]:
        """Everything to be written: columns by name."""
        label = {} if self.label is None else {f"{self.name} label": self.label}
        return {f"{self.name} {i}": path for i, path in enumerate((self.path, *self.copies))} | label


class SyntheticDischarges:
    """Discharge events as JSON objects. The first scalar attribute is the principal diagnosis.

    Popularity is Zipf-like over the leaves of each taxonomy. Every other attribute's code depends on the principal's
    with probability ``correlation`` in [0, 1]. From record ``drift_after`` on (None: never), the popularity of the
    chapters changes places and the correlation is halved. Patients return, with the same name, age and sex.

    ``patient_paths``: further places for the patient's id. ``numbers``: places of numbers of those kinds. Raises
    ParameterError for parameters out of range, ConfigurationError for paths that cannot be written (filters).
    """

    def __init__(
        self,
        attributes: Sequence[SyntheticAttribute],
        *,
        correlation: float = 0.6,
        drift_after: int | None = None,
        seed: int = 0,
        patient_paths: Sequence[Path] = (),
        numbers: Mapping[Path, Numeric] = NO_NUMBERS,
    ) -> None:
        _require_range(correlation, drift_after, attributes)
        rng = np.random.default_rng(seed)
        self._seed, self._correlation, self._drift_after = seed, correlation, drift_after
        self._attributes = sorted(attributes, key=lambda a: a.is_array)
        known: dict[Taxonomy, Popularity] = {}
        self._codes = [_popularity(a.taxonomy, known, rng) for a in self._attributes]
        self._companions = [Companions(self._codes[0], own, rng=rng) for own in self._codes[1:]]
        self._ids = [np.array(a.taxonomy.ids, dtype=object) for a in self._attributes]
        self._labels = [np.array(a.taxonomy.labels, dtype=object) for a in self._attributes]
        self._patient_columns = [f"{PATIENT} {i}" for i, _ in enumerate(patient_paths)]
        self._numbers = {f"number {i}": kind for i, kind in enumerate(numbers.values())}
        self._shape = event_shape(
            IDENTITY
            | dict(zip(self._numbers, numbers, strict=True))
            | dict(zip(self._patient_columns, patient_paths, strict=True))
            | {column: path for a in attributes for column, path in a.columns.items()}
        )

    def events(self, records: int | None = None) -> Iterator[JsonValue]:
        """So many events (None: without end), always from the first one."""
        return islice((event for block in self._blocks() for event in block), records)

    def _blocks(self) -> Iterator[list[JsonValue]]:
        patients = 0
        for number in count():
            who, patients = _patients(GENERATED_BLOCK, patients, np.random.default_rng([self._seed, number, 1]))
            yield self._block(number, who)

    def _block(self, number: int, who: Int64Array) -> list[JsonValue]:
        """A block before the drift, after it, or cut where it begins."""
        start = number * GENERATED_BLOCK
        cut = GENERATED_BLOCK if self._drift_after is None else max(0, min(self._drift_after - start, GENERATED_BLOCK))
        before = self._made(number, who, BEFORE, self._correlation)[:cut] if cut else []
        return before + (self._made(number, who, AFTER, self._correlation / 2)[cut:] if cut < GENERATED_BLOCK else [])

    def _made(self, number: int, who: Int64Array, regime: int, correlation: float) -> list[JsonValue]:
        rng = np.random.default_rng([self._seed, number, 2])
        identity = self._identity(who, number * GENERATED_BLOCK, rng)
        return assemble(self._shape, identity | self._coded(len(who), regime, correlation, rng))

    def _coded(self, size: int, regime: int, correlation: float, rng: np.random.Generator) -> dict[str, ColumnPath]:
        counts = rng.choice(len(SECONDARY_COUNTS), size, p=SECONDARY_COUNTS) + 1
        principal = self._codes[0].draw(rng.random(size), regime)
        columns = self._written(0, principal[:, None], counts)
        for i, companions in enumerate(self._companions, 1):
            width = len(SECONDARY_COUNTS) if self._attributes[i].is_array else 1
            codes = companions.draw(principal, width, correlation=correlation, regime=regime, rng=rng)
            columns |= self._written(i, codes, counts)
        return columns

    def _written(self, i: int, codes: Int64Array, counts: Int64Array) -> dict[str, ColumnPath]:
        attribute = self._attributes[i]
        used, offsets = codes[:, 0], None
        if attribute.is_array:
            used = codes[np.arange(codes.shape[1]) < counts[:, None]]
            offsets = np.concatenate(([0], np.cumsum(counts))).tolist()
        positions = self._codes[i].positions[used]
        ids, labels = self._ids[i][positions].tolist(), self._labels[i][positions].tolist()
        return {
            column: ColumnPath(labels if column.endswith(" label") else ids, offsets) for column in attribute.columns
        }

    def _identity(self, patients: Int64Array, made: int, rng: np.random.Generator) -> dict[str, ColumnPath]:
        ids = [f"syn-{number:07d}" for number in patients.tolist()]
        age, female = _person(patients, self._seed)
        stay = np.minimum(np.floor(rng.gamma(1.6, 2.6, len(patients))) + 1, LONGEST_STAY).astype(np.int64)
        fields = {
            "encounter_id": [f"enc-{number:09d}" for number in range(made, made + len(ids))],
            PATIENT: ids,
            "patient.name": [f"Synthetic Patient {number}" for number in patients.tolist()],
            "age": age.tolist(),
            "sex": np.where(female, "female", "male").tolist(),
            "stay_days": stay.tolist(),
            **dict.fromkeys(self._patient_columns, ids),
            **{column: _numbers(kind, len(ids), rng) for column, kind in self._numbers.items()},
        }
        return {name: ColumnPath(values) for name, values in fields.items()}


def synthetic_discharges(
    configuration: Configuration, *, correlation: float = 0.6, drift_after: int | None = None, seed: int = 0
) -> SyntheticDischarges:
    """Events that the configuration can read; the patient's id stands at its ``noise_key`` too. Loads the ontologies.

    Raises like ``SyntheticDischarges``.
    """
    taxonomies = build_taxonomies(configuration)
    attributes = [_attribute(name, a, taxonomies[name]) for name, a in configuration.nominal.items()]
    taken = {*IDENTITY.values(), *(path for a in attributes for path in a.columns.values())}
    key = None if configuration.noise_key == POSITION else compile_path(configuration.noise_key)
    return SyntheticDischarges(
        attributes,
        correlation=correlation,
        drift_after=drift_after,
        seed=seed,
        patient_paths=[key] if key is not None and key not in taken else [],
        numbers={path: kind for path, kind in _kinds(configuration).items() if path not in taken},
    )


def _kinds(configuration: Configuration) -> dict[Path, Numeric]:
    """The numbers that the configuration masks, by place."""
    return {
        compile_path(attribute.path): numeric_range(configuration, name)
        for name, attribute in configuration.numeric.items()
    }


def _numbers(kind: Numeric, size: int, rng: np.random.Generator) -> list[float]:
    """Numbers that the attribute takes, most of them small; within ``PERIOD_SPAN`` of its one bound, or of 0."""
    low = kind.minimum if kind.minimum is not None else (kind.maximum or PERIOD_SPAN) - PERIOD_SPAN
    high = kind.maximum if kind.maximum is not None else low + PERIOD_SPAN
    values = low + (high - low) * rng.beta(2, 5, size)
    found: list[float] = (np.floor(values).astype(np.int64) if kind.integer else values).tolist()
    return found


def _attribute(name: str, attribute: AttributeSection, taxonomy: Taxonomy) -> SyntheticAttribute:
    return SyntheticAttribute(
        name,
        taxonomy,
        compile_path(attribute.path),
        label=None if attribute.label is None else compile_path(attribute.label),
        copies=tuple(compile_path(copy) for copy in attribute.copies),
    )


def _require_range(correlation: float, drift_after: int | None, attributes: Sequence[SyntheticAttribute]) -> None:
    if not 0 <= correlation <= 1:
        raise ParameterError(f"correlation must be in [0, 1], not {correlation}")
    if drift_after is not None and drift_after < 0:
        raise ParameterError(f"drift_after must be at least 0, not {drift_after}")
    if not any(not a.is_array for a in attributes):
        raise ParameterError("synthetic events need an attribute with one value an event, for the principal diagnosis")


def _popularity(taxonomy: Taxonomy, known: dict[Taxonomy, Popularity], rng: np.random.Generator) -> Popularity:
    if taxonomy not in known:
        known[taxonomy] = Popularity(taxonomy, rng=rng)
    return known[taxonomy]


def _patients(size: int, before: int, rng: np.random.Generator) -> tuple[Int64Array, int]:
    """Patients' numbers of so many events, and how many patients there are by then."""
    new = rng.random(size) >= RETURNING
    new[0] |= before == 0
    there = before + np.cumsum(new)
    earlier = np.floor(rng.random(size) * there).astype(np.int64)
    return np.where(new, there - 1, earlier), int(there[-1])


def _person(patients: Int64Array, seed: int) -> tuple[Int64Array, np.ndarray[tuple[int], np.dtype[np.bool_]]]:
    """Age in years, most of them old, and whether female: a function of the patient's number."""
    mixed = (patients.astype(np.uint64) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(seed)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB), (31, 1)):
        mixed = (mixed ^ (mixed >> np.uint64(shift))) * np.uint64(factor)
    uniform = (mixed >> np.uint64(11)).astype(np.float64) / 2.0**53
    return np.floor(100 * uniform**0.55).astype(np.int64), (mixed & np.uint64(1)) == 1
