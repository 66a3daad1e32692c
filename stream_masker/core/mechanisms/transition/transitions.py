"""Transition probabilities of one attribute's values, in compact forms, and compiled draws from them.

Arguments of every kernel:

* ``codes``: (k,) int32 positions; negative ones stay as they are.
* ``first``, ``second``: (k,) uint64, two random words of each value.
* ``domain``: the values of the window. A value that the window does not contain becomes one of them by the domain's
  shares.

Each kernel returns the new positions, (k,) int32.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np

from stream_masker.core.dtypes import Float64Array, Float64Matrix, Int32Array, Int64Array, UInt64Array
from stream_masker.core.kernels.draws import mixed_word, uniform
from stream_masker.core.kernels.jit import int64, kernel, part
from stream_masker.core.mechanisms.transition.trie import Domain, Trie, draw_leaf


@part
def draw_outside(domain: Domain, equal: Float64Array, low: int, high: int, word: np.uint64) -> int:
    """Return the index of a value outside the part low … high − 1, which has at least one.

    All values are drawn from, again until one is outside.
    """
    while True:
        leaf = draw_leaf(domain.trie, 0, equal.size, equal, -1, word)
        index = int64(domain.index_of[domain.trie.values[leaf]])
        if not low <= index < high:
            return index
        word = mixed_word(word)


@part
def draw_other(domain: Domain, word: np.uint64) -> int:
    """Return the position that replaces a value outside the domain."""
    return int64(domain.trie.values[draw_leaf(domain.trie, 0, domain.values.size, domain.cumulative, -1, word)])


@kernel
def draw_in_parts(
    codes: Int32Array,
    first: UInt64Array,
    second: UInt64Array,
    domain: Domain,
    keep: Float64Array,
    within: Float64Array,
    low: Int64Array,
    high: Int64Array,
    parts: Trie,
    equal: Float64Array,
) -> Int32Array:
    """Draw new values by parts.

    * ``keep``: (v,) float64, the probability to stay unchanged.
    * ``within``: (v,) float64, the probability to stay in the part low … high − 1 (int64).
    * ``parts``: the tries of the parts.
    * ``equal``: (v,) float64, 1 … v.
    """
    drawn = codes.copy()
    for k in range(codes.size):
        if codes[k] >= 0:
            i = int64(domain.index_of[codes[k]])
            share = uniform(first[k])
            if i < 0:
                drawn[k] = draw_other(domain, second[k])
            elif share >= within[i]:
                drawn[k] = domain.values[draw_outside(domain, equal, low[i], high[i], second[k])]
            elif share >= keep[i]:
                drawn[k] = domain.values[draw_leaf(parts, low[i], high[i], equal, i, second[k])]
    return drawn


@kernel
def draw_by_share(
    codes: Int32Array,
    first: UInt64Array,
    second: UInt64Array,
    domain: Domain,
    retention: float,
) -> Int32Array:
    """Draw new values by the domain's shares; ``retention``: the probability to stay unchanged without a draw."""
    index_of = domain.index_of
    drawn = codes.copy()
    for k in range(codes.size):
        if codes[k] >= 0 and (index_of[codes[k]] < 0 or uniform(first[k]) >= retention):
            drawn[k] = draw_other(domain, second[k])
    return drawn


@kernel
def draw_by_rows(
    codes: Int32Array,
    first: UInt64Array,
    second: UInt64Array,
    domain: Domain,
    rows: Float64Matrix,
) -> Int32Array:
    """Draw new values by cumulative transition probabilities.

    ``rows``: (v, v) float64, one row for each value of the domain, over the values of its trie.
    """
    index_of = domain.index_of
    drawn = codes.copy()
    for k in range(codes.size):
        if codes[k] >= 0:
            i = index_of[codes[k]]
            if i < 0:
                drawn[k] = draw_other(domain, second[k])
            else:
                drawn[k] = domain.trie.values[draw_leaf(domain.trie, 0, rows.shape[1], rows[i], -1, first[k])]
    return drawn


@dataclass(frozen=True, slots=True, eq=False)
class Transition(ABC):
    """The transition probabilities of one attribute. A value outside the domain becomes a value of it by its shares."""

    domain: Domain

    def draw(self, codes: Int32Array, words: UInt64Array) -> Int32Array:
        """Draw the new positions of k values: (k,) int32. Absent values stay absent.

        ``words``: (k, 2) random words.
        """
        return self._draw(codes, words[:, 0].copy(), words[:, 1].copy())

    @abstractmethod
    def _draw(self, codes: Int32Array, first: UInt64Array, second: UInt64Array) -> Int32Array:
        """Draw as ``draw``, with the first and the second word of each value, (k,) each."""

    @property
    @abstractmethod
    def stay(self) -> Float64Array:
        """(v,) float64: the probability that each value stays unchanged."""

    @property
    def overlaps(self) -> bool:
        """Whether each value of the window has a mask in common with another."""
        return self.domain.values.size > 2

    @abstractmethod
    def matrix(self) -> Float64Array:
        """Return (v, v) float64: the probabilities with which value i (row) becomes each value, in the domain's
        order."""


