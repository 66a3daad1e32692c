"""Semantic distance variances of a window as it slides, and the sums of distances that covariances need.

Values keep the place that they once got, also when they are gone, until places run out: so a value that comes again
is as quick as one that is there. Distances of what changes to all known values are kept for as many as memory allows.
"""

from __future__ import annotations

import math

import numpy as np

from stream_masker.core.distance import Distance
from stream_masker.core.dtypes import Float64Array, Int64Array
from stream_masker.core.statistics.compensated import CompensatedSums
from stream_masker.core.statistics.counts import SparseCounts, difference
from stream_masker.core.statistics.marginal import Marginal
from stream_masker.core.statistics.sliding.kernels import KnownSums, slide_values
from stream_masker.errors import StatisticsError

LARGEST_SHARE = 0.5
"""A change of more than this share of the keys is as dear as a computation from all."""

KEPT_DISTANCES = 1 << 19
"""No more distances (4 MB) than these are kept of an attribute, but those of the values that change at once."""


class SlidingMarginal:
    """One attribute's counts, and the sums of x = sd - shift that sdVar² consists of. Mutable."""

    def __init__(self, counts: SparseCounts, d: Distance) -> None:
        """Computed from the counts; the shift is the mean of all distances then. Raises StatisticsError for none."""
        values = Marginal(counts, d)
        self.shift = values.grand_mean
        self._d = d
        self._squares = CompensatedSums(np.array([values.weights @ values.sums(self.shift)[1]]))
        sums = CompensatedSums((values.means - self.shift) * values.rows)
        self._settle(counts.keys, values.weights, sums.parts, room=counts.keys.size)

    def slide(self, change: SparseCounts) -> None:
        """Takes in what came less what went."""
        if change.keys.size > self.most_rows:
            self._slide_many(change)
        elif not slide_values(change.keys, change.counts, self.size, self.known):
            self.prepare(change.keys)
            slide_values(change.keys, change.counts, self.size, self.known)

    def prepare(self, keys: Int64Array) -> None:
        """Makes different values, at most ``most_rows``, known, and has rows of their distances: for the kernels.

        Raises UnknownConceptError, and changes nothing, for a value outside the taxonomy.
        """
        self._make_room(keys)
        self._learn(keys)

    @property
    def most_rows(self) -> int:
        """How many values can have rows of their distances at a time."""
        return self._owner.size

    @property
    def counts(self) -> SparseCounts:
        """How many rows have each value."""
        there = self._there
        values = self._values[there]
        order = np.argsort(values)
        return SparseCounts(values[order], self.known.counts[there][order].astype(np.int64))

    @property
    def is_constant(self) -> bool:
        """Whether all rows have the same value."""
        return self._there.size == 1

    @property
    def means(self) -> Float64Array:
        """(k,): the mean x of each known value, at its place, to the n values."""
        return self._sums.values[: self.size] / self._rows

    @property
    def grand_mean(self) -> float:
        """The mean of all n x n distances, less the shift."""
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
        return self.known.counts[: self.size]

    @property
    def _rows(self) -> float:
        return float(self._weights.sum())

    @property
    def _there(self) -> Int64Array:
        """The places of the values that some row has."""
        return np.flatnonzero(self._weights)

    def _settle(self, values: Int64Array, counts: Float64Array, sums: Float64Array, room: int, least: int = 1) -> None:
        """Gives these values the first places, and leaves ``room`` for so many others. No row of distances is kept;
        there will be at least ``least``."""
        self.size = values.size
        places = self.size + room
        rows = min(places, max(least, KEPT_DISTANCES // places))
        place = np.full(len(self._d.taxonomy), -1, np.int32)
        place[values] = np.arange(self.size, dtype=np.int32)
        self._values = np.concatenate((values, np.zeros(room, np.int64)))
        self._sums = CompensatedSums(np.zeros(places))
        self._sums.parts[: self.size] = sums
        self._owner, self._next = np.full(rows, -1, np.int64), 0
        weights = np.concatenate((counts, np.zeros(room)))
        row, distances = np.full(places, -1, np.int64), np.empty((rows, places))
        self.known = KnownSums(place, row, distances, weights, self._sums.parts, self._squares.parts)

    def _make_room(self, keys: Int64Array) -> None:
        """Forgets values that are gone, but none of ``keys``, where there are no places left for those of them that
        are new."""
        new = int(np.count_nonzero(self.known.place[self._d.encode(keys)] < 0))
        if self.size + new > self.known.row.size:
            kept = np.flatnonzero((self._weights > 0.0) | np.isin(self._values[: self.size], keys))
            counts, sums = self.known.counts[kept], self._sums.parts[kept]
            self._settle(self._values[kept], counts, sums, room=kept.size + new, least=min(keys.size, self.most_rows))

    def _learn(self, keys: Int64Array) -> None:
        """Gives new values places and sums, and all of ``keys`` rows of distances; for all there is room."""
        place, row = self.known.place, self.known.row
        new = keys[place[keys] < 0]
        places = np.arange(self.size, self.size + new.size)
        place[new] = places
        self._values[places] = new
        self.size += new.size
        wanted = place[keys].astype(np.int64)
        missing = wanted[row[wanted] < 0]
        if missing.size:
            self._fetch(missing, wanted)
        if places.size:
            self._begin(places)

    def _fetch(self, places: Int64Array, wanted: Int64Array) -> None:
        """Computes the rows of the values at ``places``, over rows that are not of ``wanted``, by turns."""
        turn = np.roll(np.arange(self.most_rows), -self._next)
        rows = turn[~np.isin(self._owner[turn], wanted)][: places.size]
        owners = self._owner[rows]
        self.known.row[owners[owners >= 0]] = -1
        self.known.row[places], self._owner[rows] = rows, places
        self._next = int(rows[-1]) + 1
        self.known.distances[rows, : self.size] = self._between(places)

    def _begin(self, places: Int64Array) -> None:
        """Begins the sums of new values that have rows, and puts their distances into the rows of others."""
        distances = self.known.distances[self.known.row[places], : self.size]
        self.known.sums[places] = np.stack((distances @ self._weights, np.zeros(places.size)), axis=1)
        rows = np.flatnonzero(self._owner >= 0)
        self.known.distances[np.ix_(rows, places)] = distances[:, self._owner[rows]].T

    def _between(self, places: Int64Array) -> Float64Array:
        values = self._values[: self.size].astype(np.int32)
        return self._d.between(values[places], values) - self.shift

    def _slide_many(self, change: SparseCounts) -> None:
        self._make_room(change.keys)
        new = change.keys[self.known.place[change.keys] < 0]
        for start in range(0, new.size, self.most_rows):
            self._learn(new[start : start + self.most_rows])
        amounts = np.zeros(self.known.counts.size)
        amounts[self.known.place[change.keys]] = change.counts
        both = 2.0 * self.known.counts + amounts
        targets = self._d.targets(self._values[: self.size].astype(np.int32))
        changed, weights = self._d.sources(change.keys.astype(np.int32)), change.counts.astype(np.float64)
        squares = targets.sums(changed, both[: self.size], self.shift)[1]
        self._squares.add_products(squares[None, :], weights)
        sums = np.zeros(amounts.size)
        sums[: self.size] = targets.weighted(changed, weights, self.shift)
        self._sums.add(sums)
        self.known.counts[:] += amounts


class SlidingVariance:
    """sdVar (2017: equation 20) of an attribute, by what came and went. Mutable."""

    def __init__(self, d: Distance) -> None:
        """Of an empty window, and the distance on the attribute's taxonomy."""
        self._d = d
        self._sliding: SlidingMarginal | None = None
        self._counts = SparseCounts(np.zeros(0, np.int64), np.zeros(0, np.int64))
        self._first_rows = 0

    def follow(self, counts: SparseCounts) -> None:
        """Slides to the window that has these counts. Raises StatisticsError for an empty one."""
        change = difference(counts, self._counts)
        if self._sliding is not None and is_small(change, self._counts, counts.rows, self._first_rows):
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


def is_small(change: SparseCounts, old: SparseCounts, rows: int, first_rows: int) -> bool:
    """Whether to slide: not after a great change, nor when so many of the rows at first went that what sums are off
    might count for the others; ``rows``: those after the change."""
    return 2 * rows >= first_rows and change.keys.size <= LARGEST_SHARE * old.keys.size
