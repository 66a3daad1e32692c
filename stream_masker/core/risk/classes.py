"""Classes of concepts that are equivalent as masked values.

Two concepts are equivalent if their columns of transition probabilities, P(c | a) over all a, are proportional: both
tell an attacker the same. Merging such concepts leaves the measures of a channel exact, and reduces a taxonomy of
100,000 concepts to a few thousand classes.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from stream_masker.core.dtypes import Float64Array, Int32Array


@dataclass(frozen=True, slots=True, eq=False)
class OutputClasses:
    """K classes of the m concepts of a taxonomy.

    * ``class_of``: (m,) int32, the class of each concept; −1 for a concept that is never a masked value.
    * ``weights``: (m,) float64, the weight of each concept within its class; 0 for concepts outside the candidates.
    * ``totals``: (K,) float64, the sum of the weights of each class; 0 for a class that only an original can be.
    * ``representatives``: (K,) int32, the position of one concept of each class.
    """

    class_of: Int32Array
    weights: Float64Array
    totals: Float64Array
    representatives: Int32Array

    def __len__(self) -> int:
        return self.totals.size

    def spread(self, row: Float64Array) -> dict[int, float]:
        """Return the probability of each concept, by position, from the (K,) probabilities of the classes.

        Concepts of probability 0 are left out.
        """
        reached = np.flatnonzero((self.class_of >= 0) & (np.append(row, 0.0)[self.class_of] > 0.0))
        classes = self.class_of[reached]
        totals = self.totals[classes]
        shares = np.where(totals > 0.0, self.weights[reached] / np.where(totals > 0.0, totals, 1.0), 1.0)
        probabilities = row[classes] * shares
        kept = probabilities > 0.0
        return dict(zip(reached[kept].tolist(), probabilities[kept].tolist(), strict=True))


def value_classes(values: NDArray[np.integer], size: int) -> OutputClasses:
    """Return a class for each of some values of a taxonomy with ``size`` concepts, in their order."""
    class_of = np.full(size, -1, np.int32)
    class_of[values] = np.arange(values.size, dtype=np.int32)
    weights = np.zeros(size)
    weights[values] = 1.0
    return OutputClasses(class_of, weights, np.ones(values.size), values.astype(np.int32))
