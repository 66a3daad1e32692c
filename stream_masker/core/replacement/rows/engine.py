"""The replacement engine that keeps a row of candidates for each value and each reference.

It follows ``core.replacement.rule`` for any taxonomy and any distance. Of the admissible candidates on the level one is
drawn with a probability proportional to its frequency. The candidates are the concepts of a window, or all concepts
with equal frequencies, for the taxonomies and distances that no other engine supports.

A *row* holds the candidates in the order of their distance, with prefix sums of their frequencies, and the levels of
distance as sets of bits. The sign condition is a set of bits, too: the candidates of the reference's row from one of
its levels on, or all others. Rows are made when they are first needed, for all missing values of a batch at once.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from stream_masker.core.distance import Distance
from stream_masker.core.dtypes import Int32Array, Int64Array
from stream_masker.core.replacement.rows.draw import (
    OWN,
    SET_WORD_BITS,
    CandidateLevels,
    CandidateRows,
    make_levels,
    replace_by_rows,
)
from stream_masker.core.replacement.rule import Candidates, Replacement, ReplacementTask
from stream_masker.errors import ParameterError

MAX_FREQUENCY = (1 << 31) - 1
"""The largest sum of frequencies; larger ones are scaled."""


ROWS_BYTES = 128 << 20
"""The default size of the rows of a replacer."""

FIRST_ROWS = 64
"""The number of rows that are allocated initially."""

ROW_BYTES = 8
"""Bytes of a row for each candidate, without the levels."""

FIRST_LEVELS = 64
"""The number of levels of a row that is assumed before there are rows."""


@dataclass(frozen=True, slots=True, eq=False)
class ConceptFrequencies:
    """The concepts of a window and their frequencies. Immutable.

    positions: (m,) int32 ascending, distinct. counts: (m,) int64, positive.
    """

    positions: Int32Array
    counts: Int64Array

    def __post_init__(self) -> None:
        """Raises ParameterError if there is no concept, or if the arrays are not as described."""
        steps = np.diff(self.positions)
        if not self.positions.size or self.positions.shape != self.counts.shape:
            raise ParameterError("there must be as many frequencies as concepts, and at least one")
        if self.positions[0] < 0 or (steps <= 0).any() or self.counts.min() <= 0:
            raise ParameterError("the concepts must be distinct and ascending, and their frequencies positive")

    def require_within(self, size: int) -> None:
        """Raise ParameterError if a concept lies outside a taxonomy of ``size`` concepts."""
        if self.positions[-1] >= size:
            raise ParameterError("a concept with a frequency lies outside the taxonomy")

    @property
    def weights(self) -> Int64Array:
        """(m,) int64, positive: the frequencies, scaled to a sum of at most ``MAX_FREQUENCY``."""
        total = int(self.counts.sum())
        if total <= MAX_FREQUENCY:
            return self.counts
        share = (MAX_FREQUENCY - self.counts.size) / total
        scaled: Int64Array = np.maximum(self.counts * share, 1).astype(np.int64)
        return scaled


def equal_frequencies(candidates: Candidates) -> ConceptFrequencies:
    """Return candidates of which each is drawn as often as any other."""
    return ConceptFrequencies(candidates.positions, np.ones(candidates.positions.size, np.int64))


class RowReplacer:
    """The ``Replacer`` whose candidates are concepts with frequencies."""

    def __init__(
        self,
        distance: Distance,
        frequencies: ConceptFrequencies,
        *,
        calibrated: bool,
        weak: bool,
        rows_bytes: int = ROWS_BYTES,
    ) -> None:
        """``calibrated``: the rounding; ``weak``: whether candidates as far from the reference as the value are
        admissible, and drawn where no other one is; ``rows_bytes``: the memory of the rows, at least that of two.

        Raises ParameterError for a concept outside the taxonomy.
        """
        size, m = len(distance.taxonomy), frequencies.positions.size
        frequencies.require_within(size)
        self._distance = distance
        self._calibrated, self._weak = calibrated, weak
        self._rows_bytes = rows_bytes
        self._levels_of_a_row = float(FIRST_LEVELS)
        self._used = 0
        index_of = np.full(size, -1, np.int32)
        index_of[frequencies.positions] = np.arange(m, dtype=np.int32)
        words = -(-m // SET_WORD_BITS)
        capacity = min(FIRST_ROWS, self._limit_of(m, words))
        self._rows = CandidateRows(
            np.full(size, -1, np.int32),
            index_of,
            frequencies.positions.astype(np.int32),
            frequencies.weights.astype(np.int64),
            np.empty((capacity, m), np.int32),
            np.empty((capacity, m + 1), np.int32),
            np.zeros(capacity + 1, np.int64),
        )
        self._levels = CandidateLevels(
            np.empty(0), np.empty(0, np.int64), np.empty((0, words), np.uint64), np.empty((0, words), np.uint64)
        )

    @property
    def _limit(self) -> int:
        """The number of rows for which there is room, if they have as many levels as those that were made."""
        return self._limit_of(self._rows.positions.size, self._levels.members.shape[1])

    def _limit_of(self, candidates: int, words: int) -> int:
        row_bytes = ROW_BYTES * candidates + 2 * words * np.dtype(np.uint64).itemsize * self._levels_of_a_row
        return max(2, int(self._rows_bytes // row_bytes))

    def replace(self, task: ReplacementTask) -> Replacement:
        """Replace every value of the task."""
        needed = _concepts(task)
        if needed.size <= self._limit:
            return self._replace_part(task, needed)
        order, size = np.argsort(task.codes, kind="stable"), task.codes.size
        whole = Replacement(np.empty(size, np.int32), np.empty(size), np.empty(size, np.uint8))
        for rows in np.array_split(order, -(-size // (self._limit // 2))):
            part = task.part(rows)
            whole.codes[rows], whole.distances[rows], whole.flags[rows] = self._replace_part(part, _concepts(part))
        return whole

    def _replace_part(self, task: ReplacementTask, needed: Int32Array) -> Replacement:
        self._make_rows(needed)
        own_distances = np.zeros(task.codes.size)
        signed = (task.codes >= 0) & (task.references >= 0)
        own_distances[signed] = self._distance.pairs(task.codes[signed], task.references[signed])
        rows = (task.codes, task.references, task.noise, task.rounding, task.ties)
        return Replacement(
            *replace_by_rows(self._rows, self._levels, self._calibrated, self._weak, own_distances, *rows)
        )

    def _make_rows(self, needed: Int32Array) -> None:
        """Make the missing rows. If there is no room for them, drop all rows first."""
        missing = needed[self._rows.row_of[needed] < 0]
        if self._used + missing.size > self._limit:
            self._rows.row_of[:] = -1
            self._used, missing = 0, needed
        self._reserve(self._used + missing.size)
        if missing.size:
            first = self._used
            self._used += missing.size
            self._fill_rows(first, missing)

    def _reserve(self, rows: int) -> None:
        capacity = len(self._rows.order)
        if rows > capacity:
            more = max(rows, min(2 * capacity, self._limit)) - capacity
            order, cumulative, first = self._rows.order, self._rows.cumulative, self._rows.first_level
            self._rows = self._rows._replace(
                order=np.concatenate((order, np.empty((more, order.shape[1]), order.dtype))),
                cumulative=np.concatenate((cumulative, np.empty((more, cumulative.shape[1]), cumulative.dtype))),
                first_level=np.concatenate((first, np.zeros(more, first.dtype))),
            )

    def _fill_rows(self, first: int, concepts: Int32Array) -> None:
        rows = self._rows
        part = slice(first, first + concepts.size)
        distances = self._distance.between(concepts, rows.positions)
        candidates = np.flatnonzero(rows.index_of[concepts] >= 0)
        distances[candidates, rows.index_of[concepts[candidates]]] = OWN
        order = np.argsort(distances, axis=1, kind="stable")
        rows.order[part] = order
        rows.cumulative[part, 0] = 0
        np.cumsum(rows.weights[order], axis=1, out=rows.cumulative[part, 1:])
        rows.row_of[concepts] = np.arange(first, first + concepts.size, dtype=np.int32)
        made = make_levels(np.take_along_axis(distances, order, axis=1), rows.order[part].copy())
        start = rows.first_level[first]
        rows.first_level[first + 1 : first + concepts.size + 1] = start + made[0]
        self._levels_of_a_row = int(rows.first_level[first + concepts.size]) / (first + concepts.size)
        self._levels = CandidateLevels(
            *(np.concatenate((old[:start], new)) for old, new in zip(self._levels, made[1:], strict=True))
        )


def _concepts(task: ReplacementTask) -> Int32Array:
    """Return the values and references of a task, each once."""
    used = np.zeros(max(task.codes.max(initial=0), task.references.max(initial=0)) + 2, np.bool_)
    used[task.codes] = used[task.references] = True
    used[-1] = False
    return np.flatnonzero(used).astype(np.int32)
