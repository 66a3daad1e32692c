"""Draws by the exponential mechanism in any taxonomy: a block of candidates, then a candidate in it.

The cumulative weights of all blocks for one value take one pass over the taxonomy. They are few enough to be cached for
thousands of values. A draw is then a binary search among them, plus the distances to the candidates of one block.
"""

from __future__ import annotations

from collections import OrderedDict
from threading import Lock

import numpy as np

from stream_masker.core.distance import Distance
from stream_masker.core.dtypes import Float64Array, Int32Array, Int64Array, UInt64Array
from stream_masker.core.replacement.rule import Candidates

WEIGHT_CACHE_BYTES = 256 << 20
"""The default memory for cached cumulative weights."""
CANDIDATE_BLOCK = 64
"""The number of candidates in a block."""

DRAW_ROWS = 4096
"""The number of values drawn at a time. It bounds the memory for the distances to the candidates of their blocks."""


class GraphExponential:
    """The drawer for a directed acyclic graph."""

    def __init__(
        self, distance: Distance, *, candidates: str, epsilon: float, cache_bytes: int = WEIGHT_CACHE_BYTES
    ) -> None:
        """Create a drawer for one attribute.

        * ``candidates``: ``all`` concepts or ``leaves``.
        * ``epsilon``: ε of one value.
        * ``cache_bytes``: memory for the cumulative weights of blocks.
        """
        self._distance = distance
        self._positions = Candidates.of(distance.taxonomy, candidates).positions
        self._firsts = np.arange(0, self._positions.size, CANDIDATE_BLOCK)
        self._epsilon = epsilon
        self._max_cached = max(1, cache_bytes // (8 * self._firsts.size))
        self._cache: OrderedDict[int, Float64Array] = OrderedDict()
        self._lock = Lock()

    def draw(self, codes: Int32Array, words: UInt64Array) -> Int32Array:
        """Draw the new positions of k values: (k,) int32. Absent values stay absent.

        ``words``: (k, 2) random words.
        """
        drawn = codes.copy()
        order = np.argsort(codes, kind="stable")
        present = order[np.searchsorted(codes[order], 0) :]
        for start in range(0, present.size, DRAW_ROWS):
            rows = present[start : start + DRAW_ROWS]
            drawn[rows] = self._draw(codes[rows], (words[rows, 0] >> np.uint64(11)) * 2.0**-53)
        return drawn

    def _draw(self, codes: Int32Array, shares: Float64Array) -> Int32Array:
        """Draw new positions for k ascending values, by shares in [0, 1) of the total weight: (k,) int32."""
        blocks, remainders = np.empty(codes.size, np.int64), np.empty(codes.size)
        starts = np.flatnonzero(np.diff(codes, prepend=-1))
        for start, stop in zip(starts, [*starts[1:], codes.size], strict=True):
            totals = self._block_totals(int(codes[start]))
            targets = shares[start:stop] * totals[-1]
            found = np.minimum(np.searchsorted(totals, targets, side="right"), totals.size - 1)
            blocks[start:stop] = found
            remainders[start:stop] = targets - np.where(found > 0, totals[found - 1], 0.0)
        return self._positions[self._choose_in_block(codes, blocks, remainders)]

    def _choose_in_block(self, codes: Int32Array, blocks: Int64Array, remainders: Float64Array) -> Int64Array:
        """Return (k,) int64: the first candidate in each block whose cumulative weight exceeds the remainder.

        If rounding leaves none, it is the last candidate of the block.
        """
        keys, which = np.unique(codes.astype(np.int64) * self._firsts.size + blocks, return_inverse=True)
        values, block = np.divmod(keys, self._firsts.size)
        cumulative = self._block_weights(values.astype(np.int32), block)
        skipped = (cumulative[which] <= remainders[:, None]).sum(axis=1)
        last = np.minimum(self._firsts[blocks] + CANDIDATE_BLOCK, self._positions.size) - 1
        chosen: Int64Array = np.minimum(self._firsts[blocks] + skipped, last)
        return chosen

    def _block_weights(self, codes: Int32Array, blocks: Int64Array) -> Float64Array:
        """Return (k, CANDIDATE_BLOCK) float64: the cumulative weights of the candidates in one block for each value.

        Ranks beyond the last candidate add nothing.
        """
        candidate_ranks = self._firsts[blocks][:, None] + np.arange(CANDIDATE_BLOCK)
        missing = candidate_ranks >= self._positions.size
        candidate_ranks[missing] = 0
        distances = self._distance.pairs(np.repeat(codes, CANDIDATE_BLOCK), self._positions[candidate_ranks.ravel()])
        weights = np.where(missing, 0.0, self._weights(distances).reshape(candidate_ranks.shape))
        return np.cumsum(weights, axis=1)

    def _block_totals(self, a: int) -> Float64Array:
        """Return the cumulative weights of all blocks for value a, from the cache if possible."""
        with self._lock:
            found = self._cache.pop(a, None)
            totals = self._compute_block_totals(a) if found is None else found
            self._cache[a] = totals
            if len(self._cache) > self._max_cached:
                self._cache.popitem(last=False)
            return totals

    def _compute_block_totals(self, a: int) -> Float64Array:
        weights = self._weights(self._distance.to_all(a)[self._positions])
        return np.cumsum(np.add.reduceat(weights, self._firsts))

    def _weights(self, distances: Float64Array) -> Float64Array:
        weights: Float64Array = np.exp(-0.5 * self._epsilon * distances)
        return weights
