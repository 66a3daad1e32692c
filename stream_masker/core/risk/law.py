"""The law of the window's records and of their masks, from which every figure of the risk follows.

* ``Channel``: P(a* | a) of one attribute. Mechanisms compute it, or estimate it from random groups of records.
* ``Tuples``: the law of records with values of two attributes. ``MaskLaw``: P(masks | record) of these.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from stream_masker.core.arrays import Float64Array, Float64Matrix, Int32Array, Int64Array, offsets_from_lengths
from stream_masker.core.batch import ABSENT, Batch, Column, MaskedBatch
from stream_masker.core.distance import Distance
from stream_masker.core.random import Keys, PositionKeys
from stream_masker.core.statistics.counts import Counts, SparseCounts, combine, count_batch, marginals

SECRET = b"random words of an assessment"
"""The secret of the random words of an assessment. It needs no protection: these masks are never published."""


def hoeffding_bound(draws: float, error: float = 0.05) -> float:
    """Return √(ln(2/δ) / 2n): with confidence 1 − δ, the mean of n independent terms in [0, 1] differs from its
    expectation by no more (Hoeffding 1963)."""
    return float(np.sqrt(np.log(2.0 / error) / (2.0 * draws)))


@dataclass(frozen=True, slots=True, eq=False)
class OutputClasses:
    """K classes of the m concepts of a taxonomy that tell an attacker the same as masks.

    The columns P(c | a) of concepts of a class are proportional. Merging them leaves all figures exact, and reduces a
    taxonomy of 100,000 concepts to a few thousand classes.

    * ``class_of``: (m,) int32, the class of each concept; −1 for a concept that is never a mask.
    * ``weights``: (m,) float64, the weight of each concept within its class; 0 for concepts outside the candidates.
    * ``totals``: (K,) float64, the sum of the weights of each class; 0 for a class that only an original can be.
    * ``representatives``: (K,) int32, the position of one concept of each class.
    """

    class_of: Int32Array
    weights: Float64Array
    totals: Float64Array
    representatives: Int32Array

    @classmethod
    def of_values(cls, values: NDArray[np.integer], size: int) -> OutputClasses:
        """Return a class for each of some values of a taxonomy with ``size`` concepts, in their order."""
        class_of, weights = np.full(size, -1, np.int32), np.zeros(size)
        class_of[values], weights[values] = np.arange(values.size, dtype=np.int32), 1.0
        return cls(class_of, weights, np.ones(values.size), values.astype(np.int32))

    def spread(self, row: Float64Array) -> dict[int, float]:
        """Return the positive probability of each concept, by position, from the (K,) probabilities of the classes."""
        reached = np.flatnonzero(self.class_of >= 0)
        classes = self.class_of[reached]
        totals = self.totals[classes]
        shares = np.where(totals > 0.0, self.weights[reached] / np.where(totals > 0.0, totals, 1.0), 1.0)
        probabilities = row[classes] * shares
        kept = probabilities > 0.0
        return dict(zip(reached[kept].tolist(), probabilities[kept].tolist(), strict=True))


@dataclass(frozen=True, slots=True, eq=False)
class Channel:
    """P(a* | a) of n values of one attribute, over K classes of masked values. Immutable.

    * ``values``: (n,) int32, positions without repetition. ``rows``: (n, K) float64; each row sums to 1.
    * ``classes``: the classes. P(c | a) is an entry of a row, divided among the concepts of the class by their weights.
    * ``bound``: 0 if the rows are exact. Otherwise, with confidence 0.95, no average of them over the values of the
      window differs from its true value by more than this.
    """

    values: Int32Array
    rows: Float64Array
    classes: OutputClasses
    bound: float = 0.0

    @property
    def unchanged(self) -> Float64Array:
        """(n,) float64: P(a | a), the probability that each value stays unchanged."""
        classes = self.classes.class_of[self.values]
        return np.where(classes >= 0, self.rows[np.arange(self.values.size), classes], 0.0)


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

    * ``attributes``: both indices, ascending. ``codes``: for each of them, (t,) int32 positions.
    * ``prior``: (t,) float64, the share of each pair among the rows that have both values.
    * ``place``: which of both attributes the elements are of, 0 or 1.
    * ``lengths``: how many records have each number of elements; None without an array.
    """

    attributes: tuple[int, int]
    codes: tuple[Int32Array, Int32Array]
    prior: Float64Array
    place: int
    lengths: SparseCounts | None

    @classmethod
    def of(cls, counts: Counts, attributes: tuple[int, int], sizes: Sequence[int]) -> Tuples:
        """Return the pairs of the counts; ``sizes``: the number of concepts of every taxonomy."""
        pair = counts.pairs[attributes]
        first, second = np.divmod(pair.keys, sizes[attributes[1]])
        arrays = [k for k, j in enumerate(attributes) if j in counts.lengths and counts.lengths[j].keys.any()]
        lengths = counts.lengths[attributes[arrays[0]]] if arrays else None
        codes = first.astype(np.int32), second.astype(np.int32)
        return cls(attributes, codes, pair.counts / pair.rows, arrays[0] if arrays else 1, lengths)

    @cached_property
    def sides(self) -> tuple[Values, Values]:
        """The values of the scalar and of the elements."""
        found = []
        for k in (1 - self.place, self.place):
            positions, index = np.unique(self.codes[k], return_inverse=True)
            found.append(Values(positions, index, np.asarray(np.bincount(index, self.prior), np.float64)))
        return found[0], found[1]

    @property
    def mean_length(self) -> float:
        """The mean number of elements of records that have any; 1 without an array."""
        if self.lengths is None:
            return 1.0
        some = self.lengths.keys > 0
        return float(self.lengths.keys[some] @ self.lengths.counts[some] / self.lengths.counts[some].sum())

    def draw(self, size: int) -> dict[int, Column]:
        """Draw n = ``size`` records; return the columns of both attributes, the scalar's first. The same each time."""
        generator, scalars = np.random.default_rng(0), self.sides[0]
        numbers = np.ones(size, np.int64)
        if self.lengths is not None:
            weights = np.where(self.lengths.keys > 0, self.lengths.counts, 0)
            numbers = generator.choice(self.lengths.keys, size, p=weights / weights.sum())
        drawn = generator.choice(scalars.share.size, size, p=scalars.share / scalars.share.sum())
        order, owner = np.argsort(scalars.index, kind="stable"), np.repeat(drawn, numbers)
        ends, bounds = np.cumsum(self.prior[order]), np.append(0, np.cumsum(np.bincount(scalars.index)))
        mass = np.append(0.0, ends)[bounds]
        point = mass[owner] + (mass[owner + 1] - mass[owner]) * generator.random(owner.size)
        place = np.clip(np.searchsorted(ends, point, "right"), bounds[owner], bounds[owner + 1] - 1)
        offsets = None if self.lengths is None else offsets_from_lengths(numbers)
        i, j = self.attributes[1 - self.place], self.attributes[self.place]
        return {i: Column(scalars.positions[drawn]), j: Column(self.codes[self.place][order[place]], offsets)}


