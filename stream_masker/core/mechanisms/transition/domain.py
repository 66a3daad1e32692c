"""The values that an attribute's masked values are drawn from."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_masker.core.dtypes import Float64Array, Int32Array
from stream_masker.core.mechanisms.transition.trie import Trie
from stream_masker.errors import StatisticsError


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

    @property
    def shares(self) -> Float64Array:
        """(v,) float64: the probability that a value outside the domain becomes each value."""
        result: Float64Array = np.empty(self.values.size)
        result[self.index_of[self.trie.values]] = np.diff(self.cumulative, prepend=0.0) / self.cumulative[-1]
        return result
