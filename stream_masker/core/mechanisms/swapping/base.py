"""The common parts of mechanisms that exchange values within a group of records."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from stream_masker.core.batch import Batch, Column, MaskedBatch
from stream_masker.core.dtypes import BoolArray, Int32Array, Int64Array, UInt64Matrix
from stream_masker.core.kernels.draws import uniform
from stream_masker.core.kernels.jit import int64, part
from stream_masker.core.mechanisms.base import distortion_of
from stream_masker.core.mechanisms.grouped import GroupMechanism
from stream_masker.core.random import Keys, draw_words
from stream_masker.core.statistics.summary import Statistics
from stream_masker.errors import ParameterError

MIN_SWAP_RECORDS = 2
"""The number of records that a swap involves."""

PARTNER_WORD = 0
TIED_PARTNER_WORD = 1
TIE_WORD = 2
REFERENCE_WORD = 3
"""The four random words of a value: two draw its partner, one breaks ties in ranks, one draws the next reference."""

STAY_BIT = np.uint64(1)
"""The bit of ``PARTNER_WORD``, which ``draw_below`` does not use, that keeps a value whose swap is forced."""


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
    words: UInt64Matrix

    @classmethod
    def of(cls, column: Column, words: UInt64Matrix) -> SwapValues:
        """Return the present values of a column; ``words``: (all of its values, 4) uint64."""
        indices = np.flatnonzero(column.codes >= 0)
        return cls(column.codes[indices], indices, column.owners[indices], words[indices])

    def __len__(self) -> int:
        return self.codes.size

    def select(self, among: BoolArray | Int64Array) -> SwapValues:
        """Return some of the values, by a mask or by their indices."""
        return SwapValues(self.codes[among], self.indices[among], self.owners[among], self.words[among])

    @property
    def records(self) -> int:
        """The number of records that have a value."""
        return int(np.count_nonzero(np.diff(self.owners, prepend=-1)))


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
        if batch.size:
            self._check_size(batch.size)
        words = draw_words(keys, batch, distinct=True)
        groups = [SwapValues.of(*pair) for pair in zip(batch.columns, words, strict=True)]
        for j, values in enumerate(groups):
            self._check_records(j, values)
        columns, distortions = [], []
        parts = zip(batch.columns, groups, self._group_partners(groups, batch.size), self._distances, strict=True)
        for column, values, partners, d in parts:
            codes = column.codes.copy()
            codes[values.indices] = values.codes[partners]
            unswapped = int(np.count_nonzero(partners == np.arange(len(values))))
            columns.append(Column(codes, column.offsets))
            distortions.append(distortion_of(column.codes, codes, d, truncated=unswapped))
        return MaskedBatch(tuple(columns), tuple(distortions))

    @abstractmethod
    def _partners(self, j: int, values: SwapValues) -> Int64Array:
        """Return (k,) int64: the index of the value that each value of attribute j takes.

        A value without a partner takes itself.
        """

    def _prepare(self, statistics: Statistics) -> Statistics:
        return statistics

    def _group_partners(self, groups: Sequence[SwapValues], size: int) -> list[Int64Array]:
        """Return the partners of the values of every attribute in a group of ``size`` records."""
        return [self._partners(j, values) if len(values) else np.arange(0) for j, values in enumerate(groups)]

    def _check_records(self, j: int, values: SwapValues) -> None:
        if values.records == 1:
            raise ParameterError(
                f"only one record of the group has values of {self._attributes[j]!r}: a swap needs {MIN_SWAP_RECORDS}"
            )

    def _check_size(self, size: int) -> None:
        if size < self.group_minimum:
            raise ParameterError(f"{self.name} masks groups of at least {self.group_minimum} records, not of {size}")


@part
def draw_below(word: np.uint64, size: int) -> int:
    """Return a uniform integer in 0 … size − 1, from the 53 high bits of a random word."""
    return int64(uniform(word) * size)


@part
def draw_partner(
    reference: int,
    codes: Int32Array,
    words: UInt64Matrix,
    candidates: Int64Array,
    nearest: int,
    tied: int,
    places: int,
) -> int:
    """Return one of the values of the swapping interval of the reference, drawn uniformly (2019: section 3.3).

    Return the reference itself if there is none, and with probability 1/2 if the swap is forced.

    * ``candidates``: first the ``nearest`` unswapped values inside the interval, then the ``tied`` ones at its end, of
      which ``places`` at most belong to it.
    * ``codes``: (n,) int32, and ``words``: (n, 4) uint64, of all values.
    """
    word, size = words[reference, PARTNER_WORD], nearest + tied
    if size == 0 or (word & STAY_BIT and _is_forced(codes, reference, candidates, size)):
        return reference
    drawn = draw_below(word, nearest + min(places, tied))
    if drawn >= nearest:
        drawn = nearest + draw_below(words[reference, TIED_PARTNER_WORD], tied)
    return int(candidates[drawn])


@part
def _is_forced(codes: Int32Array, reference: int, candidates: Int64Array, size: int) -> bool:
    only = codes[candidates[0]]
    for i in range(size):
        if codes[candidates[i]] != only:
            return False
    return bool(only != codes[reference])
