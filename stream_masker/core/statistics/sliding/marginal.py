"""Semantic distance variance of a sliding window, and the sums of distances that covariances need.

A value keeps the slot that it was first given, even after it has left the window, until slots run out. A value that
returns is therefore as fast to update as one that is present. Rows of distances from changed values to all known values
are cached within a memory limit.
"""

from __future__ import annotations

import math

import numpy as np

from stream_masker.core.distance import Distance
from stream_masker.core.dtypes import Float64Array, Int64Array
from stream_masker.core.statistics.compensated import CompensatedSums
from stream_masker.core.statistics.counts import SparseCounts, difference
from stream_masker.core.statistics.marginal import Marginal
from stream_masker.core.statistics.sliding.kernels import ValueSums, slide_values
from stream_masker.errors import StatisticsError

MAX_CHANGE_SHARE = 0.5
"""A change of more than this share of the keys costs as much as a computation from all counts."""

MAX_KEPT_DISTANCES = 1 << 19
"""The most distances (4 MB) that are kept for an attribute, except for those of values that change at once."""


class SlidingMarginal:
    """One attribute's counts, and the sums of x = sd − shift that sdVar² consists of. Mutable."""

    def __init__(self, counts: SparseCounts, d: Distance) -> None:
        """Compute the sums from the counts; the shift is the mean of all distances.

        Raises StatisticsError if there are no counts.
        """
        values = Marginal(counts, d)
        self.shift = values.grand_mean
        self._d = d
        self._squares = CompensatedSums(np.array([values.weights @ values.sums(self.shift)[1]]))
        sums = CompensatedSums((values.means - self.shift) * values.rows)
        self._assign_slots(counts.keys, values.weights, sums.sums_and_errors, free_slots=counts.keys.size)

    def slide(self, change: SparseCounts) -> None:
        """Apply a change of the counts."""
        if change.keys.size > self.max_rows:
            self._slide_by_blocks(change)
        elif not slide_values(change.keys, change.counts, self.size, self.value_sums):
            self.prepare(change.keys)
            slide_values(change.keys, change.counts, self.size, self.value_sums)

    def prepare(self, keys: Int64Array) -> None:
        """Give distinct values, at most ``max_rows``, slots and cached rows of distances, as the kernels require.

        Raises UnknownConceptError, and changes nothing, for a value outside the taxonomy.
        """
        self._ensure_slots(keys)
        self._admit(keys)

    @property
    def max_rows(self) -> int:
        """The number of values that can have cached rows of distances at a time."""
        return self._row_owners.size

    @property
    def counts(self) -> SparseCounts:
        """The number of rows that have each value."""
        present = self._present_slots
        values = self._values[present]
        order = np.argsort(values)
        return SparseCounts(values[order], self.value_sums.counts[present][order].astype(np.int64))

    @property
    def is_constant(self) -> bool:
        """Whether all rows have the same value."""
        return self._present_slots.size == 1

    @property
    def means(self) -> Float64Array:
        """(k,) float64: the mean x of each known value, by slot, to the n values."""
        return self._sums.values[: self.size] / self._rows

    @property
    def grand_mean(self) -> float:
        """The mean of all n × n distances, minus the shift."""
        return float(self._weights @ self.means) / self._rows

    @property
    def variance_squared(self) -> float:
        """sdVar² (2017: equation 20)."""
        if self.is_constant:
            return 0.0
        means, n = self.means, self._rows
        mixed = float(self._weights @ means**2) / n
        grand_mean = float(self._weights @ means) / n
        return max(0.0, float(self._squares.values[0]) / n**2 + grand_mean**2 - 2.0 * mixed)

    @property
    def _weights(self) -> Float64Array:
        return self.value_sums.counts[: self.size]

    @property
    def _rows(self) -> float:
        return float(self._weights.sum())

    @property
    def _present_slots(self) -> Int64Array:
        """The slots of the values that at least one row has."""
        return np.flatnonzero(self._weights)

    def _assign_slots(
        self, values: Int64Array, counts: Float64Array, sums: Float64Array, free_slots: int, min_rows: int = 1
    ) -> None:
        """Give these values the first slots, and leave ``free_slots`` more.

        The cache of rows of distances is emptied; it has room for at least ``min_rows`` rows.
        """
        self.size = values.size
        slots = self.size + free_slots
        rows = min(slots, max(min_rows, MAX_KEPT_DISTANCES // slots))
        slot_of = np.full(len(self._d.taxonomy), -1, np.int32)
        slot_of[values] = np.arange(self.size, dtype=np.int32)
        self._values = np.concatenate((values, np.zeros(free_slots, np.int64)))
        self._sums = CompensatedSums(np.zeros(slots))
        self._sums.sums_and_errors[: self.size] = sums
        self._row_owners, self._next_row = np.full(rows, -1, np.int64), 0
        weights = np.concatenate((counts, np.zeros(free_slots)))
        row_of, distances = np.full(slots, -1, np.int64), np.empty((rows, slots))
        sums_of_all, squares = self._sums.sums_and_errors, self._squares.sums_and_errors
        self.value_sums = ValueSums(slot_of, row_of, distances, weights, sums_of_all, squares)

    def _ensure_slots(self, keys: Int64Array) -> None:
        """Make room for the new values of ``keys``.

        If there are too few free slots, values that left the window and are not in ``keys`` are dropped.
        """
        new = int(np.count_nonzero(self.value_sums.slot_of[self._d.encode(keys)] < 0))
        if self.size + new > self.value_sums.row_of.size:
            kept = np.flatnonzero((self._weights > 0.0) | np.isin(self._values[: self.size], keys))
            counts, sums = self.value_sums.counts[kept], self._sums.sums_and_errors[kept]
            min_rows = min(keys.size, self.max_rows)
            self._assign_slots(self._values[kept], counts, sums, free_slots=kept.size + new, min_rows=min_rows)

    def _admit(self, keys: Int64Array) -> None:
        """Give new values slots and sums, and all of ``keys`` cached rows of distances; there must be enough slots."""
        slot_of, row_of = self.value_sums.slot_of, self.value_sums.row_of
        new = keys[slot_of[keys] < 0]
        slots = np.arange(self.size, self.size + new.size)
        slot_of[new] = slots
        self._values[slots] = new
        self.size += new.size
        wanted_slots = slot_of[keys].astype(np.int64)
        missing = wanted_slots[row_of[wanted_slots] < 0]
        if missing.size:
            self._compute_rows(missing, wanted_slots)
        if slots.size:
            self._start_sums(slots)

    def _compute_rows(self, slots: Int64Array, wanted_slots: Int64Array) -> None:
        """Compute rows of distances for the values at ``slots``.

        They replace, round robin, rows of values that are not in ``wanted_slots``.
        """
        order = np.roll(np.arange(self.max_rows), -self._next_row)
        rows = order[~np.isin(self._row_owners[order], wanted_slots)][: slots.size]
        owners = self._row_owners[rows]
        self.value_sums.row_of[owners[owners >= 0]] = -1
        self.value_sums.row_of[slots], self._row_owners[rows] = rows, slots
        self._next_row = int(rows[-1]) + 1
        self.value_sums.distances[rows, : self.size] = self._shifted_distances(slots)

    def _start_sums(self, slots: Int64Array) -> None:
        """Compute the sums of new values that have rows, and add their distances to all other rows."""
        distances = self.value_sums.distances[self.value_sums.row_of[slots], : self.size]
        self.value_sums.sums[slots] = np.stack((distances @ self._weights, np.zeros(slots.size)), axis=1)
        rows = np.flatnonzero(self._row_owners >= 0)
        self.value_sums.distances[np.ix_(rows, slots)] = distances[:, self._row_owners[rows]].T

    def _shifted_distances(self, slots: Int64Array) -> Float64Array:
        values = self._values[: self.size].astype(np.int32)
        return self._d.between(values[slots], values) - self.shift

    def _slide_by_blocks(self, change: SparseCounts) -> None:
        self._ensure_slots(change.keys)
        new = change.keys[self.value_sums.slot_of[change.keys] < 0]
        for start in range(0, new.size, self.max_rows):
            self._admit(new[start : start + self.max_rows])
        amounts = np.zeros(self.value_sums.counts.size)
        amounts[self.value_sums.slot_of[change.keys]] = change.counts
        both = 2.0 * self.value_sums.counts + amounts
        targets = self._d.targets(self._values[: self.size].astype(np.int32))
        changed, weights = self._d.sources(change.keys.astype(np.int32)), change.counts.astype(np.float64)
        squares = targets.sums(changed, both[: self.size], self.shift)[1]
        self._squares.add_products(squares[None, :], weights)
        sums = np.zeros(amounts.size)
        sums[: self.size] = targets.weighted(changed, weights, self.shift)
        self._sums.add(sums)
        self.value_sums.counts[:] += amounts


class SlidingVariance:
    """sdVar (2017: equation 20) of an attribute in a sliding window. Mutable."""

    def __init__(self, d: Distance) -> None:
        """Start with an empty window; ``d``: the distance on the attribute's taxonomy."""
        self._d = d
        self._sliding: SlidingMarginal | None = None
        self._counts = SparseCounts(np.zeros(0, np.int64), np.zeros(0, np.int64))
        self._first_rows = 0

    def slide_to(self, counts: SparseCounts) -> None:
        """Slide to the window that has these counts. Raises StatisticsError for an empty one."""
        change = difference(counts, self._counts)
        if self._sliding is not None and is_incremental(change, self._counts, counts.rows, self._first_rows):
            self._sliding.slide(change)
        else:
            self._sliding, self._first_rows = SlidingMarginal(counts, self._d), counts.rows
        self._counts = counts

    @property
    def variance(self) -> float:
        """sdVar, in [0, 1]. Raises StatisticsError for an empty window."""
        if self._sliding is None:
            raise StatisticsError("statistics need at least one value")
        return math.sqrt(self._sliding.variance_squared)


def is_incremental(change: SparseCounts, old: SparseCounts, rows: int, first_rows: int) -> bool:
    """Return whether to apply a change incrementally; ``rows``: the number of rows after the change.

    A large change is not worth it. If most of the initial rows have left, the rounding errors of the initial sums could
    become significant.
    """
    return 2 * rows >= first_rows and change.keys.size <= MAX_CHANGE_SHARE * old.keys.size
