"""The sliding calibration window of one process."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from stream_masker.core.batch import Batch, Column
from stream_masker.core.dtypes import Float64Array
from stream_masker.core.numeric import Moments
from stream_masker.core.statistics.counts import Counts, count_batch, merge, subtract
from stream_masker.errors import ParameterError

PENDING_RECORDS = 16_384
"""Up to this many added records wait before the window takes them in, so that adding one by one stays cheap."""


class SlidingWindow:
    """The last ``records`` records that came, less those older than ``age`` seconds before the newest of them. Mutable.

    A record that came late, with an old time, takes its place in the order but does not count; a time in the future
    hides older records only until it has left the window. ``counts()`` follows what came and what went, and equals
    ``count_batch`` over the records in the window, exactly. (Moments of numeric attributes are computed anew from the
    records in the window, as they cannot be subtracted exactly.)
    """

    def __init__(self, sizes: Sequence[int], *, records: int | None, age: float | None, numeric: int = 0) -> None:
        """``sizes``: concepts of each attribute's taxonomy; at most ``records`` and ``age`` seconds, None: no limit;
        ``numeric``: the number of numeric attributes."""
        _check_limits(records, age)
        self._sizes = tuple(sizes)
        self._records = records
        self._age = age
        self._batches: list[Batch] = []
        self._times: list[NDArray[np.float64]] = []
        self._counted = np.zeros(0, dtype=np.bool_)
        self._waiting = 0
        numbers = np.zeros((0, numeric)) if numeric else None
        nothing = Batch(0, tuple(Column(np.zeros(0, dtype=np.int32)) for _ in sizes), numeric=numbers)
        self._counts = count_batch(nothing, self._sizes)

    def add(self, batch: Batch, time: float | None = None) -> None:
        """Adds records, in order; ``time`` in seconds is that of all of them, required where the window has an age."""
        seconds = _seconds(time, self._age)
        if batch.size:
            self._batches.append(batch)
            self._times.append(np.full(batch.size, seconds))
            self._waiting += batch.size
        if self._waiting >= PENDING_RECORDS:
            self._settle()

    def counts(self) -> Counts:
        """The counts of the records in the window."""
        self._settle()
        return self._counts

    def __len__(self) -> int:
        """The number of records in the window."""
        return self.counts().records

    def _settle(self) -> None:
        """Takes in the waiting records, and counts what came and what went."""
        if self._waiting:
            batch, times = _concatenate(self._batches), np.concatenate(self._times)
            counted = np.concatenate((self._counted, np.zeros(self._waiting, dtype=np.bool_)))
            last, live = _last(times, self._records, self._age)
            came, went = _select(batch, live & ~counted), _select(batch, counted & ~live)
            added = merge([_nominal(self._counts), _nominal(count_batch(came, self._sizes))])
            left = subtract(added, _nominal(count_batch(went, self._sizes)))
            self._counts = replace(left, numeric=_moments(batch.numeric, live))
            self._hold(batch, times, live, last if self._records is not None else live)

    def _hold(self, batch: Batch, times: NDArray[np.float64], live: NDArray[np.bool_], kept: NDArray[np.bool_]) -> None:
        self._batches, self._times = [_select(batch, kept)], [times[kept]]
        self._counted = live[kept]
        self._waiting = 0


def _check_limits(records: int | None, age: float | None) -> None:
    if records is not None and records < 1:
        raise ParameterError(f"a window of {records} records is not allowed: use 1 or more, or None for no limit")
    if age is not None and not age > 0:
        raise ParameterError(f"a window age of {age} s is not allowed: use more than 0, or None for no limit")


def _seconds(time: float | None, age: float | None) -> float:
    if age is None:
        return 0.0
    if time is None or not math.isfinite(time):
        raise ParameterError("a window with an age needs the time of what is added, in seconds")
    return float(time)


def _last(
    times: NDArray[np.float64], records: int | None, age: float | None
) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """The last ``records`` of the records, and those of them that are not too old: (n,) bool each."""
    last = np.arange(len(times)) >= len(times) - (len(times) if records is None else records)
    live = last if age is None else last & (times >= times[last].max() - age)
    return last, live


def _nominal(counts: Counts) -> Counts:
    return replace(counts, numeric=None)


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
    """The elements of an array column, and how many each record has; of absent values alone, none."""
    offsets = column.offsets
    if offsets is None and not (column.codes >= 0).any():
        return column.codes[:0], np.zeros(len(column.codes), dtype=np.int64)
    if offsets is None:
        raise ParameterError("an attribute is an array in some batches and not in others")
    return column.codes[offsets[0] : offsets[-1]], np.diff(offsets)


def _array(codes: NDArray[np.int32], lengths: NDArray[np.int64]) -> Column:
    return Column(codes, np.concatenate((np.zeros(1, dtype=np.int64), np.cumsum(lengths))))