class MaskLaw(Protocol):
    """The probability of masks given the original values of a record."""

    def likelihoods(self, masked: Sequence[tuple[int, ...]]) -> Float64Matrix:
        """Return (n, t) float64: the probability of n pairs of positions given each of ``Tuples``, up to a common
        factor."""


class IndependentMasks:
    """Masks that depend on the value of their own attribute alone."""

    def __init__(self, tuples: Tuples, channels: tuple[Channel, ...]) -> None:
        """``channels``: of both attributes, with all of their values, ascending."""
        self.channels = channels
        self.indices = [np.searchsorted(c.values, codes) for c, codes in zip(channels, tuples.codes, strict=True)]

    def likelihoods(self, masked: Sequence[tuple[int, ...]]) -> Float64Matrix:
        result = np.ones((len(masked), self.indices[0].size))
        for channel, rows, positions in zip(self.channels, self.indices, np.array(masked).T, strict=True):
            result *= channel.rows[rows, channel.classes.class_of[positions][:, None]]
        return result


class Assessed(Protocol):
    """A mechanism with statistics in force; ``Mechanism`` describes its members."""

    attributes: tuple[str, ...]
    distances: tuple[Distance, ...]
    needs_group: ClassVar[bool]
    needs_patterns: ClassVar[bool]

    def attribute_channel(self, j: int, values: Int32Array, counts: Counts | None) -> Channel: ...

    def mask_law(self, tuples: Tuples, channels: tuple[Channel, ...], counts: Counts) -> MaskLaw | None: ...

    def mask_batch(self, batch: Batch, keys: Keys) -> MaskedBatch: ...


