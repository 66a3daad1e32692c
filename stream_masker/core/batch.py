"""Batches of encoded records, which mechanisms mask.

A batch is columnar. Values are positions in the taxonomy of their attribute (``Taxonomy.encode``), so that mechanisms
handle no strings and no Python object per value.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from stream_masker.core.arrays import offsets_from_lengths, ranges

ABSENT = -1
"""The code of an absent value: an optional attribute that a record does not have."""


@dataclass(frozen=True)
class Column:
    """One attribute of n records.

    codes: int32 positions in the taxonomy. Scalar attribute: (n,), ``ABSENT`` if the record has no value. Array
    attribute: (m,), the elements of all records in order.
    offsets: None for a scalar attribute. Array attribute: (n + 1,) int64 from 0 on; the elements of record i are
    ``codes[offsets[i]:offsets[i + 1]]``.
    """

    codes: NDArray[np.int32]
    offsets: NDArray[np.int64] | None = None

    @property
    def is_array(self) -> bool:
        """Whether a record may have several values."""
        return self.offsets is not None

    @cached_property
    def lengths(self) -> NDArray[np.int64]:
        """(n,) int64: the number of values of each record; 1 for a scalar, present or absent."""
        return np.ones(self.codes.size, np.int64) if self.offsets is None else self.offsets[1:] - self.offsets[:-1]

    @cached_property
    def owners(self) -> NDArray[np.int64]:
        """(m,) int64: the record of each value."""
        return np.arange(self.lengths.size).repeat(self.lengths)

    @cached_property
    def present_lengths(self) -> NDArray[np.int64]:
        """(n,) int64: the number of values of each record that are not ``ABSENT``."""
        return np.bincount(self.owners[self.codes >= 0], minlength=self.lengths.size)

    @property
    def first_codes(self) -> NDArray[np.int32]:
        """(n,) int32: the value of each record, of an array its first element; ``ABSENT`` without elements."""
        if self.offsets is None:
            return self.codes
        return np.append(self.codes, np.int32(ABSENT))[np.where(self.lengths > 0, self.offsets[:-1], -1)]

    def take(self, rows: NDArray[np.int64]) -> Column:
        """Return the values of the records with these indices, in their order."""
        if self.offsets is None:
            return Column(self.codes[rows])
        lengths = self.lengths[rows]
        return Column(self.codes[ranges(self.offsets[rows], lengths)], offsets_from_lengths(lengths))


@dataclass(frozen=True, slots=True)
class Batch:
    """n records with p attributes, in the order of those of the mechanism.

    units: (n,) int64, the unit that each record belongs to, such as a person; k-anonymity counts units. None if each
    record is a unit of its own.
    slots: (n,) int64, the slot of each record's noise key (``core.statistics.counts``), by which counts tell how many
    different noise keys a value has; None if no noise key is known.
    context: (n,) int64, the number of each record's context (``core.context``); None if there is no context.
    """

    size: int
    columns: tuple[Column, ...]
    units: NDArray[np.int64] | None = None
    slots: NDArray[np.int64] | None = None
    context: NDArray[np.int64] | None = None

    @property
    def unit_count(self) -> int:
        """The number of different units."""
        return self.size if self.units is None else len(np.unique(self.units))

    def take(self, rows: NDArray[np.int64]) -> Batch:
        """Return the records with these indices, in their order, without their units."""
        slots = None if self.slots is None else self.slots[rows]
        context = None if self.context is None else self.context[rows]
        columns = tuple(column.take(rows) for column in self.columns)
        return Batch(rows.size, columns, slots=slots, context=context)


@dataclass(frozen=True, slots=True)
class Distortion:
    """The effect of masking on one attribute of a batch, as sums, so that distortions of batches can be added.

    values: the number of masked values. squared_distance: Σ sd(a, a*)². squared_noise: Σ ε². truncated: the number of
    replacements without an admissible concept at distance |ε| or more. unsigned: the number of replacements without the
    sign condition, because no concept met it. unchanged: the number of values that are their own masks.
    """

    values: int = 0
    squared_distance: float = 0.0
    squared_noise: float = 0.0
    truncated: int = 0
    unsigned: int = 0
    unchanged: int = 0

    def share(self, count: int) -> float:
        """Return a count as a share of the values; 0 without values."""
        return count / max(1, self.values)

    def __add__(self, other: Distortion) -> Distortion:
        return Distortion(*(getattr(self, name) + getattr(other, name) for name in self.__slots__))


@dataclass(frozen=True, slots=True)
class MaskedBatch:
    """A masked batch: ``columns`` have the input's shapes, and each has a ``Distortion``."""

    columns: tuple[Column, ...]
    distortions: tuple[Distortion, ...]


def unchanged_records(batch: Batch, masked: Batch | MaskedBatch) -> NDArray[np.bool_]:
    """Return (n,) bool: whether each record has at least one value, and masking changed none of its values."""
    owners = np.concatenate([column.owners for column in batch.columns])
    old, new = (np.concatenate([column.codes for column in each.columns]) for each in (batch, masked))
    present, changed = (np.bincount(owners[marks], minlength=batch.size) for marks in (old >= 0, old != new))
    return np.asarray((present > 0) & (changed == 0))
