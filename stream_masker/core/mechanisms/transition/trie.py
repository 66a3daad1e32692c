"""The values that masked values are drawn from, and draws that change little when the weights change a little.

The values are the leaves of a binary trie of their positions. A draw descends from the root and enters the left half of
a node with the half's share of the node's weight. The decision depends on the random word, the node and this share
only. A window that slides changes the shares a little, most of them far down, and few decisions. A draw by cumulative
weights, in contrast, shifts all values behind the first change.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_masker.core.dtypes import Float64Array, Int32Array, Int64Array, UInt64Array
from stream_masker.core.kernels.draws import accepts, mixed_word
from stream_masker.core.kernels.jit import int64, kernel, part
from stream_masker.errors import StatisticsError

BITS_OF_POSITIONS = 31
SALT_SHIFT = np.uint64(6)
"""The number of a node's bit has at most so many bits."""


class Trie(NamedTuple):
    """The binary trie of v values. Immutable.

    A node is the range of values that have a prefix of bits in common, where the next bit differs. It is numbered by
    the first value of its right half, from 1 to v − 1. The number 0 stands for a leaf.

    * ``values``: (v,) int32 positions, ascending within each range that has a trie of its own.
    * ``left``, ``right``: (v,) int32, the nodes of both halves of each node.
    * ``salts``: (v,) uint64 of the nodes. They depend on the prefix alone.
    * ``roots``: (v,) int32, the root of the trie of each value.
    """

    values: Int32Array
    left: Int32Array
    right: Int32Array
    salts: UInt64Array
    roots: Int32Array

    @classmethod
    def of(cls, values: Int32Array) -> Trie:
        """Create the trie of distinct positions, in any order."""
        return cls.of_ranges(np.sort(values), np.full(values.size, values.size))

    @classmethod
    def of_ranges(cls, values: Int32Array, ends: Int64Array) -> Trie:
        """Create a trie for each range of values. ``ends``: (v,) int64, the end of the range of each value."""
        left, right, roots = (np.zeros(values.size, np.int32) for _ in range(3))
        trie = cls(values, left, right, np.zeros(values.size, np.uint64), roots)
        start = 0
        while start < values.size:
            roots[start : ends[start]] = link_nodes(trie, start, int(ends[start]))
            start = int(ends[start])
        return trie


@part
def differing_bit(one: int, other: int) -> int:
    """Return the number of the highest bit in which two positions differ."""
    bits, highest = int64(one) ^ int64(other), int64(-1)
    while bits:
        bits >>= 1
        highest += 1
    return highest


@kernel
def link_nodes(trie: Trie, start: int, end: int) -> int:
    """Set the links and salts of the nodes of the values start … end − 1, and return the root; 0 for a single value.

    A node's parent has a higher bit. ``path`` holds the nodes from the root to the last one, by their falling bits.
    """
    path = np.zeros(BITS_OF_POSITIONS + 1, np.int64)
    bits = np.zeros(BITS_OF_POSITIONS + 1, np.int64)
    depth = int64(0)
    for node in range(start + 1, end):
        bit = differing_bit(trie.values[node - 1], trie.values[node])
        trie.salts[node] = mixed_word(np.uint64(trie.values[node] >> bit) << SALT_SHIFT | np.uint64(bit))
        lower = int64(0)
        while depth > 0 and bits[depth - 1] <= bit:
            depth -= 1
            lower = path[depth]
        trie.left[node] = lower
        if depth > 0:
            trie.right[path[depth - 1]] = node
        path[depth] = node
        bits[depth] = bit
        depth += 1
    return int64(path[0])


@part
def draw_leaf(trie: Trie, low: int, high: int, cumulative: Float64Array, excluded: int, word: np.uint64) -> int:
    """Return the index of a value drawn with probabilities proportional to the steps of ``cumulative``.

    * ``low``, ``high``: the range of a trie.
    * ``cumulative``: (v,) float64, the cumulative weights in the order of the trie's values.
    * ``excluded``: the index of a value that is not drawn, −1 for none. Weights must be whole numbers then.
    """
    low, high = int64(low), int64(high)
    below = cumulative[low - 1] if low > 0 else 0.0
    above = cumulative[high - 1]
    removed = 0.0
    if excluded >= 0:
        removed = cumulative[excluded] - (cumulative[excluded - 1] if excluded > 0 else 0.0)
    node = int64(trie.roots[low])
    while node > 0:
        middle = cumulative[node - 1]
        inner = middle - below
        total = above - below
        if low <= excluded < high:
            total -= removed
            if excluded < node:
                inner -= removed
        if accepts(word, trie.salts[node], inner, total):
            high, above = node, middle
            node = int64(trie.left[node])
        else:
            low, below = node, middle
            node = int64(trie.right[node])
    return low


class Domain(NamedTuple):
    """The v values that masked values are drawn from, and the weights that replace any other value. Immutable.

    * ``values``: (v,) int32 positions.
    * ``index_of``: (m,) int32, each position's index among the values, −1 for other positions.
    * ``trie``: the trie of the values.
    * ``cumulative``: (v,) float64, the cumulative weights with which other values are replaced, in the trie's order.
    """

    values: Int32Array
    index_of: Int32Array
    trie: Trie
    cumulative: Float64Array

    @classmethod
    def of(cls, values: NDArray[np.integer], weights: NDArray[np.number], taxonomy_size: int) -> Domain:
        """Create the domain of a taxonomy with ``taxonomy_size`` concepts.

        Raises StatisticsError if there are no values, if positions repeat or lie outside the taxonomy, or if the
        weights are negative or all 0.
        """
        if (
            not values.size
            or values.min() < 0
            or values.max() >= taxonomy_size
            or np.unique(values).size != values.size
        ):
            raise StatisticsError("the model's values are not distinct concepts of their taxonomy")
        if values.shape != weights.shape or not np.isfinite(weights).all() or weights.min() < 0 or not weights.any():
            raise StatisticsError(
                "the model's weights are not non-negative numbers with a positive sum, one for each value"
            )
        index_of = np.full(taxonomy_size, -1, np.int32)
        index_of[values] = np.arange(values.size, dtype=np.int32)
        trie = Trie.of(values.astype(np.int32))
        ordered = weights[index_of[trie.values]]
        return cls(values.astype(np.int32), index_of, trie, np.cumsum(ordered, dtype=np.float64))

    def ascending(self) -> Domain:
        """Return the same domain with its values in ascending order."""
        index_of = self.index_of.copy()
        index_of[self.trie.values] = np.arange(self.values.size, dtype=np.int32)
        return Domain(self.trie.values, index_of, self.trie, self.cumulative)

    @property
    def shares(self) -> Float64Array:
        """(v,) float64: the probability that a value outside the domain becomes each value."""
        result: Float64Array = np.empty(self.values.size)
        result[self.index_of[self.trie.values]] = np.diff(self.cumulative, prepend=0.0) / self.cumulative[-1]
        return result
