"""The exact transition probabilities of semantic noise, and the law of the masks of a pair of attributes.

The levels of distance around a value are the same for every reference. A reference decides which candidates are
admissible. So the probability that |ε| leads to a level has a closed form in the law of the attribute's own noise, and
a class of candidates has its share of the level. Rows are averages over the references that a value has in the window.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from stream_masker.core.distance import Distance
from stream_masker.core.dtypes import Float64Array, Float64Array4D, Float64Cube, Int32Array, Int64Array
from stream_masker.core.kernels.jit import kernel, part
from stream_masker.core.mechanisms.noise.moments import NoisePair
from stream_masker.core.mechanisms.noise.sampling import NoiseLaw
from stream_masker.core.mechanisms.noise.situations import (
    Pieces,
    SituationTable,
    Surroundings,
    add_rows,
    fill_situations,
    find_pieces,
    level_chances,
)
from stream_masker.core.replacement.rule import NO_REFERENCE
from stream_masker.core.risk.channel import Channel
from stream_masker.core.risk.classes import OutputClasses, distance_classes
from stream_masker.core.statistics.counts import Counts


@dataclass(frozen=True, slots=True, eq=False)
class References:
    """The references of the values of one attribute: S situations.

    * ``values``, ``references``: (S,) int32 positions; ``NO_REFERENCE`` for none.
    * ``shares``: (S,) float64, the probability of the reference given the value.
    """

    values: Int32Array
    references: Int32Array
    shares: Float64Array

    @classmethod
    def single(cls, values: Int32Array, reference: int) -> References:
        """Return the situations of values that all have the same reference."""
        return cls(values, np.full(values.size, reference, np.int32), np.ones(values.size))


@dataclass(frozen=True, slots=True, eq=False)
class NoiseChannel:
    """The situations of one attribute, with the probabilities of each level. Immutable.

    ``calibrated``: the rounding. ``chances``: (S, 2, L) by situation, sign and level.
    """

    given: References
    classes: OutputClasses
    around: Surroundings
    table: SituationTable
    law: NoiseLaw
    calibrated: bool

    @classmethod
    def of(
        cls,
        given: References,
        d: Distance,
        weights: Float64Array,
        law: NoiseLaw,
        *,
        calibrated: bool,
        weak: bool = False,
    ) -> NoiseChannel:
        """Create the channel of situations.

        * ``weights``: (m,) float64, the weight of each concept as a candidate: 0 for none, and equal weights for
          uniform draws.
        * ``weak``: whether candidates as far from the reference as the value are admissible (``fill_situations``).
        """
        referenced = given.references[given.references != NO_REFERENCE]
        anchors = np.unique(np.concatenate((given.values, referenced))).astype(np.int32)
        classes = distance_classes(d, anchors, weights)
        around = _surroundings(d, anchors, classes)
        return cls(given, classes, around, _situations(given, anchors, around, weak=weak), law, calibrated)

    def channel(self, values: Int32Array) -> NoiseRows:
        """Return the transition probabilities of the values, (n,) int32 ascending positions."""
        rows = np.zeros((values.size, len(self.classes)))
        targets = np.searchsorted(values, self.given.values).astype(np.int32)
        add_rows(self.around, self.table, self.chances(), targets, self.given.shares, rows)
        return NoiseRows(values, rows, self.classes, noise=self)

    def chances(self) -> Float64Cube:
        """Return (S, 2, L) float64: the probability of each sign and level in each situation."""
        chances = np.zeros_like(self.table.weights)
        grid = self.around.grid
        moments = self.law.below(grid), self.law.square_below(grid)
        level_chances(self.around, self.table, *moments, self.calibrated, chances)
        return chances


@dataclass(frozen=True, slots=True, eq=False)
class NoiseRows(Channel):
    """The transition probabilities of an attribute, and the situations that they are averaged over."""

    noise: NoiseChannel = field(kw_only=True)


def paired_references(values: Int32Array, counts: Counts, j: int, partner: int, size: int) -> References:
    """Return the situations of values whose reference is the value of the paired attribute.

    They are in the order of the pair's counts, followed by those without a partner. A value that the window does not
    contain has the partners of all other values.

    * ``values``: (n,) int32, ascending positions. ``size``: the number of concepts of the attributes' taxonomy.
    """
    pair = counts.pairs[min(j, partner), max(j, partner)]
    first, second = np.divmod(pair.keys, size)
    codes, other = (first, second) if j < partner else (second, first)
    column = counts.values[j]
    rows = dict(zip(column.keys.tolist(), column.counts.tolist(), strict=True))
    asked = np.isin(codes, values)
    paired = np.bincount(np.searchsorted(values, codes[asked]), pair.counts[asked], values.size)
    alone = np.array([rows.get(value, 0) for value in values.tolist()]) - paired
    unknown = values[np.array([value not in rows for value in values.tolist()], np.bool_)]
    marginal = counts.values[partner]
    lonely = np.flatnonzero(alone > 0)
    return References(
        np.concatenate((codes[asked], values[lonely], np.repeat(unknown, marginal.keys.size))).astype(np.int32),
        np.concatenate((other[asked], np.full(lonely.size, NO_REFERENCE), np.tile(marginal.keys, unknown.size))).astype(
            np.int32
        ),
        np.concatenate(
            (
                pair.counts[asked] / (paired + alone)[np.searchsorted(values, codes[asked])],
                alone[lonely] / (paired + alone)[lonely],
                np.tile(marginal.counts / marginal.rows, unknown.size),
            )
        ),
    )


def _surroundings(d: Distance, anchors: Int32Array, classes: OutputClasses) -> Surroundings:
    distances = d.between(anchors, classes.representatives)
    grid = np.unique(np.append(0.0, distances))
    indices = np.searchsorted(grid, distances).astype(np.int32)
    return Surroundings(distances, indices, classes.totals, grid)


def _situations(given: References, anchors: Int32Array, around: Surroundings, *, weak: bool) -> SituationTable:
    values = np.searchsorted(anchors, given.values).astype(np.int32)
    signed = (given.references != NO_REFERENCE) & (given.references != given.values)
    references = np.where(signed, np.searchsorted(anchors, given.references), NO_REFERENCE).astype(np.int32)
    shape = values.size, 2, around.grid.size
    table = SituationTable(values, references, np.zeros(shape), np.zeros(shape, np.uint8))
    fill_situations(around, table, weak)
    return table


@dataclass(frozen=True, slots=True, eq=False)
class PairMasks:
    """P(a*, b* | a, b) for t combinations of values.

    * ``first``, ``second``: the channels. ``situations``: (t,) int64 each, the situation of both values.
    * ``moments``: those of the two noises over the levels of both channels (``NoisePair.moments``).
    """

    first: NoiseChannel
    second: NoiseChannel
    situations: tuple[Int64Array, Int64Array]
    moments: Float64Array4D

    @classmethod
    def of(
        cls, first: NoiseChannel, second: NoiseChannel, situations: tuple[Int64Array, Int64Array], noise: NoisePair
    ) -> PairMasks:
        """Compute the moments of the noises; ``situations``: see the class."""
        return cls(first, second, situations, noise.moments(first.around.grid, second.around.grid))

    def likelihood(self, masked: tuple[int, ...]) -> Float64Array:
        classes = [c.classes.class_of[k] for c, k in zip((self.first, self.second), masked, strict=True)]
        result = np.zeros(self.situations[0].size)
        first, second = self.first, self.second
        fill_likelihoods(
            first.around,
            first.table,
            self.situations[0],
            int(classes[0]),
            second.around,
            second.table,
            self.situations[1],
            int(classes[1]),
            self.moments,
            first.calibrated,
            Pieces.empty(),
            Pieces.empty(),
            result,
        )
        return result


@part
def rectangle(moments: Float64Array4D, same: int, m: int, first: Pieces, i: int, second: Pieces, j: int) -> float:
    """Return a moment over the rectangle of a piece of the first and a piece of the second noise."""
    lo, hi = first.bounds[i, 1], first.bounds[i, 2]
    left, right = second.bounds[j, 1], second.bounds[j, 2]
    upper: float = moments[same, m, hi, right] - moments[same, m, lo, right]
    lower: float = moments[same, m, hi, left] - moments[same, m, lo, left]
    return upper - lower


@kernel
def fill_likelihoods(
    around: Surroundings,
    table: SituationTable,
    situations: Int64Array,
    k: int,
    other_around: Surroundings,
    other_table: SituationTable,
    other_situations: Int64Array,
    other_k: int,
    moments: Float64Array4D,
    calibrated: bool,
    first: Pieces,
    second: Pieces,
    result: Float64Array,
) -> None:
    """Fill (t,) ``result`` with the probability of two classes of masks, for each combination of situations."""
    for t in range(result.size):
        size = find_pieces(around, table, situations[t], k, calibrated, first)
        if size == 0:
            continue
        other_size = find_pieces(other_around, other_table, other_situations[t], other_k, calibrated, second)
        total = 0.0
        for i in range(size):
            for j in range(other_size):
                same = 0 if first.bounds[i, 0] == second.bounds[j, 0] else 1
                for m in range(4):
                    factor = first.factors[i, m % 2] * second.factors[j, m // 2]
                    if factor != 0.0:
                        total += factor * rectangle(moments, same, m, first, i, second, j)
        result[t] = max(total, 0.0)