@dataclass(frozen=True, slots=True, eq=False)
class PartTransition(Transition):
    """Values in parts that are contiguous in the domain: a value stays, moves within its part, or moves outside it.

    All other values of the part are equally probable, and so are all values of the other parts.

    * ``keep``, ``within``: (v,) float64, the probabilities to stay unchanged, and to stay in the part.
    * ``low``, ``high``: (v,) int64, the half-open range of the part.
    * ``parts``: the tries of the parts.
    """

    keep: Float64Array
    within: Float64Array
    low: Int64Array
    high: Int64Array
    parts: Trie

    @classmethod
    def of(
        cls, domain: Domain, keep: Float64Array, within: Float64Array, low: Int64Array, high: Int64Array
    ) -> PartTransition:
        """Create the transition of a domain whose values are ascending within each part."""
        return cls(domain, keep, within, low, high, Trie.of_ranges(domain.values, high))

    @classmethod
    def whole(cls, domain: Domain, keep: Float64Array) -> PartTransition:
        """Create the transition to one of the other values with equal probability: all values are one part.

        ``domain``: with ascending values. ``keep``: 1 for a single value.
        """
        v = keep.size
        return cls.of(domain, keep, np.ones(v), np.zeros(v, np.int64), np.full(v, v))

    @property
    def stay(self) -> Float64Array:
        return self.keep

    def _draw(self, codes: Int32Array, first: UInt64Array, second: UInt64Array) -> Int32Array:
        equal = np.arange(1.0, self.keep.size + 1.0)
        ranges = (self.keep, self.within, self.low, self.high)
        return draw_in_parts(codes, first, second, self.domain, *ranges, self.parts, equal)

    def matrix(self) -> Float64Array:
        v = self.keep.size
        columns = np.arange(v)[None, :]
        inside = (columns >= self.low[:, None]) & (columns < self.high[:, None])
        size = self.high - self.low
        each_inside = (self.within - self.keep) / np.maximum(size - 1, 1)
        each_outside = (1.0 - self.within) / np.maximum(v - size, 1)
        result: Float64Array = np.where(inside, each_inside[:, None], each_outside[:, None])
        np.fill_diagonal(result, self.keep)
        return result


@dataclass(frozen=True, slots=True, eq=False)
class ShareTransition(Transition):
    """A value stays with probability ``retention``; otherwise a value is drawn by the domain's shares."""

    retention: float

    @property
    def stay(self) -> Float64Array:
        return self.retention + (1.0 - self.retention) * self.domain.shares

    def _draw(self, codes: Int32Array, first: UInt64Array, second: UInt64Array) -> Int32Array:
        return draw_by_share(codes, first, second, self.domain, self.retention)

    def matrix(self) -> Float64Array:
        shares = self.domain.shares
        result: Float64Array = self.retention * np.eye(shares.size) + (1.0 - self.retention) * shares[None, :]
        return result


@dataclass(frozen=True, slots=True, eq=False)
class RowTransition(Transition):
    """Arbitrary transition probabilities.

    ``rows``: (v, v) float64, cumulative along each row; the columns are the values of the domain's trie.
    """

    rows: Float64Matrix

    @classmethod
    def of(cls, domain: Domain, matrix: Float64Array) -> RowTransition:
        """Create the transition from a row-stochastic matrix, (v, v), in the domain's order."""
        return cls(domain, np.cumsum(matrix[:, domain.index_of[domain.trie.values]], axis=1))

    @property
    def overlaps(self) -> bool:
        possible = self.matrix()[self.domain.shares > 0.0] > 0.0
        shared = np.count_nonzero(possible, axis=0) > 1
        return bool((possible & shared).any(axis=1).all())

    @property
    def stay(self) -> Float64Array:
        return self.matrix().diagonal()

    def _draw(self, codes: Int32Array, first: UInt64Array, second: UInt64Array) -> Int32Array:
        return draw_by_rows(codes, first, second, self.domain, self.rows)

    def matrix(self) -> Float64Array:
        result: Float64Array = np.empty(self.rows.shape)
        result[:, self.domain.index_of[self.domain.trie.values]] = np.diff(self.rows, axis=1, prepend=0.0)
        return result
