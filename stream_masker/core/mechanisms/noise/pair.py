"""The law of the masks of two attributes whose noises are correlated, or that are each other's reference.

Given the values and the noises, both masks are independent. Each has a probability that is piecewise c0 + c2·ε²
(``situations.Pieces``). So the probability of two masks is a sum of moments of the noises over rectangles of levels.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from stream_masker.core.dtypes import Float64Array, Float64Array4D, Int64Array
from stream_masker.core.kernels.jit import kernel, part
from stream_masker.core.mechanisms.noise.channel import NoiseChannel
from stream_masker.core.mechanisms.noise.moments import NoisePair
from stream_masker.core.mechanisms.noise.situations import Pieces, SituationTable, Surroundings, find_pieces


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

    def selected(self, indices: Int64Array) -> Self:
        return replace(self, situations=(self.situations[0][indices], self.situations[1][indices]))


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
