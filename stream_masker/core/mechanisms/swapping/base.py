"""The common parts of mechanisms that exchange values within a group of records."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from stream_masker.core.batch import Batch, Column, MaskedBatch
from stream_masker.core.distance import Distance
from stream_masker.core.dtypes import Int32Array, Int64Array, UInt64Array
from stream_masker.core.mechanisms.distortion import distortion_of
from stream_masker.core.mechanisms.grouped import GroupMechanism
from stream_masker.core.mechanisms.swapping.kernels import TIE_WORD, swap_in_range
from stream_masker.core.random.keys import Keys
from stream_masker.core.random.layout import draw_words
from stream_masker.core.statistics.summary import Statistics
from stream_masker.errors import ParameterError

MIN_SWAP_RECORDS = 2
"""The number of records that a swap involves."""


@dataclass(frozen=True, slots=True)
class SwapValues:
    """The present values of one attribute in a group, in the order of their records. Immutable.

    * ``codes``: (k,) int32 positions.
    * ``indices``: (k,) int64, their indices in the column.
    * ``owners``: (k,) int64 ascending, the record of each value.
    * ``words``: (k, 4) uint64, the random words of each value.
    """

    codes: Int32Array
    indices: Int64Array
    owners: Int64Array
    words: UInt64Array

    @classmethod
    def of(cls, column: Column, words: UInt64Array) -> SwapValues:
        """Return the present values of a column; ``words``: (all of its values, 4) uint64."""
        indices = np.flatnonzero(column.codes >= 0)
        owners = indices if column.offsets is None else np.searchsorted(column.offsets, indices, side="right") - 1
        return cls(column.codes[indices], indices, owners, words[indices])

    def __len__(self) -> int:
        return self.codes.size

    def select(self, mask: NDArray[np.bool_]) -> SwapValues:
        """Return the values for which ``mask``, (k,) bool, is true."""
        return SwapValues(self.codes[mask], self.indices[mask], self.owners[mask], self.words[mask])

    @property
    def records(self) -> int:
        """The number of records that have a value."""
        return int(np.count_nonzero(np.diff(self.owners, prepend=-1)))


@dataclass(frozen=True, slots=True)
class SwappedColumn:
    """A column's codes after swapping; ``unswapped``: the number of values without a partner."""

    codes: Int32Array
    unswapped: int

    @classmethod
    def unchanged(cls, codes: Int32Array) -> SwappedColumn:
        """Return a column without values."""
        return cls(codes.copy(), 0)

    @classmethod
    def from_partners(cls, codes: Int32Array, indices: Int64Array, partners: Int64Array) -> SwappedColumn:
        """Exchange the values of a column.

        * ``indices``: (k,) int64, the values' indices in the column.
        * ``partners``: (k,) int64, the value that each value takes; a value without a partner takes its own.
        """
        result = codes.copy()
        result[indices] = codes[indices[partners]]
        return cls(result, int(np.count_nonzero(partners == np.arange(partners.size))))


class Swapping(GroupMechanism[Statistics]):
    """Exchanges values between the records of a group, so that every attribute keeps its values exactly.

    A value is swapped at most once: both values of a swap are labelled as swapped. Absent values take no part. The
    elements of an array attribute are values of that attribute. Two elements of one record are never exchanged, which
    would mask nothing. Each array keeps its length.

    Everyone who sees the masks of a group knows its values. A swap is *forced* if all values that a value could be
    swapped with are equal, and differ from it: everyone could undo it, so it takes place with probability 1/2 only.

    All randomness comes from the random words of the group's records. A value without a partner stays unchanged and is
    counted as ``truncated`` in the distortion. There is no noise: ``squared_noise`` is 0.

    The statistics only serve drift and utility. Masking depends on the group alone, but waits for the first statistics.
    """

    @property
    @abstractmethod
    def group_minimum(self) -> int:
        """The smallest number of records that can be masked as a group."""

    def mask_batch(self, batch: Batch, keys: Keys) -> MaskedBatch:
        """Mask one group of encoded records; their order is kept.

        Raises StatisticsError before the first statistics. Raises ParameterError if the batch has other attributes,
        another size than the keys, or too few records, or if too few of them have values of an attribute.
        """
        self._prepared_statistics()
        self._check(batch, keys)
        if not batch.size:
            return _masked_batch(
                batch, [SwappedColumn.unchanged(column.codes) for column in batch.columns], self._distances
            )
        self._check_size(batch.size)
        values = [
            SwapValues.of(*pair) for pair in zip(batch.columns, draw_words(keys, batch, distinct=True), strict=True)
        ]
        return _masked_batch(batch, self._swap_columns(batch, values), self._distances)

    @abstractmethod
    def _partners(self, j: int, values: SwapValues) -> Int64Array:
        """Return (k,) int64: the index of the value that each value of attribute j takes.

        A value without a partner takes itself.
        """

    def _prepare(self, statistics: Statistics) -> Statistics:
        return statistics

    def _swap_columns(self, batch: Batch, groups: Sequence[SwapValues]) -> list[SwappedColumn]:
        """Return every column after swapping."""
        return [self._swap_column(j, batch.columns[j].codes, values) for j, values in enumerate(groups)]

    def _swap_column(self, j: int, codes: Int32Array, values: SwapValues) -> SwappedColumn:
        if not len(values):
            return SwappedColumn.unchanged(codes)
        self._check_records(j, values)
        return SwappedColumn.from_partners(codes, values.indices, self._partners(j, values))

    def _check_records(self, j: int, values: SwapValues) -> None:
        if values.records < MIN_SWAP_RECORDS:
            raise ParameterError(
                f"only one record of the group has values of {self._attributes[j]!r}: a swap needs {MIN_SWAP_RECORDS}"
            )

    def _check_size(self, size: int) -> None:
        if size < self.group_minimum:
            raise ParameterError(f"{self.name} masks groups of at least {self.group_minimum} records, not of {size}")


def swap_in_ranks(ranks: NDArray[np.integer], values: SwapValues, k: int) -> Int64Array:
    """Return (n,) int64 partners: each value swaps with one of the next k in ascending rank (``swap_in_range``).

    This is Algorithm 1 of 2019, lines 3 to 12. Random words order equal ranks.
    """
    order = np.lexsort((values.words[:, TIE_WORD], ranks))
    return np.asarray(swap_in_range(order, values.codes, values.owners, k, values.words))


def _masked_batch(batch: Batch, swapped: Sequence[SwappedColumn], distances: Sequence[Distance]) -> MaskedBatch:
    columns = tuple(Column(after.codes, before.offsets) for after, before in zip(swapped, batch.columns, strict=True))
    swaps = zip(batch.columns, swapped, distances, strict=True)
    distortions = (distortion_of(before.codes, after.codes, d, truncated=after.unswapped) for before, after, d in swaps)
    return MaskedBatch(columns, tuple(distortions))
