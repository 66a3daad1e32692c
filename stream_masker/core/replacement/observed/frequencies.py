"""The concepts of a window and their frequencies."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from stream_masker.core.dtypes import Int32Array, Int64Array
from stream_masker.errors import ParameterError

MAX_FREQUENCY = (1 << 31) - 1
"""The largest sum of frequencies; larger ones are scaled."""


@dataclass(frozen=True, slots=True, eq=False)
class ConceptFrequencies:
    """The concepts of a window and their frequencies. Immutable.

    positions: (m,) int32 ascending, distinct. counts: (m,) int64, positive.
    """

    positions: Int32Array
    counts: Int64Array

    def __post_init__(self) -> None:
        """Raises ParameterError if there is no concept, or if the arrays are not as described."""
        steps = np.diff(self.positions)
        if not self.positions.size or self.positions.shape != self.counts.shape:
            raise ParameterError("there must be as many frequencies as concepts, and at least one")
        if self.positions[0] < 0 or (steps <= 0).any() or self.counts.min() <= 0:
            raise ParameterError("the concepts must be distinct and ascending, and their frequencies positive")

    def require_within(self, size: int) -> None:
        """Raise ParameterError if a concept lies outside a taxonomy of ``size`` concepts."""
        if self.positions[-1] >= size:
            raise ParameterError("a concept with a frequency lies outside the taxonomy")

    @property
    def weights(self) -> Int64Array:
        """(m,) int64, positive: the frequencies, scaled to a sum of at most ``MAX_FREQUENCY``."""
        total = int(self.counts.sum())
        if total <= MAX_FREQUENCY:
            return self.counts
        share = (MAX_FREQUENCY - self.counts.size) / total
        scaled: Int64Array = np.maximum(self.counts * share, 1).astype(np.int64)
        return scaled
