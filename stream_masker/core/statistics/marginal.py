"""The distinct values of one attribute in a window, weighted by their counts."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from stream_masker.core.distance import Distance
from stream_masker.core.distance.many import weighted_sums
from stream_masker.core.dtypes import Float64Array, Float64Matrix
from stream_masker.core.statistics.counts import SparseCounts
from stream_masker.errors import StatisticsError

MAX_HELD_CELLS = 1 << 22
"""The most cells (32 MB) of each matrix of distances that is held."""


class Marginal:
    """k distinct values with weights (the rows that have them), n rows in total. Frozen; derived values are cached.

    * ``positions``: (k,) int32, ascending.
    * ``weights``: (k,) float64.
    """

    def __init__(self, counts: SparseCounts, d: Distance) -> None:
        """Take the counts of an attribute's values and the distance on its taxonomy.

        Raises StatisticsError if there are no rows.
        """
        if not len(counts.keys):
            raise StatisticsError("statistics need at least one value")
        self.counts = counts
        self.d = d
        self.positions = counts.keys.astype(np.int32)
        self.weights = counts.counts.astype(np.float64)
        self.rows = float(counts.rows)

    @cached_property
    def means(self) -> Float64Array:
        """(k,) float64: the mean distance of each distinct value to the n values (2017: equation 17)."""
        return self.sums(0.0)[0] / self.rows

    @cached_property
    def grand_mean(self) -> float:
        """The mean of all n × n distances (2017: equation 17)."""
        return float(np.dot(self.weights, self.means)) / self.rows

    @cached_property
    def variance_squared(self) -> float:
        """sdVar² (2017: equation 20): the mean of the squared double-centred distances; 0 for a constant attribute.

        Shifting the distances by their grand mean reduces it to S1 − 2·S3, with little cancellation (see
        ``covariance``).
        """
        if len(self.positions) == 1:
            return 0.0
        squares = self.sums(self.grand_mean)[1]
        mixed = np.dot(self.weights, (self.means - self.grand_mean) ** 2) / self.rows
        return float(max(0.0, np.dot(self.weights, squares) / self.rows**2 - 2.0 * mixed))

    def sums(self, shift: float) -> tuple[Float64Array, Float64Array]:
        """Return Σ w·x and Σ w·x² for every distinct value, x = sd − shift: (k,) float64 each."""
        if self._matrix is not None:
            sums, squares = weighted_sums(self._matrix, self.weights, shift)
            return sums, squares
        return self.d.targets(self.positions).sums(self.d.sources(self.positions), self.weights, shift)

    def distances_to(self, start: int, stop: int) -> Float64Matrix:
        """Return (k, stop - start) float64: the distances of all distinct values to some of them."""
        if self._matrix is not None:
            return np.ascontiguousarray(self._matrix[:, start:stop])
        return np.asarray(self.d.between(self.positions, self.positions[start:stop]))

    @cached_property
    def _matrix(self) -> Float64Matrix | None:
        """The distances of all distinct values to each other; None if they are too many to be held."""
        held = self.positions.size**2 <= MAX_HELD_CELLS
        return np.asarray(self.d.matrix(self.positions)) if held else None
