"""What all swapping mechanisms share: values change places with others of their attribute, within a group."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from stream_masker.core.batch import Batch, Column, MaskedBatch
from stream_masker.core.distance import Distance
from stream_masker.core.dtypes import Int32Array, Int64Array, UInt64Array
from stream_masker.core.mechanisms.distortion import distortion_tally
from stream_masker.core.mechanisms.swapping.kernels import PLACE_WORD, swap_in_range
from stream_masker.core.mechanisms.windowed import Prepared, WindowedMechanism
from stream_masker.core.random.keys import Keys
from stream_masker.core.random.layout import draw_words
from stream_masker.errors import ParameterError

MIN_VALUES = 2
"""Records that a swap takes."""


@dataclass(frozen=True, slots=True)
class SwapValues:
    """The values of one attribute that a group holds, absent ones left out, in the order of their records.

    codes: (k,) int32 positions. places: (k,) int64, where they stand in the column. owners: (k,) int64 ascending, the
    record of each. words: (k, 4) uint64, the random words of each.
    """

    codes: Int32Array
    places: Int64Array
    owners: Int64Array
    words: UInt64Array

    @classmethod
    def of(cls, column: Column, words: UInt64Array) -> SwapValues:
        """The values of a column; words: (all of its values, 4)."""
        places = np.flatnonzero(column.codes >= 0)
        owners = places if column.offsets is None else np.searchsorted(column.offsets, places, side="right") - 1
        return cls(column.codes[places], places, owners, words[places])

    def __len__(self) -> int:
        return self.codes.size

    def where(self, chosen: NDArray[np.bool_]) -> SwapValues:
        """The values for which ``chosen``, (k,), is true."""
        return SwapValues(self.codes[chosen], self.places[chosen], self.owners[chosen], self.words[chosen])

    @property
    def records(self) -> int:
        """How many records have a value."""
        return int(np.count_nonzero(np.diff(self.owners, prepend=-1)))


@dataclass(frozen=True, slots=True)
class Swapped:
    """A column's codes after swapping; kept: how many values found no partner."""

    codes: Int32Array
    kept: int

    @classmethod
    def none(cls, codes: Int32Array) -> Swapped:
        """A column without values."""
        return cls(codes.copy(), 0)

    @classmethod
    def by(cls, codes: Int32Array, places: Int64Array, partners: Int64Array) -> Swapped:
        """``places``: (k,) where the values stand; ``partners``: (k,) which of the k each takes, itself if none."""
        result = codes.copy()
        result[places] = codes[places[partners]]
        return cls(result, int(np.count_nonzero(partners == np.arange(partners.size))))


class Swapping(WindowedMechanism[Prepared]):
    """Gives values of a group to other records of it, so that every attribute keeps its values exactly.

    A value is swapped once at most: both values of a swap are labelled as swapped. Absent values take no part. The
    elements of an array attribute take part as values of that attribute, and never change places with another element
    of their own record, which would mask nothing; each array keeps its length.

    All that depends on chance follows from the random words of the group's records. A value that finds no partner
    stays; the tally counts it as ``truncated``. ``squared_noise`` is 0: there is no noise.

    The statistics are of use to others (drift, utility); masking needs the group alone, but holds until there are any.
    """

    needs_group: ClassVar[bool] = True

    @property
    @abstractmethod
    def group_minimum(self) -> int:
        """The fewest records that can be masked as a group."""

    def mask_batch(self, batch: Batch, keys: Keys) -> MaskedBatch:
        """Masks one group of encoded records, whose order it keeps.

        Raises StatisticsError before the first statistics, and ParameterError for a batch of other attributes, of
        another size than the keys, or of fewer records (or values of an attribute that has any) than a swap takes.
        """
        self._ready()
        self._check(batch, keys)
        if not batch.size:
            return _masked(batch, [Swapped.none(column.codes) for column in batch.columns], self._distances)
        self._check_size(batch.size)
        groups = [SwapValues.of(*pair) for pair in zip(batch.columns, draw_words(keys, batch), strict=True)]
        return _masked(batch, self._swapped(batch, groups), self._distances)

    @abstractmethod
    def _partners(self, j: int, values: SwapValues) -> Int64Array:
        """(k,): by value of attribute j, whose value it takes; its own index where it keeps its own."""

    def _swapped(self, batch: Batch, groups: Sequence[SwapValues]) -> list[Swapped]:
        """Every column, swapped."""
        return [self._swapped_column(j, batch.columns[j].codes, values) for j, values in enumerate(groups)]

    def _swapped_column(self, j: int, codes: Int32Array, values: SwapValues) -> Swapped:
        if not len(values):
            return Swapped.none(codes)
        self._check_records(j, values)
        return Swapped.by(codes, values.places, self._partners(j, values))

    def _check_records(self, j: int, values: SwapValues) -> None:
        if values.records < MIN_VALUES:
            raise ParameterError(
                f"one record alone of the group has values of {self._attributes[j]!r}: {MIN_VALUES} swap"
            )

    def _check_size(self, size: int) -> None:
        if size < self.group_minimum:
            raise ParameterError(f"{self.name} masks groups of {self.group_minimum} records or more, not of {size}")


def swap_in_ranks(ranks: NDArray[np.integer], values: SwapValues, k: int) -> Int64Array:
    """(n,) partners: values in ascending rank, equal ranks in any order, each swaps with one of the next k (2019:
    Algorithm 1, lines 3 to 12)."""
    order = np.lexsort((values.words[:, PLACE_WORD], ranks))
    return np.asarray(swap_in_range(order, values.owners, k, values.words))


def _masked(batch: Batch, swapped: Sequence[Swapped], distances: Sequence[Distance]) -> MaskedBatch:
    columns = tuple(Column(after.codes, before.offsets) for after, before in zip(swapped, batch.columns, strict=True))
    done = zip(batch.columns, swapped, distances, strict=True)
    tallies = (distortion_tally(before.codes, after.codes, d, truncated=after.kept) for before, after, d in done)
    return MaskedBatch(columns, tuple(tallies))
