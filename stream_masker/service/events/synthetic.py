"""Synthetic discharge events: correlated and skewed like real ones, and reproducible from a seed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count, islice, pairwise
from typing import Any

import numpy as np

from stream_masker.core.dtypes import Int64Array
from stream_masker.core.numeric import Numeric
from stream_masker.core.ontology import Taxonomy
from stream_masker.errors import ConfigurationError, ParameterError
from stream_masker.pipeline.paths import FilterStep, JsonValue, Path, compile_path
from stream_masker.service.configuration.attributes import AttributeSection
from stream_masker.service.configuration.build import build_taxonomies, numeric_range
from stream_masker.service.configuration.field_paths import POSITION, label_path
from stream_masker.service.configuration.model import Configuration
from stream_masker.service.events.event_builder import event_tree, row_builder
from stream_masker.service.events.synthetic_codes import AFTER_DRIFT, BEFORE_DRIFT, CompanionCodes, Popularity

NESTED_EVENTS: Mapping[str, Any] = {
    "ontologies": {"icd": {"source": "icd10cm"}},
    "attributes": {
        "principal": {
            "path": "diagnoses.principal.code",
            "label": "diagnoses.principal.display",
            "ontology": "icd",
        },
        "secondary": {
            "path": "diagnoses.secondary[*].code",
            "label": "diagnoses.secondary[*].display",
            "ontology": "icd",
        },
    },
    "fields": {"keep": ["encounter_id", "age", "sex", "stay_days"], "pseudonymize": ["patient.id"], "unlisted": "drop"},
    "noise_key": "patient.id",
}
"""The configuration of the events that `config init` shows and the demonstration generates."""

BLOCK_EVENTS = 8_192
"""The number of events that are generated together."""

ELEMENT_COUNT_SHARES = np.array([0.18, 0.22, 0.25, 0.20, 0.15])
"""The shares of events with 1, 2, ... elements in their array attributes."""

RETURNING_SHARE = 0.3
"""The share of events that are another visit of an earlier patient."""

LONGEST_STAY = 60
PATIENT_PATH = "patient.id"

IDENTITY_PATHS = {
    name: compile_path(name) for name in ("encounter_id", PATIENT_PATH, "patient.name", "age", "sex", "stay_days")
}
"""The fields of every event besides its attributes."""


NO_NUMERIC_PATHS: Mapping[Path, Numeric] = {}

UNBOUNDED_SPAN = 100.0
"""The range of numbers without bounds."""


@dataclass(frozen=True, slots=True)
class SyntheticAttribute:
    """An attribute to generate: leaves are drawn and written to ``path`` and ``copies``, their labels to ``label``."""

    name: str
    taxonomy: Taxonomy
    path: Path
    label: Path | None = None
    copies: tuple[Path, ...] = ()

    @property
    def is_array(self) -> bool:
        """Whether an event has 1 to 5 values of it instead of one."""
        return self.path.arrays > 0

    @property
    def columns(self) -> dict[str, Path]:
        """The paths of everything to write, by column name."""
        label = {} if self.label is None else {f"{self.name} label": self.label}
        return {f"{self.name} {i}": path for i, path in enumerate((self.path, *self.copies))} | label


class SyntheticDischarges:
    """Discharge events as JSON objects. The first scalar attribute is the principal diagnosis.

    The popularity of codes is Zipf-like over the leaves of each taxonomy. The codes of all other attributes depend on
    the principal code with probability ``correlation`` in [0, 1]. From record ``drift_after`` on (None: never), there
    is an epidemic of respiratory diseases (in other ontologies than ICD-10-CM, the chapters exchange their popularity),
    and the correlation is halved. Patients return with the same name, age and sex.

    ``patient_paths``: further paths of the patient's id. ``numbers``: paths of numbers, with their ranges. Raises
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
        numbers: Mapping[Path, Numeric] = NO_NUMERIC_PATHS,
    ) -> None:
        _require_range(correlation, drift_after, attributes)
        rng = np.random.default_rng(seed)
        self._seed, self._correlation, self._drift_after = seed, correlation, drift_after
        self._attributes = sorted(attributes, key=lambda a: a.is_array)
        known: dict[Taxonomy, Popularity] = {}
        self._codes = [_popularity(a.taxonomy, known, rng) for a in self._attributes]
        self._companions = [CompanionCodes(self._codes[0], codes, rng=rng) for codes in self._codes[1:]]
        self._ids = [np.array(a.taxonomy.ids, dtype=object) for a in self._attributes]
        self._labels = [np.array(a.taxonomy.labels, dtype=object) for a in self._attributes]
        self._patient_columns = [f"{PATIENT_PATH} {i}" for i, _ in enumerate(patient_paths)]
        self._numbers = {f"number {i}": kind for i, kind in enumerate(numbers.values())}
        tree = event_tree(
            IDENTITY_PATHS
            | dict(zip(self._numbers, numbers, strict=True))
            | dict(zip(self._patient_columns, patient_paths, strict=True))
            | {column: path for a in attributes for column, path in a.columns.items()}
        )
        self._columns = list(tree.columns())
        self._build = row_builder(tree, self._columns, lists=True)

    def events(self, records: int | None = None) -> Iterator[JsonValue]:
        """Yield this number of events (None: unlimited), always from the first one."""
        return islice((event for block in self._blocks() for event in block), records)

    def _blocks(self) -> Iterator[list[JsonValue]]:
        patients = 0
        for number in count():
            patients_of_block, patients = _patients(
                BLOCK_EVENTS, patients, np.random.default_rng([self._seed, number, 1])
            )
            yield self._block(number, patients_of_block)

    def _block(self, number: int, patients_of_block: Int64Array) -> list[JsonValue]:
        """Return a block of events, which may contain the beginning of the drift."""
        start = number * BLOCK_EVENTS
        cut = BLOCK_EVENTS if self._drift_after is None else max(0, min(self._drift_after - start, BLOCK_EVENTS))
        before = self._generate(number, patients_of_block, BEFORE_DRIFT, self._correlation)[:cut] if cut else []
        return before + (
            self._generate(number, patients_of_block, AFTER_DRIFT, self._correlation / 2)[cut:]
            if cut < BLOCK_EVENTS
            else []
        )

    def _generate(self, number: int, patients_of_block: Int64Array, period: int, correlation: float) -> list[JsonValue]:
        rng = np.random.default_rng([self._seed, number, 2])
        identity = self._identity(patients_of_block, number * BLOCK_EVENTS, rng)
        columns = identity | self._code_columns(len(patients_of_block), period, correlation, rng)
        return list(map(self._build, zip(*(columns[name] for name in self._columns), strict=True)))

    def _code_columns(
        self, size: int, period: int, correlation: float, rng: np.random.Generator
    ) -> dict[str, list[Any]]:
        counts = rng.choice(len(ELEMENT_COUNT_SHARES), size, p=ELEMENT_COUNT_SHARES) + 1
        principal = self._codes[0].draw(rng.random(size), period)
        columns = self._attribute_columns(0, principal[:, None], counts)
        for i, companions in enumerate(self._companions, 1):
            width = len(ELEMENT_COUNT_SHARES) if self._attributes[i].is_array else 1
            codes = companions.draw(principal, width, correlation=correlation, period=period, rng=rng)
            columns |= self._attribute_columns(i, codes, counts)
        return columns

    def _attribute_columns(self, i: int, codes: Int64Array, counts: Int64Array) -> dict[str, list[Any]]:
        """Return the values of an attribute's columns by event; lists of values for an array."""
        attribute = self._attributes[i]
        used = codes[:, 0]
        if attribute.is_array:
            used = codes[np.arange(codes.shape[1]) < counts[:, None]]
        positions = self._codes[i].positions[used]
        ids, labels = self._ids[i][positions].tolist(), self._labels[i][positions].tolist()
        if attribute.is_array:
            bounds = list(pairwise([0, *np.cumsum(counts).tolist()]))
            ids, labels = ([values[start:end] for start, end in bounds] for values in (ids, labels))
        return {column: labels if column.endswith(" label") else ids for column in attribute.columns}

    def _identity(self, patients: Int64Array, first: int, rng: np.random.Generator) -> dict[str, list[Any]]:
        ids = [f"syn-{number:07d}" for number in patients.tolist()]
        age, female = _person(patients, self._seed)
        stay = np.minimum(np.floor(rng.gamma(1.6, 2.6, len(patients))) + 1, LONGEST_STAY).astype(np.int64)
        return {
            "encounter_id": [f"enc-{number:09d}" for number in range(first, first + len(ids))],
            PATIENT_PATH: ids,
            "patient.name": [f"Synthetic Patient {number}" for number in patients.tolist()],
            "age": age.tolist(),
            "sex": np.where(female, "female", "male").tolist(),
            "stay_days": stay.tolist(),
            **dict.fromkeys(self._patient_columns, ids),
            **{column: _numbers(kind, len(ids), rng) for column, kind in self._numbers.items()},
        }


