"""The replacement engine for concepts in use: candidates are the concepts of the window, drawn by their frequency.

It follows ``core.replacement.rule`` for any taxonomy and any distance. Of the admissible candidates on the level one is
drawn with a probability proportional to its frequency.

There are some hundreds or thousands of candidates. For each value and each reference the engine keeps a *row*: the
candidates in the order of their distance, with prefix sums of their frequencies, and the levels of distance as sets of
bits. The sign condition is a set of bits, too: the candidates of the reference's row from one of its levels on, or all
others. Rows are made when they are first needed, for all missing values of a batch at once.
"""

from __future__ import annotations

import numpy as np

from stream_masker.core.distance import Distance
from stream_masker.core.dtypes import Int32Array
from stream_masker.core.replacement.observed.draw import replace_observed
from stream_masker.core.replacement.observed.frequencies import ConceptFrequencies
from stream_masker.core.replacement.observed.rows import OWN, SET_WORD_BITS, ObservedLevels, ObservedRows, make_levels
from stream_masker.core.replacement.rule import Replacement, ReplacementTask

ROWS_BYTES = 128 << 20
"""The default size of the rows of a replacer."""

FIRST_ROWS = 64
"""The number of rows that are allocated initially."""

ROW_BYTES = 8
"""Bytes of a row for each candidate, without the levels."""

FIRST_LEVELS = 64
"""The number of levels of a row that is assumed before there are rows."""


class ObservedReplacer:
    """The ``Replacer`` whose candidates are the concepts of a window."""

    def __init__(
        self,
        distance: Distance,
        frequencies: ConceptFrequencies,
        *,
        calibrated: bool,
        rows_bytes: int = ROWS_BYTES,
    ) -> None:
        """``calibrated``: the rounding; ``rows_bytes``: the memory of the rows, at least that of two.

        Raises ParameterError for a concept outside the taxonomy.
        """
        size, m = len(distance.taxonomy), frequencies.positions.size
        frequencies.require_within(size)
        self._distance = distance
        self._calibrated = calibrated
        self._rows_bytes = rows_bytes
        self._levels_of_a_row = float(FIRST_LEVELS)
        self._used = 0
        index_of = np.full(size, -1, np.int32)
        index_of[frequencies.positions] = np.arange(m, dtype=np.int32)
        words = -(-m // SET_WORD_BITS)
        capacity = min(FIRST_ROWS, self._limit_of(m, words))
        self._rows = ObservedRows(
            np.full(size, -1, np.int32),
            index_of,
            frequencies.positions.astype(np.int32),
            frequencies.weights.astype(np.int64),
            np.empty((capacity, m), np.int32),
            np.empty((capacity, m + 1), np.int32),
            np.zeros(capacity + 1, np.int64),
        )
        self._levels = ObservedLevels(
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
        needed = _concepts(task, slice(None))
        if needed.size <= self._limit:
            return self._replace_part(task, slice(None), needed)
        step = self._limit // 2
        parts = [slice(start, start + step) for start in range(0, task.codes.size, step)]
        results = [self._replace_part(task, part, _concepts(task, part)) for part in parts]
        columns = zip(*((r.codes, r.distances, r.flags) for r in results), strict=True)
        return Replacement(*map(np.concatenate, columns))

    def _replace_part(self, task: ReplacementTask, part: slice, needed: Int32Array) -> Replacement:
        self._make_rows(needed)
        codes, references = task.codes[part], task.references[part]
        own = np.zeros(codes.size)
        signed = (codes >= 0) & (references >= 0)
        if signed.all():
            own = self._distance.pairs(codes, references)
        else:
            own[signed] = self._distance.pairs(codes[signed], references[signed])
        rows = (codes, references, own, task.noise[part], task.rounding[part], task.ties[part])
        return Replacement(*replace_observed(self._rows, self._levels, self._calibrated, *rows))

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
        own = np.flatnonzero(rows.index_of[concepts] >= 0)
        distances[own, rows.index_of[concepts[own]]] = OWN
        order = np.argsort(distances, axis=1, kind="stable")
        rows.order[part] = order
        rows.cumulative[part, 0] = 0
        np.cumsum(rows.weights[order], axis=1, out=rows.cumulative[part, 1:])
        rows.row_of[concepts] = np.arange(first, first + concepts.size, dtype=np.int32)
        made = make_levels(np.take_along_axis(distances, order, axis=1), rows.order[part].copy())
        start = rows.first_level[first]
        rows.first_level[first + 1 : first + concepts.size + 1] = start + made[0]
        self._levels_of_a_row = int(rows.first_level[first + concepts.size]) / (first + concepts.size)
        self._levels = ObservedLevels(
            *(np.concatenate((old[:start], new)) for old, new in zip(self._levels, made[1:], strict=True))
        )


def _concepts(task: ReplacementTask, part: slice) -> Int32Array:
    """Return the values and references of a part of the task, each once."""
    used = np.zeros(max(task.codes.max(initial=0), task.references.max(initial=0)) + 2, np.bool_)
    used[task.codes[part]] = used[task.references[part]] = True
    used[-1] = False
    return np.flatnonzero(used).astype(np.int32)
