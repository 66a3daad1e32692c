"""The replacement engine for concepts in use: candidates are the concepts of the window, drawn by their frequency.

It follows ``core.replacement.rule`` for any taxonomy and any distance. Only the draw differs: of the admissible
candidates on the level one is drawn with a probability proportional to its frequency.

There are some hundreds or thousands of candidates. For each value and each reference the engine keeps a row: the
distances to all candidates, and the candidates in the order of their distance with prefix sums of their frequencies.
Rows are made when they are first needed, for all missing values of a batch at once.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from stream_masker.core.distance import Distance
from stream_masker.core.dtypes import (
    Float64Array,
    Float64Matrix,
    Int32Array,
    Int32Matrix,
    Int64Array,
    Int64Matrix,
    UInt8Array,
    UInt64Array,
)
from stream_masker.core.kernels.jit import inlined, int64, kernel, part
from stream_masker.core.random.draws import index_below
from stream_masker.core.replacement.choice import Choice
from stream_masker.core.replacement.rule import (
    SIGN_DROPPED,
    Replacement,
    ReplacementTask,
    choose_level,
    is_admissible,
)
from stream_masker.errors import ParameterError

ROWS_BYTES = 128 << 20
"""Size of the rows of a replacer, by default."""

MAX_FREQUENCY = (1 << 31) - 1
"""The largest sum of frequencies; larger ones are scaled."""

FIRST_ROWS = 64
"""Rows that are allocated at first."""


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

    @property
    def weights(self) -> Int64Array:
        """(m,) int64, positive: the frequencies, scaled to a sum of at most ``MAX_FREQUENCY``."""
        total = int(self.counts.sum())
        if total <= MAX_FREQUENCY:
            return self.counts
        return np.maximum(self.counts * ((MAX_FREQUENCY - self.counts.size) / total), 1).astype(np.int64)


class ObservedRows(NamedTuple):
    """The rows as kernels read them, for m candidates.

    row_of, index_of: of each position of the taxonomy: its row, and its index among the candidates; or -1.
    distances: (rows, m) from the row's concept to each candidate.
    order: (rows, m) the candidates by distance, nearest first; the row's own concept, if it is one, before all others.
    cumulative: (rows, m + 1) the sums of the weights of the first k candidates in this order.
    """

    row_of: Int32Array
    index_of: Int32Array
    positions: Int32Array
    weights: Int64Array
    distances: Float64Matrix
    order: Int32Matrix
    cumulative: Int64Matrix


class ObservedCase(NamedTuple):
    """One value to replace: its row, the first of its other candidates, the row of its reference, and its own distance
    from it. sign: 1 for farther, -1 for nearer, 0 for no sign condition."""

    row: int
    first: int
    reference: int
    own_distance: float
    sign: int


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
        if frequencies.positions[-1] >= size:
            raise ParameterError("a concept with a frequency lies outside the taxonomy")
        self._distance = distance
        self._calibrated = calibrated
        self._limit = max(2, rows_bytes // (20 * m + 8))
        self._used = 0
        index_of = np.full(size, -1, np.int32)
        index_of[frequencies.positions] = np.arange(m, dtype=np.int32)
        capacity = min(FIRST_ROWS, self._limit)
        self._rows = ObservedRows(
            np.full(size, -1, np.int32),
            index_of,
            frequencies.positions.astype(np.int32),
            frequencies.weights.astype(np.int64),
            np.empty((capacity, m)),
            np.empty((capacity, m), np.int32),
            np.empty((capacity, m + 1), np.int64),
        )

    def replace(self, task: ReplacementTask) -> Replacement:
        """Replaces every value of the task."""
        parts = [self._replace_part(task, part) for part in self._parts(task)]
        if len(parts) == 1:
            return parts[0]
        columns = zip(*((p.codes, p.distances, p.flags) for p in parts), strict=True)
        return Replacement(*map(np.concatenate, columns)) if parts else self._replace_part(task, slice(0, 0))

    def _parts(self, task: ReplacementTask) -> Iterator[slice]:
        """Parts of the task whose rows have room."""
        step = task.codes.size
        if len(self._needed(task, slice(None))) > self._limit:
            step = self._limit // 2
        yield from (slice(start, start + step) for start in range(0, task.codes.size, max(step, 1)))

    def _replace_part(self, task: ReplacementTask, part: slice) -> Replacement:
        self._make_rows(self._needed(task, part))
        codes, references = task.codes[part], task.references[part]
        own = np.zeros(codes.size)
        signed = np.flatnonzero((codes >= 0) & (references >= 0))
        own[signed] = self._distance.pairs(codes[signed], references[signed])
        words = (task.noise[part], task.rounding[part], task.ties[part])
        return Replacement(*replace_observed(self._rows, self._calibrated, codes, references, own, *words))

    def _needed(self, task: ReplacementTask, part: slice) -> Int32Array:
        """The values and references of a part of the task, each once."""
        used = np.concatenate((task.codes[part], task.references[part]))
        return np.flatnonzero(np.bincount(used[used >= 0], minlength=1)).astype(np.int32)

    def _make_rows(self, needed: Int32Array) -> None:
        """Makes the missing rows; drops all rows first if there is no room for them."""
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
        capacity = len(self._rows.distances)
        if rows > capacity:
            more = min(max(rows, 2 * capacity), self._limit) - capacity
            grown = {
                name: np.concatenate((table, np.empty((more, table.shape[1]), table.dtype)))
                for name, table in self._rows._asdict().items()
                if name in ("distances", "order", "cumulative")
            }
            self._rows = self._rows._replace(**grown)

    def _fill_rows(self, first: int, concepts: Int32Array) -> None:
        rows = self._rows
        part = slice(first, first + concepts.size)
        distances = self._distance.between(concepts, rows.positions)
        rows.distances[part] = distances
        own = np.flatnonzero(rows.index_of[concepts] >= 0)
        distances[own, rows.index_of[concepts[own]]] = -1.0
        order = np.argsort(distances, axis=1, kind="stable")
        rows.order[part] = order
        rows.cumulative[part, 0] = 0
        np.cumsum(rows.weights[order], axis=1, out=rows.cumulative[part, 1:])
        rows.row_of[concepts] = np.arange(first, first + concepts.size, dtype=np.int32)


@inlined
def distance_at(rows: ObservedRows, case: ObservedCase, i: int) -> float:
    """The distance of the candidate with index i in the order of the value."""
    return rows.distances[case.row, rows.order[case.row, i]]


@inlined
def is_candidate(rows: ObservedRows, case: ObservedCase, i: int) -> bool:
    """Whether the candidate with index i in the order of the value meets the sign condition."""
    return is_admissible(case.sign, rows.distances[case.reference, rows.order[case.row, i]], case.own_distance)


@part
def first_at_least(rows: ObservedRows, case: ObservedCase, target: float) -> int:
    """The index, in the order of the value, of the first other candidate that is at least as far as the target."""
    low, high = int64(case.first), int64(rows.positions.size)
    while low < high:
        middle = (low + high) >> 1
        if distance_at(rows, case, middle) < target:
            low = middle + 1
        else:
            high = middle
    return low


@part
def level_end(rows: ObservedRows, case: ObservedCase, i: int) -> int:
    """The index behind the last candidate that is as far from the value as the one with index i."""
    level = distance_at(rows, case, i)
    while i < rows.positions.size and distance_at(rows, case, i) == level:
        i += 1
    return i


@part
def level_start(rows: ObservedRows, case: ObservedCase, i: int) -> int:
    """The index of the first candidate that is as far from the value as the one with index i."""
    level = distance_at(rows, case, i)
    while i > case.first and distance_at(rows, case, i - 1) == level:
        i -= 1
    return i


@part
def seek_above(rows: ObservedRows, case: ObservedCase, i: int) -> int:
    """The index of the first admissible candidate from i on; m if there is none."""
    while i < rows.positions.size and not is_candidate(rows, case, i):
        i += 1
    return i


@part
def seek_below(rows: ObservedRows, case: ObservedCase, i: int) -> int:
    """The index of the last admissible candidate before i; -1 if there is none."""
    i -= 1
    while i >= case.first and not is_candidate(rows, case, i):
        i -= 1
    return i if i >= case.first else int64(-1)


@part
def draw_by_frequency(rows: ObservedRows, case: ObservedCase, start: int, end: int, tie: np.uint64) -> int:
    """The index, in the order of the value, of one of the admissible candidates start … end - 1, by their weights."""
    row = case.row
    if case.sign == 0:
        chosen = rows.cumulative[row, start] + index_below(tie, rows.cumulative[row, end] - rows.cumulative[row, start])
        while rows.cumulative[row, start + 1] <= chosen:
            start += 1
        return start
    total = int64(0)
    for i in range(start, end):
        if is_candidate(rows, case, i):
            total += rows.weights[rows.order[row, i]]
    chosen = index_below(tie, total)
    for i in range(start, end):
        if is_candidate(rows, case, i):
            chosen -= rows.weights[rows.order[row, i]]
            if chosen < 0:
                return i
    return end - 1


@part
def replace_one(
    rows: ObservedRows, case: ObservedCase, calibrated: bool, target: float, rounding: np.uint64, tie: np.uint64
) -> Choice:
    """The replacement of one value; the candidate is a position, or -1 to keep the value."""
    m = rows.positions.size
    split = first_at_least(rows, case, target)
    above, below = seek_above(rows, case, split), seek_below(rows, case, split)
    dropped = 0
    if above == m and below < 0 and case.first < m:
        dropped = SIGN_DROPPED
        case = ObservedCase(case.row, case.first, case.reference, case.own_distance, int64(0))
        above, below = split, split - 1 if split > case.first else int64(-1)
    hi = distance_at(rows, case, above) if above < m else np.inf
    lo = distance_at(rows, case, below) if below >= 0 else -1.0
    level, flags = choose_level(target, lo, hi, case.first > 0, calibrated, rounding)
    if level == 0.0:
        return Choice(int64(-1), 0.0, flags | dropped)
    if level == hi:
        found = draw_by_frequency(rows, case, above, level_end(rows, case, above), tie)
    else:
        found = draw_by_frequency(rows, case, level_start(rows, case, below), below + 1, tie)
    return Choice(int64(rows.positions[rows.order[case.row, found]]), level, flags | dropped)


@kernel
def replace_observed(
    rows: ObservedRows,
    calibrated: bool,
    codes: Int32Array,
    references: Int32Array,
    own_distances: Float64Array,
    noise: Float64Array,
    rounding: UInt64Array,
    ties: UInt64Array,
) -> tuple[Int32Array, Float64Array, UInt8Array]:
    """(codes, distances, flags) of a ``Replacement`` of k values, given the arrays of the ``ReplacementTask``.

    own_distances: (k,) of each value from its reference. The rows of all values and references exist.
    """
    chosen = codes.copy()
    distances = np.zeros(codes.size, np.float64)
    flags = np.zeros(codes.size, np.uint8)
    for n in range(codes.size):
        a = int64(codes[n])
        if a >= 0 and noise[n] != 0.0:
            r = int64(references[n]) if references[n] >= 0 else a
            sign = int64(0) if r == a else (int64(1) if noise[n] > 0.0 else int64(-1))
            first = int64(1) if rows.index_of[a] >= 0 else int64(0)
            case = ObservedCase(int64(rows.row_of[a]), first, int64(rows.row_of[r]), own_distances[n], sign)
            choice = replace_one(rows, case, calibrated, abs(noise[n]), rounding[n], ties[n])
            distances[n], flags[n] = choice.distance, choice.flags
            if choice.candidate >= 0:
                chosen[n] = choice.candidate
    return chosen, distances, flags
