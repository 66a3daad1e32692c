"""The law of the window's records and of their masks, from which every figure of the risk follows.

* ``Channel``: P(a* | a) of one attribute. Mechanisms compute it, or estimate it from random groups of records.
* ``Tuples``: the law of records with values of two attributes. ``Likelihoods``: P(masks | record) of these.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from stream_masker.core.arrays import Float64Array, Float64Matrix, Int32Array, Int64Array, offsets_from_lengths
from stream_masker.core.batch import ABSENT, Batch, Column, MaskedBatch
from stream_masker.core.distance import Distance
from stream_masker.core.random import Keys, PositionKeys
from stream_masker.core.statistics.counts import Counts, SparseCounts

SECRET = b"random words of an assessment"
"""The secret of the random words of an assessment. It needs no protection: these masks are never published."""


def hoeffding_bound(draws: float, error: float = 0.05) -> float:
    """Return √(ln(2/δ) / 2n): with confidence 1 − δ, the mean of n independent terms in [0, 1] differs from its
    expectation by no more (Hoeffding 1963)."""
    return float(np.sqrt(np.log(2.0 / error) / (2.0 * draws)))


@dataclass(frozen=True, slots=True, eq=False)
class Channel:
    """P(a* | a) of n values of one attribute, over K classes of the m concepts of its taxonomy. Immutable.

    Every value becomes all concepts of a class with the same probability, so they tell an attacker the same as masks.
    Merging them leaves all figures exact, and reduces a taxonomy of 100,000 concepts to a few thousand classes.

    * ``values``: (n,) int32, positions without repetition. ``rows``: (n, K) float64; each row sums to 1. P(c | a) is an
      entry of a row, divided equally among the concepts of the class.
    * ``class_of``: (m,) int32, the class of each concept; −1 for a concept that is never a mask.
    * ``bound``: 0 if the rows are exact. Otherwise, with confidence 0.95, no average of them over the values of the
      window differs from its true value by more than this.
    """

    values: Int32Array
    rows: Float64Array
    class_of: Int32Array
    bound: float = 0.0

    @property
    def unchanged(self) -> Float64Array:
        """(n,) float64: P(a | a), the probability that each value stays unchanged."""
        classes = self.class_of[self.values]
        return np.where(classes >= 0, self.rows[np.arange(self.values.size), classes], 0.0)


def class_of_each(masks: NDArray[np.integer], size: int) -> Int32Array:
    """Return (size,) int32, ``Channel.class_of`` with a class for each of some masks, positions, in their order."""
    class_of = np.full(size, -1, np.int32)
    class_of[masks] = np.arange(masks.size)
    return class_of


def value_law(column: SparseCounts) -> tuple[Int32Array, Float64Array]:
    """Return the values of one attribute, (n,) int32 ascending positions, and the share of each, (n,) float64."""
    return column.keys.astype(np.int32), column.counts / column.rows


@dataclass(frozen=True, slots=True, eq=False)
class Values:
    """The v distinct values of an attribute: (v,) ascending ``positions``, (t,) the ``index`` of that of each tuple,
    and (v,) the ``share`` of each."""

    positions: Int32Array
    index: Int64Array
    share: Float64Array


@dataclass(frozen=True, eq=False)
class Tuples:
    """The t distinct pairs of values of two attributes in the window, and the law of records with them. Immutable.

    A record has a scalar a and n elements b, of which there is one if neither attribute is an array. Its law is
    P(n)·P(a)·Π P(b_i | a), which is all that the counts of a window tell.

    * ``attributes``: the index of the scalar's attribute, and that of the elements. ``codes``: of each, (t,) int32
      positions; those of the scalar are ascending.
    * ``prior``: (t,) float64, the share of each pair among the rows that have both values.
    * ``lengths``: how many records have each number of elements, of at least 1; None without an array.
    """

    attributes: tuple[int, int]
    codes: tuple[Int32Array, Int32Array]
    prior: Float64Array
    lengths: SparseCounts | None

    @classmethod
    def of(cls, counts: Counts, attributes: tuple[int, int], sizes: Sequence[int]) -> Tuples:
        """Return the pairs of two attributes i < j; ``sizes``: the number of concepts of every taxonomy."""
        pair, (i, j) = counts.pairs[attributes], attributes
        first, second = (codes.astype(np.int32) for codes in np.divmod(pair.keys, sizes[j]))
        if i in counts.lengths:
            i, j, first, second = j, i, second, first
        order, lengths = np.argsort(first, kind="stable"), counts.lengths.get(j)
        some = None if lengths is None else lengths.select(lengths.keys > 0)
        return cls((i, j), (first[order], second[order]), pair.counts[order] / pair.rows, some)

    @cached_property
    def sides(self) -> tuple[Values, Values]:
        """The values of the scalar and of the elements."""
        found = (np.unique(codes, return_inverse=True) for codes in self.codes)
        scalar, element = (Values(*own, np.asarray(np.bincount(own[1], self.prior), np.float64)) for own in found)
        return scalar, element

    @property
    def mean_length(self) -> float:
        """The mean number of elements of a record; 1 without an array."""
        return 1.0 if self.lengths is None else float(self.lengths.keys @ self.lengths.counts / self.lengths.rows)

    def draw(self, size: int) -> dict[int, Column]:
        """Draw n = ``size`` records; return the columns of both attributes, the scalar's first. The same each time."""
        generator, scalars = np.random.default_rng(0), self.sides[0]
        numbers = np.ones(size, np.int64)
        if self.lengths is not None:
            numbers = generator.choice(self.lengths.keys, size, p=self.lengths.counts / self.lengths.rows)
        drawn = generator.choice(scalars.share.size, size, p=scalars.share / scalars.share.sum())
        owner, ends = np.repeat(drawn, numbers), np.cumsum(self.prior)
        bounds = np.searchsorted(scalars.index, np.arange(scalars.share.size + 1))
        mass = np.append(0.0, ends)[bounds]
        point = mass[owner] + (mass[owner + 1] - mass[owner]) * generator.random(owner.size)
        place = np.clip(np.searchsorted(ends, point, "right"), bounds[owner], bounds[owner + 1] - 1)
        elements = Column(self.codes[1][place], None if self.lengths is None else offsets_from_lengths(numbers))
        return dict(zip(self.attributes, (Column(scalars.positions[drawn]), elements), strict=True))


