"""Synthetic discharge events: correlated and skewed like real ones, and reproducible from a seed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count, islice, pairwise
from typing import Any

import numpy as np

from stream_masker.core.dtypes import Int64Array
from stream_masker.core.ontology import Taxonomy
from stream_masker.errors import ConfigurationError, ParameterError
from stream_masker.pipeline.paths import JsonValue, Path, alternatives, compile_path
from stream_masker.service.configuration.build import build_taxonomies
from stream_masker.service.configuration.field_paths import POSITION, label_path
from stream_masker.service.configuration.model import Configuration
from stream_masker.service.events.build import check_writable, event_builder
from stream_masker.service.events.codes import CompanionCodes, Popularity

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

OUTBREAK_SHARE = 0.15
"""The share of principal diagnoses that an outbreak takes."""

LONGEST_STAY = 60
PATIENT_PATH = "patient.id"

IDENTITY_PATHS = {
    name: compile_path(name) for name in ("encounter_id", PATIENT_PATH, "patient.name", "age", "sex", "stay_days")
}
"""The fields of every event besides its attributes."""


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
    the principal code with probability ``correlation`` in [0, 1]. From event ``outbreak_after`` on (None: never),
    ``OUTBREAK_SHARE`` of the principal diagnoses are influenza (in another ontology than ICD-10-CM: codes of its rarest
    block). Patients return with the same name, age and sex.

    ``patient_path``: another path of the patient's id. Raises ParameterError for parameters out of range,
    ConfigurationError for paths that cannot be written.
    """

    def __init__(
        self,
        attributes: Sequence[SyntheticAttribute],
        *,
        correlation: float = 0.6,
        outbreak_after: int | None = None,
        seed: int = 0,
        patient_path: Path | None = None,
    ) -> None:
        if not 0 <= correlation <= 1:
            raise ParameterError(f"correlation must be in [0, 1], not {correlation}")
        if outbreak_after is not None and outbreak_after < 0:
            raise ParameterError(f"outbreak_after must be at least 0, not {outbreak_after}")
        self._attributes = sorted(attributes, key=lambda a: a.is_array)
        if not self._attributes or self._attributes[0].is_array:
            raise ParameterError("synthetic events need an attribute with one value, as the principal diagnosis")
        rng = np.random.default_rng(seed)
        self._seed, self._correlation, self._outbreak_after = seed, correlation, outbreak_after
        known: dict[Taxonomy, Popularity] = {}
        for attribute in self._attributes:
            if attribute.taxonomy not in known:
                known[attribute.taxonomy] = Popularity(attribute.taxonomy, rng=rng)
        self._codes = [known[attribute.taxonomy] for attribute in self._attributes]
        self._companions = [CompanionCodes(self._codes[0], codes, rng=rng) for codes in self._codes[1:]]
        self._ids = [np.array(a.taxonomy.ids, dtype=object) for a in self._attributes]
        self._labels = [np.array(a.taxonomy.labels, dtype=object) for a in self._attributes]
        paths = IDENTITY_PATHS | {column: path for a in attributes for column, path in a.columns.items()}
        if patient_path is not None and patient_path not in paths.values():
            paths = paths | {"patient": patient_path}
        check_writable(paths.values())
        self._columns = list(paths)
        self._build = event_builder(paths)

    def events(self, records: int | None = None) -> Iterator[JsonValue]:
        """Yield this number of events (None: unlimited), always from the first one."""
        return islice((event for block in self._blocks() for event in block), records)

    def _blocks(self) -> Iterator[list[JsonValue]]:
        patients = 0
        for number in count():
            ids, patients = _patients(BLOCK_EVENTS, patients, np.random.default_rng([self._seed, number, 1]))
            rng = np.random.default_rng([self._seed, number, 2])
            columns = self._identity(ids, number * BLOCK_EVENTS, rng) | self._code_columns(number, rng)
            yield list(map(self._build, zip(*(columns[name] for name in self._columns), strict=True)))

    def _code_columns(self, number: int, rng: np.random.Generator) -> dict[str, list[Any]]:
        """Return the columns of codes and labels of a block of events."""
        counts = rng.choice(len(ELEMENT_COUNT_SHARES), BLOCK_EVENTS, p=ELEMENT_COUNT_SHARES) + 1
        principal = self._codes[0].draw(rng.random(BLOCK_EVENTS))
        if self._outbreak_after is not None:
            ill = np.random.default_rng([self._seed, number, 3])
            events = number * BLOCK_EVENTS + np.arange(BLOCK_EVENTS)
            is_ill = (events >= self._outbreak_after) & (ill.random(BLOCK_EVENTS) < OUTBREAK_SHARE)
            principal = np.where(is_ill, ill.choice(self._codes[0].outbreak, BLOCK_EVENTS), principal)
        columns = self._attribute_columns(0, principal[:, None], counts)
        for i, companions in enumerate(self._companions, 1):
            width = len(ELEMENT_COUNT_SHARES) if self._attributes[i].is_array else 1
            codes = companions.draw(principal, width, correlation=self._correlation, rng=rng)
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
            "patient": ids,
            "patient.name": [f"Synthetic Patient {number}" for number in patients.tolist()],
            "age": age.tolist(),
            "sex": np.where(female, "female", "male").tolist(),
            "stay_days": stay.tolist(),
        }


def synthetic_discharges(
    configuration: Configuration, *, correlation: float = 0.6, outbreak_after: int | None = None, seed: int = 0
) -> SyntheticDischarges:
    """Return events for a configuration, with the patient's id also at its ``noise_key``. Loads the ontologies.

    Raises like ``SyntheticDischarges``, and ConfigurationError for FHIR resources and HL7 v2 messages.
    """
    if configuration.records != "json":
        raise ConfigurationError(
            f"records: synthetic events are JSON, not {configuration.records}: publish events of your own with "
            "stream-masker produce FILE"
        )
    taxonomies, attributes = build_taxonomies(configuration), []
    for name, section in configuration.attributes.items():
        path = compile_path(alternatives(section.path)[0])
        label, copies = label_path(configuration, section, path), tuple(map(compile_path, section.copies))
        attributes.append(SyntheticAttribute(name, taxonomies[name], path, label, copies))
    key = None if configuration.noise_key == POSITION else compile_path(alternatives(configuration.noise_key)[0])
    return SyntheticDischarges(
        attributes, correlation=correlation, outbreak_after=outbreak_after, seed=seed, patient_path=key
    )


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