def synthetic_discharges(
    configuration: Configuration, *, correlation: float = 0.6, drift_after: int | None = None, seed: int = 0
) -> SyntheticDischarges:
    """Return events for a configuration, with the patient's id also at its ``noise_key``. Loads the ontologies.

    Raises like ``SyntheticDischarges``, and ConfigurationError for FHIR, or a path with a filter.
    """
    _check_writable(configuration)
    taxonomies = build_taxonomies(configuration)
    attributes = [_attribute(configuration, name, a, taxonomies[name]) for name, a in configuration.nominal.items()]
    used_paths = {*IDENTITY_PATHS.values(), *(path for a in attributes for path in a.columns.values())}
    key = None if configuration.noise_key == POSITION else compile_path(configuration.noise_key)
    return SyntheticDischarges(
        attributes,
        correlation=correlation,
        drift_after=drift_after,
        seed=seed,
        patient_paths=[key] if key is not None and key not in used_paths else [],
        numbers={path: kind for path, kind in _numeric_ranges(configuration).items() if path not in used_paths},
    )


def _check_writable(configuration: Configuration) -> None:
    if configuration.records == "fhir":
        raise ConfigurationError(
            "records: synthetic events are no FHIR resources: publish Bundles, such as those of Synthea, with "
            "stream-masker produce, or generate events without `records: fhir`"
        )
    if configuration.records == "hl7v2":
        raise ConfigurationError(
            "records: synthetic events are no HL7 v2 messages: publish messages with stream-masker produce"
        )
    for name, attribute in configuration.attributes.items():
        if any(isinstance(step, FilterStep) for step in compile_path(attribute.path).steps):
            raise ConfigurationError(
                f"attributes.{name}.path: {attribute.path!r} has a filter, and synthetic events have only names, [0] "
                "and [*]: publish events of your own with stream-masker produce"
            )


