"""Transition probabilities of one attribute's values, in compact forms."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np

from stream_masker.core.dtypes import Float64Array, Float64Matrix, Int32Array, Int64Array, UInt64Array
from stream_masker.core.mechanisms.transition.domain import Domain
from stream_masker.core.mechanisms.transition.kernels import draw_by_rows, draw_by_share, draw_in_parts


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
    """

    keep: Float64Array
    within: Float64Array
    low: Int64Array
    high: Int64Array

    @classmethod
    def whole(cls, domain: Domain, keep: Float64Array) -> PartTransition:
        """Return a transition in which all values form one part; ``keep``: (v,) the probability to stay unchanged."""
        v = domain.values.size
        return cls(domain, keep, np.ones(v), np.zeros(v, np.int64), np.full(v, v, np.int64))

    @property
    def stay(self) -> Float64Array:
        return self.keep

    def _draw(self, codes: Int32Array, first: UInt64Array, second: UInt64Array) -> Int32Array:
        return draw_in_parts(codes, first, second, self.domain, self.keep, self.within, self.low, self.high)

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
    """Arbitrary transition probabilities; ``rows``: (v, v) float64, cumulative along each row."""

    rows: Float64Matrix

    @classmethod
    def of(cls, domain: Domain, matrix: Float64Array) -> RowTransition:
        """Create the transition from a row-stochastic matrix, (v, v)."""
        rows = np.cumsum(matrix, axis=1)
        last = matrix.shape[1] - 1 - np.argmax(matrix[:, ::-1] > 0.0, axis=1)
        rows[np.arange(matrix.shape[1])[None, :] >= last[:, None]] = 1.0
        return cls(domain, rows)

    @property
    def stay(self) -> Float64Array:
        return self.matrix().diagonal()

    def _draw(self, codes: Int32Array, first: UInt64Array, second: UInt64Array) -> Int32Array:
        return draw_by_rows(codes, first, second, self.domain, self.rows)

    def matrix(self) -> Float64Array:
        return np.diff(self.rows, axis=1, prepend=0.0)
