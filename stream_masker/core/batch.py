"""Encoded records: what mechanisms work on.

A batch is columnar. Values are positions in the attribute's taxonomy (``Taxonomy.encode``), so that nothing below
this line handles strings or Python objects per concept.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

ABSENT = -1
"""The code of a value that is not there (a missing optional attribute)."""


@dataclass(frozen=True, slots=True)
class Column:
    """One attribute of n records.

    A scalar attribute has ``codes`` (n,) int32, ``ABSENT`` where the record has no value, and ``offsets`` None.
    An array attribute has ``codes`` (m,) int32, all records' elements one after another, and ``offsets`` (n + 1,)
    int64: the elements of record i are ``codes[offsets[i]:offsets[i + 1]]``.
    """

    codes: NDArray[np.int32]
    offsets: NDArray[np.int64] | None = None

    @property
    def is_array(self) -> bool:
        """Whether a record may have several values."""
        return self.offsets is not None


@dataclass(frozen=True, slots=True)
class Batch:
    """n records over p attributes, in the order of the mechanism's attributes.

    ``alpha``: (n,) float64, NaN where the record gives none: a record's own noise level for every attribute, which
    replaces the configured one; None when no record gives any.
    ``numeric``: (n, q) float64, the values of q numeric attributes, NaN where a record has none; None when q = 0.
    """

    size: int
    columns: tuple[Column, ...]
    alpha: NDArray[np.float64] | None = None
    numeric: NDArray[np.float64] | None = None


@dataclass(frozen=True, slots=True)
class Tally:
    """What masking did to one attribute of a batch; sums, so that tallies of batches add up.

    values: masked values; squared_distance: Σ sd(a, a*)²; squared_noise: Σ ε²; truncated: replacements with no
    admissible concept as far as |ε|; unsigned: replacements whose sign condition had to be dropped.
    """

    values: int = 0
    squared_distance: float = 0.0
    squared_noise: float = 0.0
    truncated: int = 0
    unsigned: int = 0

    def __add__(self, other: Tally) -> Tally:
        return Tally(
            self.values + other.values,
            self.squared_distance + other.squared_distance,
            self.squared_noise + other.squared_noise,
            self.truncated + other.truncated,
            self.unsigned + other.unsigned,
        )


@dataclass(frozen=True, slots=True)
class MaskedBatch:
    """A masked batch: ``columns`` and ``numeric`` of the same shapes as the input's, and one ``Tally`` per column."""

    columns: tuple[Column, ...]
    tallies: tuple[Tally, ...]
    numeric: NDArray[np.float64] | None = None
