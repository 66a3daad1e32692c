"""Draws by the exponential mechanism in any taxonomy, by any distance, in two steps: a block of candidates, one of it.

The cumulative weights of all blocks around a value cost one pass over the taxonomy, and are so few that those of
thousands of values can be kept. A draw is a binary search among them, and the distances of one block's candidates.
"""

from __future__ import annotations

from collections import OrderedDict
from threading import Lock

import numpy as np

from stream_masker.core.distance import Distance
from stream_masker.core.dtypes import Float64Array, Int32Array, Int64Array, UInt64Array
from stream_masker.core.replacement.rule import Candidates

WEIGHT_CACHE_BYTES = 256 << 20
CANDIDATE_BLOCK = 64
"""Candidates of a block."""

WEIGHT_ROWS = 4096
"""Values that are drawn for at a time, so that their blocks' candidates fit into memory."""


class GraphExponential:
    """Draws concepts of a directed acyclic graph."""

    def __init__(
        self, distance: Distance, *, candidates: str, epsilon: float, kept_bytes: int = WEIGHT_CACHE_BYTES
    ) -> None:
        """``candidates``: all or leaves; ``epsilon``: ε of one value; ``kept_bytes``: for weights of blocks."""
        self._distance = distance
        self._positions = Candidates.of(distance.taxonomy, candidates).positions
        self._firsts = np.arange(0, self._positions.size, CANDIDATE_BLOCK)
        self._epsilon = epsilon
        self._room = max(1, kept_bytes // (8 * self._firsts.size))
        self._kept: OrderedDict[int, Float64Array] = OrderedDict()
        self._lock = Lock()

    def draw(self, codes: Int32Array, words: UInt64Array) -> Int32Array:
        """(k,) int32: the new positions of k values; absent ones stay. words: (k, 2) random words."""
        drawn = codes.copy()
        order = np.argsort(codes, kind="stable")
        there = order[np.searchsorted(codes[order], 0) :]
        for start in range(0, there.size, WEIGHT_ROWS):
            rows = there[start : start + WEIGHT_ROWS]
            drawn[rows] = self._draw(codes[rows], (words[rows, 0] >> np.uint64(11)) * 2.0**-53)
        return drawn

    def _draw(self, codes: Int32Array, shares: Float64Array) -> Int32Array:
        """(k,) int32: new positions for k values, ascending, by shares in [0, 1) of all weights."""
        blocks, rests = np.empty(codes.size, np.int64), np.empty(codes.size)
        starts = np.flatnonzero(np.diff(codes, prepend=-1))
        for start, stop in zip(starts, [*starts[1:], codes.size], strict=True):
            totals = self._totals(int(codes[start]))
            targets = shares[start:stop] * totals[-1]
            found = np.minimum(np.searchsorted(totals, targets, side="right"), totals.size - 1)
            blocks[start:stop] = found
            rests[start:stop] = targets - np.where(found > 0, totals[found - 1], 0.0)
        return self._positions[self._within(codes, blocks, rests)]

    def _within(self, codes: Int32Array, blocks: Int64Array, rests: Float64Array) -> Int64Array:
        """(k,) int64: the first candidates of blocks whose cumulative weights are greater; else the blocks' last."""
        keys, which = np.unique(codes.astype(np.int64) * self._firsts.size + blocks, return_inverse=True)
        around, block = np.divmod(keys, self._firsts.size)
        cumulative = self._cumulative_within(around.astype(np.int32), block)
        passed = (cumulative[which] <= rests[:, None]).sum(axis=1)
        last = np.minimum(self._firsts[blocks] + CANDIDATE_BLOCK, self._positions.size) - 1
        chosen: Int64Array = np.minimum(self._firsts[blocks] + passed, last)
        return chosen

    def _cumulative_within(self, codes: Int32Array, blocks: Int64Array) -> Float64Array:
        """(k, BLOCK): the cumulative weights around values within one block each; those beyond the last add nothing."""
        places = self._firsts[blocks][:, None] + np.arange(CANDIDATE_BLOCK)
        missing = places >= self._positions.size
        places[missing] = 0
        distances = self._distance.pairs(np.repeat(codes, CANDIDATE_BLOCK), self._positions[places.ravel()])
        weights = np.where(missing, 0.0, self._weights(distances).reshape(places.shape))
        return np.cumsum(weights, axis=1)

    def _totals(self, a: int) -> Float64Array:
        """The cumulative weights of all blocks around a."""
        with self._lock:
            found = self._kept.pop(a, None)
            totals = self._cumulative(a) if found is None else found
            self._kept[a] = totals
            if len(self._kept) > self._room:
                self._kept.popitem(last=False)
            return totals

    def _cumulative(self, a: int) -> Float64Array:
        weights = self._weights(self._distance.to_all(a)[self._positions])
        return np.cumsum(np.add.reduceat(weights, self._firsts))

    def _weights(self, distances: Float64Array) -> Float64Array:
        weights: Float64Array = np.exp(-0.5 * self._epsilon * distances)
        return weights
