"""Synthetic discharge events: correlated and skewed like real ones, and reproducible from a seed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache, partial
from itertools import islice, pairwise, starmap
from typing import Any, NamedTuple

import numpy as np

from stream_masker.core.arrays import Int64Array
from stream_masker.errors import ConfigurationError
from stream_masker.pipeline.paths import Document, EachStep, NameStep, Path, alternatives, compile_path
from stream_masker.service.configuration.build import build_taxonomies
from stream_masker.service.configuration.model import Configuration
from stream_masker.service.configuration.paths import POSITION, ConfiguredPaths
from stream_masker.service.events.codes import CompanionCodes, Popularity

BLOCK_EVENTS = 8_192
"""The number of events that are generated together."""

ELEMENT_COUNT_SHARES = np.array([0.18, 0.22, 0.25, 0.20, 0.15])
"""The shares of events with 1, 2, ... elements in their array attributes."""

RETURNING_SHARE = 0.3
"""The share of events that are another visit of an earlier patient."""

OUTBREAK_SHARE = 0.15
"""The share of principal diagnoses that an outbreak takes."""


class Column(NamedTuple):
    """What is written at a path: the codes of attribute ``attribute``, or their labels."""

    path: Path
    attribute: int
    labels: bool = False


class SyntheticDischarges:
    """Discharge events as JSON objects for a configuration. The first scalar attribute is the principal diagnosis.

    The popularity of codes is Zipf-like over the leaves of each taxonomy. The codes of all other attributes depend on
    the principal code. From event ``outbreak_after`` on (None: never), ``OUTBREAK_SHARE`` of the principal diagnoses
    are those of ``Popularity.outbreak``. Patients return with the same name, age and sex; their id is also at the
    ``noise_key``.

    Loads the ontologies. Raises ConfigurationError for FHIR resources and HL7 v2 messages, without a scalar attribute,
    and for paths with filters, positions or several lists.
    """

    def __init__(self, configuration: Configuration, *, outbreak_after: int | None = None, seed: int = 0) -> None:
        if configuration.records != "json":
            raise ConfigurationError(
                f"records: synthetic events are JSON, not {configuration.records}: use events of your own"
            )
        places = {name: first for name, (first, *_) in ConfiguredPaths(configuration).places.items()}
        paths = {name: place.path for name, place in places.items()}
        names = sorted(paths, key=lambda name: paths[name].arrays > 0)
        if not names or paths[names[0]].arrays:
            raise ConfigurationError("synthetic events need an attribute with one value, as the principal diagnosis")
        self._seed, self._outbreak_after = seed, outbreak_after
        self._is_array = [paths[name].arrays > 0 for name in names]
        taxonomies, rng = build_taxonomies(configuration), np.random.default_rng(seed)
        popularity = cache(partial(Popularity, rng=rng))
        self._codes = [popularity(taxonomies[name]) for name in names]
        self._companions = [CompanionCodes(self._codes[0], codes, rng=rng) for codes in self._codes[1:]]
        self._texts = [(taxonomies[name].ids, taxonomies[name].labels) for name in names]
        self._columns: list[Column] = []
        for name, (path, label, copies) in places.items():
            self._columns += [Column(each, names.index(name)) for each in (path, *copies)]
            self._columns += [] if label is None else [Column(label, names.index(name), labels=True)]
        key = configuration.noise_key
        self._patient_path = None if key == POSITION else compile_path(alternatives(key)[0])
        for path in (*(column.path for column in self._columns), *filter(None, [self._patient_path])):
            if not all(isinstance(step, NameStep | EachStep) for step in path.steps) or path.arrays > 1:
                raise ConfigurationError(f"synthetic events have names and one [*] in a path, not {path.text!r}")

    def events(self, records: int) -> Iterator[Document]:
        """Yield this number of events, always from the first one."""
        patients = 0
        for number in range(-(-records // BLOCK_EVENTS)):
            ids, patients = _patients(BLOCK_EVENTS, patients, np.random.default_rng([self._seed, number, 1]))
            rng = np.random.default_rng([self._seed, number, 2])
            people, codes = self._people(ids, number * BLOCK_EVENTS, rng), self._code_columns(number, rng)
            block = zip(zip(*people, strict=True), zip(*codes, strict=True), strict=True)
            yield from starmap(self._event, islice(block, records - number * BLOCK_EVENTS))

    def _event(self, person: Sequence[Any], values: Sequence[Any]) -> Document:
        encounter, patient, name, age, sex, stay = person
        event: Document = {"encounter_id": encounter, "patient": {"id": patient, "name": name}}
        event |= {"age": age, "sex": sex, "stay_days": stay}
        for column, value in zip(self._columns, values, strict=True):
            _put(event, column.path.steps, value)
        if self._patient_path is not None:
            _put(event, self._patient_path.steps, patient)
        return event

    def _code_columns(self, number: int, rng: np.random.Generator) -> list[list[Any]]:
        """Return the values of each column for a block of events; lists of values for an array."""
        counts = rng.choice(len(ELEMENT_COUNT_SHARES), BLOCK_EVENTS, p=ELEMENT_COUNT_SHARES) + 1
        principal = self._codes[0].draw(rng.random(BLOCK_EVENTS))
        if self._outbreak_after is not None:
            ill = np.random.default_rng([self._seed, number, 3])
            events = number * BLOCK_EVENTS + np.arange(BLOCK_EVENTS)
            is_ill = (events >= self._outbreak_after) & (ill.random(BLOCK_EVENTS) < OUTBREAK_SHARE)
            principal = np.where(is_ill, ill.choice(self._codes[0].outbreak, BLOCK_EVENTS), principal)
        drawn = [principal]
        for companions, is_array in zip(self._companions, self._is_array[1:], strict=True):
            codes = companions.draw(principal, len(ELEMENT_COUNT_SHARES) if is_array else 1, rng=rng)
            drawn.append(codes[np.arange(codes.shape[1]) < counts[:, None]] if is_array else codes[:, 0])
        bounds = list(pairwise([0, *np.cumsum(counts).tolist()]))
        columns = []
        for column in self._columns:
            i = column.attribute
            positions, places = np.unique(self._codes[i].positions[drawn[i]], return_inverse=True)
            texts = [self._texts[i][column.labels][position] for position in positions.tolist()]
            values = [texts[place] for place in places.tolist()]
            columns.append([values[start:end] for start, end in bounds] if self._is_array[i] else values)
        return columns

    def _people(self, patients: Int64Array, first: int, rng: np.random.Generator) -> tuple[list[Any], ...]:
        """Return encounters, ids, names, ages in years, skewed to old age, sexes and days of stay of a block of events.

        Ages and sexes are functions of the number of a patient, who may return in any block.
        """
        by_age, by_sex = ((patients + self._seed) * irrational % 1.0 for irrational in (5**0.5, 2**0.5))
        stay = np.minimum(np.floor(rng.gamma(1.6, 2.6, len(patients))) + 1, 60).astype(np.int64)
        return (
            [f"enc-{number:09d}" for number in range(first, first + len(patients))],
            [f"syn-{number:07d}" for number in patients.tolist()],
            [f"Synthetic Patient {number}" for number in patients.tolist()],
            np.floor(100 * by_age**0.55).astype(np.int64).tolist(),
            np.where(by_sex < 0.5, "female", "male").tolist(),
            stay.tolist(),
        )


def _put(node: Document, steps: Sequence[Any], value: Any) -> None:
    """Write a value below an object; at ``[*]``, a value for each element."""
    key, rest = steps[0].key, steps[1:]
    if not rest:
        node[key] = value
    elif not isinstance(rest[0], EachStep):
        _put(node.setdefault(key, {}), rest, value)
    elif rest[1:]:
        for element, one in zip(node.setdefault(key, [{} for _ in value]), value, strict=True):
            _put(element, rest[1:], one)
    else:
        node[key] = list(value)


def _patients(size: int, before: int, rng: np.random.Generator) -> tuple[Int64Array, int]:
    """Return the patient numbers of a block of events, and the total number of patients afterwards."""
    new = rng.random(size) >= RETURNING_SHARE
    new[0] |= before == 0
    totals = before + np.cumsum(new)
    earlier = np.floor(rng.random(size) * totals).astype(np.int64)
    return np.where(new, totals - 1, earlier), int(totals[-1])
