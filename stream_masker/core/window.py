"""The sliding calibration window of one process."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from stream_masker.core.arrays import offsets_from_lengths
from stream_masker.core.batch import Batch, Column
from stream_masker.core.dtypes import Float64Array
from stream_masker.core.numeric import Moments
from stream_masker.core.statistics.counts import Counts, count_batch, count_lengths, merge, subtract
from stream_masker.errors import ParameterError

PENDING_RECORDS = 16_384
"""Added records are counted in batches of this size, so that adding single records is cheap."""


class SlidingWindow:
    """The last ``records`` added records, except those more than ``age`` seconds older than the newest of them.

    A late record, with an old time, takes one of the ``records`` places but is not counted. A time in the future
    excludes older records only as long as its record is among the last ``records``.

    ``counts`` is updated by the records that enter and leave the window. It equals ``count_batch`` over the records in
    the window exactly. Moments of numeric attributes cannot be subtracted exactly, so they are computed again. So are
    the lengths of arrays, because a batch of records without elements cannot always be told from one of a scalar.
    """

    def __init__(self, sizes: Sequence[int], *, records: int | None, age: float | None, numeric: int = 0) -> None:
        """``sizes``: the number of concepts in the taxonomy of each attribute. ``records``, ``age`` (in seconds): None
        for no limit. ``numeric``: the number of numeric attributes.

        Raises ParameterError.
        """
        _check_limits(records, age)
        self._sizes = tuple(sizes)
        self._records = records
        self._age = age
        self._batches: list[Batch] = []
        self._times: list[NDArray[np.float64]] = []
        self._was_live = np.zeros(0, dtype=np.bool_)
        self._pending = 0
        numbers = np.zeros((0, numeric)) if numeric else None
        empty = Batch(0, tuple(Column(np.zeros(0, dtype=np.int32)) for _ in sizes), numeric=numbers)
        self._counts = count_batch(empty, self._sizes)

    def add(self, batch: Batch, time: float | None = None) -> None:
        """Add records in order. ``time``: the time of all these records in seconds, required if the window has an age.

        Raises ParameterError if a required time is missing or not finite.
        """
        seconds = _seconds(time, self._age)
        if batch.size:
            self._batches.append(batch)
            self._times.append(np.full(batch.size, seconds))
            self._pending += batch.size
        if self._pending >= PENDING_RECORDS:
            self._count_pending()

    def counts(self) -> Counts:
        """Return the counts of the records in the window."""
        self._count_pending()
        return self._counts

    def __len__(self) -> int:
        """Return the number of records in the window."""
        return self.counts().records

    def _count_pending(self) -> None:
        """Update the counts by the pending records that enter the window, and by the records that leave it."""
        if self._pending:
            batch, times = _concatenate(self._batches), np.concatenate(self._times)
            was_live = np.concatenate((self._was_live, np.zeros(self._pending, dtype=np.bool_)))
            last, live = _last(times, self._records, self._age)
            entering, leaving = _select(batch, live & ~was_live), _select(batch, was_live & ~live)
            total = merge([_nominal(self._counts), _nominal(count_batch(entering, self._sizes))])
            remaining = subtract(total, _nominal(count_batch(leaving, self._sizes)))
            lengths = count_lengths(_select(batch, live))
            self._counts = replace(remaining, numeric=_moments(batch.numeric, live), lengths=lengths)
            self._keep(batch, times, live, last if self._records is not None else live)

    def _keep(self, batch: Batch, times: NDArray[np.float64], live: NDArray[np.bool_], kept: NDArray[np.bool_]) -> None:
        self._batches, self._times = [_select(batch, kept)], [times[kept]]
        self._was_live = live[kept]
        self._pending = 0


def _check_limits(records: int | None, age: float | None) -> None:
    if records is not None and records < 1:
        raise ParameterError(f"a window of {records} records is not allowed: use 1 or more, or None for no limit")
    if age is not None and not age > 0:
        raise ParameterError(f"a window age of {age} s is not allowed: use more than 0, or None for no limit")


def _seconds(time: float | None, age: float | None) -> float:
    if age is None:
        return 0.0
    if time is None or not math.isfinite(time):
        raise ParameterError("a window with an age needs the time of added records, in seconds")
    return float(time)


def _last(
    times: NDArray[np.float64], records: int | None, age: float | None
) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Return (n,) bool each: whether a record is among the last ``records``, and whether it is also not too old."""
    last = np.arange(len(times)) >= len(times) - (len(times) if records is None else records)
    live = last if age is None else last & (times >= times[last].max() - age)
    return last, live


def _nominal(counts: Counts) -> Counts:
    return replace(counts, numeric=None, lengths={})


def _moments(numbers: Float64Array | None, live: NDArray[np.bool_]) -> Moments | None:
    return None if numbers is None else Moments.of(numbers[live])


def _concatenate(batches: Sequence[Batch]) -> Batch:
    columns = zip(*(batch.columns for batch in batches), strict=True)
    numbers = [batch.numeric for batch in batches if batch.numeric is not None]
    return Batch(
        sum(batch.size for batch in batches),
        tuple(_concatenate_columns(parts) for parts in columns),
        numeric=np.concatenate(numbers) if numbers else None,
    )


def _concatenate_columns(parts: Sequence[Column]) -> Column:
    if not any(part.is_array for part in parts):
        return Column(np.concatenate([part.codes for part in parts]))
    elements, lengths = zip(*(_elements(part) for part in parts), strict=True)
    return _array(np.concatenate(elements), np.concatenate(lengths))


def _select(batch: Batch, chosen: NDArray[np.bool_]) -> Batch:
    numbers = None if batch.numeric is None else batch.numeric[chosen]
    return Batch(int(chosen.sum()), tuple(_select_column(column, chosen) for column in batch.columns), numeric=numbers)


def _select_column(column: Column, chosen: NDArray[np.bool_]) -> Column:
    if not column.is_array:
        return Column(column.codes[chosen])
    codes, lengths = _elements(column)
    return _array(codes[np.repeat(chosen, lengths)], lengths[chosen])


def _elements(column: Column) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    """Return the elements of an array column, and the number of elements of each record.

    A scalar column of absent values is an array column without elements.
    """
    offsets = column.offsets
    if offsets is None and not (column.codes >= 0).any():
        return column.codes[:0], np.zeros(len(column.codes), dtype=np.int64)
    if offsets is None:
        raise ParameterError("an attribute is an array in some batches and not in others")
    return column.codes[offsets[0] : offsets[-1]], np.diff(offsets)


def _array(codes: NDArray[np.int32], lengths: NDArray[np.int64]) -> Column:
    return Column(codes, offsets_from_lengths(lengths))
