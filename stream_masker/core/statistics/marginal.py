"""One attribute's values in a window, weighted by their counts, and the row means of their distance matrix."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from stream_masker.core.distance import Distance
from stream_masker.core.statistics import tree
from stream_masker.core.statistics.counts import SparseCounts
from stream_masker.errors import StatisticsError

Floats = NDArray[np.float64]

BLOCK_CELLS = 1 << 24
"""No distance matrix of more cells (128 MB) is ever held; larger ones are walked in blocks of rows.

A few blocks of this size are alive at once: three quarters of a gigabyte at most.
"""

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

    @property
    def by_depths(self) -> bool:
        """Whether the taxonomy is a tree of which depths tell all distances."""
        return self.d.taxonomy.is_tree and self.height <= TREE_HEIGHT

    @property
    def height(self) -> int:
        """The greatest depth in the taxonomy."""
        return int(self.d.taxonomy.depth[-1])

    @cached_property
    def means(self) -> Floats:
        """(k,): the mean distance of each distinct value to the n values (2017: equation 17)."""
        if self.d.taxonomy.is_tree:
            return self.tree_sums(self.positions)[0] / self.rows
        blocks = (self.d.between(self.positions[rows], self.positions) for rows in self._blocks())
        return np.concatenate([block @ self.weights for block in blocks]) / self.rows

    @cached_property
    def grand_mean(self) -> float:
        """The mean of all n x n distances (2017: equation 17)."""
        return float(self.weights @ self.means) / self.rows

    @cached_property
    def variance_squared(self) -> float:
        """sdVar² (2017: equation 20): the mean of the squared double-centred distances; 0 for a constant attribute."""
        if len(self.positions) == 1:
            return 0.0
        return max(0.0, self._squares_by_depths() if self.by_depths else self._squares_by_blocks())

    def tree_sums(self, targets: NDArray[np.int32], shift: float = 0.0) -> tuple[Floats, Floats]:
        """Σ w·x and Σ w·x² of x = sd(target, value) - shift, (k,) each; only where the taxonomy is a tree."""
        tau = self.d.taxonomy
        table = tau.tree
        sums, squares = tree.distance_sums(
            self.d.kind, targets, self._below, table.parent, tau.depth, table.level_offsets, shift
        )
        return np.asarray(sums), np.asarray(squares)

    def centred(self, rows: NDArray[np.int64]) -> Floats:
        """(r, k): these rows of the double-centred distance matrix of the distinct values (2017: equation 16)."""
        if self.block_rows >= len(self.positions):
            return self._whole[rows]
        return self._centre(rows)

    @property
    def block_rows(self) -> int:
        """How many rows of the distance matrix one block may hold."""
        return max(1, BLOCK_CELLS // len(self.positions))

    @cached_property
    def _below(self) -> Floats:
        table = self.d.taxonomy.tree
        weights = np.zeros(len(self.d.taxonomy))
        weights[self.positions] = self.weights
        return np.asarray(tree.weights_below(weights, table.parent, table.level_offsets))

    @cached_property
    def _whole(self) -> Floats:
        return self._centre(np.arange(len(self.positions)))

    def _centre(self, rows: NDArray[np.int64]) -> Floats:
        block = self.d.between(self.positions[rows], self.positions)
        block -= self.means[rows, None]
        block -= self.means - self.grand_mean
        return block

    def _blocks(self) -> Iterator[NDArray[np.int64]]:
        everything = np.arange(len(self.positions))
        for start in range(0, len(everything), self.block_rows):
            yield everything[start : start + self.block_rows]

    def _squares_by_depths(self) -> float:
        """Distances shifted by their grand mean leave S1 - 2·S3, with little to cancel (see ``covariance``)."""
        squares = self.tree_sums(self.positions, self.grand_mean)[1]
        offsets = self.means - self.grand_mean
        return float(self.weights @ squares / self.rows**2 - 2.0 * (self.weights @ offsets**2) / self.rows)

    def _squares_by_blocks(self) -> float:
        total = 0.0
        for rows in self._blocks():
            total += float(self.weights[rows] @ (self.centred(rows) ** 2 @ self.weights))
        return total / self.rows**2