def _numeric_ranges(configuration: Configuration) -> dict[Path, Numeric]:
    """Return the ranges of the configuration's numeric attributes, by path."""
    return {
        compile_path(attribute.path): numeric_range(configuration, name)
        for name, attribute in configuration.numeric.items()
    }


def _numbers(kind: Numeric, size: int, rng: np.random.Generator) -> list[float]:
    """Draw numbers in the attribute's range, mostly small; the range is ``UNBOUNDED_SPAN`` wide if it is unbounded."""
    low = kind.minimum if kind.minimum is not None else (kind.maximum or UNBOUNDED_SPAN) - UNBOUNDED_SPAN
    high = kind.maximum if kind.maximum is not None else low + UNBOUNDED_SPAN
    values = low + (high - low) * rng.beta(2, 5, size)
    numbers: list[float] = (np.floor(values).astype(np.int64) if kind.integer else values).tolist()
    return numbers


def _attribute(
    configuration: Configuration, name: str, attribute: AttributeSection, taxonomy: Taxonomy
) -> SyntheticAttribute:
    path = compile_path(attribute.path)
    return SyntheticAttribute(
        name,
        taxonomy,
        path,
        label=label_path(configuration, attribute, path),
        copies=tuple(compile_path(copy) for copy in attribute.copies),
    )


def _require_range(correlation: float, drift_after: int | None, attributes: Sequence[SyntheticAttribute]) -> None:
    if not 0 <= correlation <= 1:
        raise ParameterError(f"correlation must be in [0, 1], not {correlation}")
    if drift_after is not None and drift_after < 0:
        raise ParameterError(f"drift_after must be at least 0, not {drift_after}")
    if not any(not a.is_array for a in attributes):
        raise ParameterError("synthetic events need an attribute with one value per event, as the principal diagnosis")


def _popularity(taxonomy: Taxonomy, known: dict[Taxonomy, Popularity], rng: np.random.Generator) -> Popularity:
    if taxonomy not in known:
        known[taxonomy] = Popularity(taxonomy, rng=rng)
    return known[taxonomy]


def _patients(size: int, before: int, rng: np.random.Generator) -> tuple[Int64Array, int]:
    """Return the patient numbers of a block of events, and the total number of patients afterwards."""
    new = rng.random(size) >= RETURNING_SHARE
    new[0] |= before == 0
    totals = before + np.cumsum(new)
    earlier = np.floor(rng.random(size) * totals).astype(np.int64)
    return np.where(new, totals - 1, earlier), int(totals[-1])


def _person(patients: Int64Array, seed: int) -> tuple[Int64Array, np.ndarray[tuple[int], np.dtype[np.bool_]]]:
    """Return age in years, skewed to old age, and whether female; both are functions of the patient number."""
    mixed = (patients.astype(np.uint64) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(seed)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB), (31, 1)):
        mixed = (mixed ^ (mixed >> np.uint64(shift))) * np.uint64(factor)
    uniform = (mixed >> np.uint64(11)).astype(np.float64) / 2.0**53
    return np.floor(100 * uniform**0.55).astype(np.int64), (mixed & np.uint64(1)) == 1
