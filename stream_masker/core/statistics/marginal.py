"""One attribute's values in a window, weighted by their counts, and the row means of their distance matrix."""

from __future__ import annotations

from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from stream_masker.core.distance import Distance
from stream_masker.core.dtypes import Float64Array
from stream_masker.core.statistics import tree_sums
from stream_masker.core.statistics.counts import SparseCounts
from stream_masker.core.statistics.products import Side
from stream_masker.errors import StatisticsError

TREE_HEIGHT = 64
"""Trees up to this height go by their depths, deeper ones by distances: the tables of depths grow with its cube."""


class Marginal:
    """k distinct values with weights (rows that have them), n rows in all. Frozen; derived figures are kept.

    ``positions``: (k,) int32 ascending; ``weights``: (k,) float64. Raises StatisticsError for no rows.
    """

    def __init__(self, counts: SparseCounts, d: Distance) -> None:
        """The counts of an attribute's values, and the distance on its taxonomy."""
        if not len(counts.keys):
            raise StatisticsError("statistics need at least one value")
        self.counts = counts
        self.d = d
        self.positions = counts.keys.astype(np.int32)
        self.weights = counts.counts.astype(np.float64)
        self.rows = float(counts.rows)
        self._side = Side(d, self.positions)

    @property
    def by_depths(self) -> bool:
        """Whether the taxonomy is a tree of which depths tell all distances."""
        return self.d.taxonomy.is_tree and self.height <= TREE_HEIGHT

    @property
    def height(self) -> int:
        """The greatest depth in the taxonomy."""
        return int(self.d.taxonomy.depth[-1])

    @cached_property
    def means(self) -> Float64Array:
        """(k,): the mean distance of each distinct value to the n values (2017: equation 17)."""
        return self.sums(0.0)[0] / self.rows

    @cached_property
    def grand_mean(self) -> float:
        """The mean of all n x n distances (2017: equation 17)."""
        return float(self.weights @ self.means) / self.rows

    @cached_property
    def variance_squared(self) -> float:
        """sdVar² (2017: equation 20): the mean of the squared double-centred distances; 0 for a constant attribute.

        Distances shifted by their grand mean leave S1 - 2·S3, with little to cancel (see ``covariance``).
        """
        if len(self.positions) == 1:
            return 0.0
        squares = self.sums(self.grand_mean)[1]
        mixed = float(self.weights @ (self.means - self.grand_mean) ** 2) / self.rows
        return max(0.0, float(self.weights @ squares) / self.rows**2 - 2.0 * mixed)

    def tree_sums(self, targets: NDArray[np.int32], shift: float = 0.0) -> tuple[Float64Array, Float64Array]:
        """Σ w·x and Σ w·x² of x = sd(target, value) - shift, (k,) each; only where the taxonomy is a tree."""
        tau = self.d.taxonomy
        table = tau.tree
        sums, squares = tree_sums.distance_sums(
            self.d.kind, targets, self._below, table.parent, tau.depth, table.level_offsets, shift
        )
        return np.asarray(sums), np.asarray(squares)

    def sums(self, shift: float) -> tuple[Float64Array, Float64Array]:
        """Σ w·x and Σ w·x² of every distinct value, x = sd - shift."""
        if self.by_depths:
            return self.tree_sums(self.positions, shift)
        return self._side.targets.sums(self._side.sources, self.weights, shift)

    @cached_property
    def _below(self) -> Float64Array:
        table = self.d.taxonomy.tree
        weights = np.zeros(len(self.d.taxonomy))
        weights[self.positions] = self.weights
        return np.asarray(tree_sums.tree_weights_below(weights, table.parent, table.level_offsets))
