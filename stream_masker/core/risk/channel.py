"""The transition probabilities of one attribute: from the values of the window to classes of masked values."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from stream_masker.core.dtypes import Float64Array, Int32Array
from stream_masker.core.risk.classes import OutputClasses


@dataclass(frozen=True, slots=True, eq=False)
class Channel:
    """P(a* | a) of n values of one attribute, over K classes of masked values. Immutable.

    * ``values``: (n,) int32, positions without repetition.
    * ``rows``: (n, K) float64; each row sums to 1.
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