Likelihoods: TypeAlias = Callable[[Sequence[tuple[int, int]]], Float64Matrix]
"""The law of masks given the values of a record: from n pairs of masks, as positions in the order of
``Tuples.attributes``, to (n, t) float64, the probability of each pair given each of the tuples, up to a common factor.
"""


def independent_masks(tuples: Tuples, channels: tuple[Channel, Channel]) -> Likelihoods:
    """Return the law of masks that depend on the value of their own attribute alone.

    ``channels``: of all values of both attributes.
    """

    def likelihoods(masked: Sequence[tuple[int, int]]) -> Float64Matrix:
        result = np.ones((len(masked), tuples.prior.size))
        for side, channel, positions in zip(tuples.sides, channels, np.array(masked).T, strict=True):
            rows = np.searchsorted(channel.values, side.positions)[side.index]
            result *= channel.rows[rows, channel.class_of[positions][:, None]]
        return result

    return likelihoods


class Assessed(Protocol):
    """A mechanism with statistics in force; ``Mechanism`` describes its members."""

    attributes: tuple[str, ...]
    distances: tuple[Distance, ...]
    needs_group: ClassVar[bool]
    needs_patterns: ClassVar[bool]

    def attribute_channel(self, j: int, values: Int32Array, counts: Counts | None) -> Channel: ...

    def mask_law(self, tuples: Tuples, channels: tuple[Channel, Channel], counts: Counts) -> Likelihoods | None: ...

    def mask_batch(self, batch: Batch, keys: Keys) -> MaskedBatch: ...


def masked_columns(masker: Assessed, columns: Mapping[int, Column], number: int = 0) -> tuple[Column, ...]:
    """Mask records of which the columns of some attributes are given, by index; return those of all attributes.

    ``number``: distinguishes independent random words.
    """
    size = next(iter(columns.values())).lengths.size
    absent = Column(np.full(size, ABSENT, np.int32))
    whole = tuple(columns.get(j, absent) for j in range(len(masker.attributes)))
    return masker.mask_batch(Batch(size, whole), PositionKeys(SECRET, "", number, np.arange(size))).columns
