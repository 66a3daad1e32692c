"""Draws by the exponential mechanism in any taxonomy, by any distance: cumulative weights of all candidates.

They cost one pass over the taxonomy for each value, and are kept while there is room; a draw is a binary search.
"""

from __future__ import annotations

from collections import OrderedDict
from threading import Lock

import numpy as np

from stream_masker.core.compiling import kernel
from stream_masker.core.distance import Distance
from stream_masker.core.mechanisms.candidates import Candidates, Floats, Int32, uniform
from stream_masker.core.mechanisms.markov_kernels import first_above
from stream_masker.core.randomness import Words

KEPT_BYTES = 256 << 20


class GraphExponential:
    """Draws concepts of a directed acyclic graph."""

    def __init__(self, distance: Distance, *, candidates: str, epsilon: float, kept_bytes: int = KEPT_BYTES) -> None:
        """``candidates``: all or leaves; ``epsilon``: ε of one value; ``kept_bytes``: for cumulative weights."""
        self._distance = distance
        self._positions = Candidates.of(distance.taxonomy, candidates).positions
        self._epsilon = epsilon
        self._room = max(1, kept_bytes // (8 * self._positions.size))
        self._lock = Lock()
        self._kept: OrderedDict[int, Floats] = OrderedDict()

    def draw(self, codes: Int32, words: Words) -> Int32:
        """(k,) int32: the new positions of k values; absent ones stay. words: (k, 2) random words."""
        drawn = codes.copy()
        order = np.argsort(codes, kind="stable")
        starts = np.flatnonzero(np.diff(codes[order], prepend=-2))
        for rows in np.split(order, starts[1:]):
            if rows.size and codes[rows[0]] >= 0:
                totals = self._totals(int(codes[rows[0]]))
                drawn[rows] = draw_from(totals, self._positions, words[rows, 0])
        return drawn

    def _totals(self, a: int) -> Floats:
        """The cumulative weights of all candidates around a."""
        with self._lock:
            found = self._kept.pop(a, None)
            totals = self._cumulative(a) if found is None else found
            self._kept[a] = totals
            if len(self._kept) > self._room:
                self._kept.popitem(last=False)
            return totals

    def _cumulative(self, a: int) -> Floats:
        distances = self._distance.to_all(a)[self._positions]
        return np.cumsum(np.exp(-0.5 * self._epsilon * distances))


@kernel
def draw_from(totals, positions, words):  # type: ignore[no-untyped-def]
    """(k,) int32: a position for each word, by cumulative weights."""
    drawn = np.empty(words.size, np.int32)
    for k in range(words.size):
        drawn[k] = positions[first_above(totals, uniform(words[k]) * totals[-1])]
    return drawn