def masked_columns(masker: Assessed, columns: Mapping[int, Column], size: int, number: int = 0) -> dict[int, Column]:
    """Mask n = ``size`` records of which some columns are given, by attribute; return their masks, by attribute.

    ``number``: distinguishes independent random words.
    """
    absent = Column(np.full(size, ABSENT, np.int32))
    whole = tuple(columns.get(j, absent) for j in range(len(masker.attributes)))
    masked = masker.mask_batch(Batch(size, whole), PositionKeys(SECRET, "", number, np.arange(size)))
    return {j: masked.columns[j] for j in columns}


EXPECTED_RECORDS = 20_000
"""The greatest number of records that ``expected_masks`` draws."""


def expected_masks(masker: Assessed, counts: Counts, sizes: Sequence[int]) -> Counts | None:
    """Return the counts of masks of random records of the window; None for masks of groups, or given a context, and
    for three or more attributes if masks depend on which ones are missing.

    They have the values and pairs of masks that the mechanism makes of such records, of as many as the window has or
    fewer. Records are drawn for each pair of attributes, and for the values that are in no pair.
    """
    if masker.needs_group or counts.contexts or (masker.needs_patterns and len(sizes) > 2):
        return None
    share = min(1.0, EXPECTED_RECORDS / counts.records)
    values: list[list[SparseCounts]] = [[] for _ in counts.values]
    pairs = {}
    for both, pair in counts.pairs.items():
        pairs[both] = pair
        if pair.keys.size:
            tuples = Tuples.of(counts, both, sizes)
            size = max(1, round(share * pair.rows / tuples.mean_length))
            masks = masked_columns(masker, tuples.draw(size), size)
            made = count_batch(Batch(size, tuple(masks[j] for j in both)), [sizes[j] for j in both])
            pairs[both] = made.pairs[0, 1]
            for j, column in zip(both, made.values, strict=True):
                values[j].append(column)
    for j in range(len(values)):
        alone = _alone(counts, j, sizes)
        if alone.rows:
            size = max(1, round(share * alone.rows))
            drawn = np.random.default_rng(j).choice(alone.keys, size, p=alone.counts / alone.rows).astype(np.int32)
            offsets = np.arange(size + 1) if j in counts.lengths else None
            masks = masked_columns(masker, {j: Column(drawn, offsets)}, size)
            column = count_batch(Batch(size, (masks[j],)), [sizes[j]]).values[0]
            values[j] += [column] * max(1, len(values[j]))
    rows_of = tuple(combine(parts) for parts in values)
    given = tuple(column.rows for column in rows_of)
    return Counts(round(share * counts.records), rows_of, pairs, given, (0,) * len(given))


def _alone(counts: Counts, j: int, sizes: Sequence[int]) -> SparseCounts:
    """Return the counts of the values of an attribute in rows without the attribute that it mostly occurs with."""
    both = max((b for b in counts.pairs if j in b), key=lambda b: counts.pairs[b].rows, default=None)
    if both is None:
        return counts.values[j]
    paired = marginals(counts.pairs[both], sizes[both[1]])[both.index(j)]
    column = counts.values[j]
    return combine([column, SparseCounts(paired.keys, -paired.counts)])
