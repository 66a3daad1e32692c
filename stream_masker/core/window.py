"""The sliding calibration window of one process."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from stream_masker.core.arrays import offsets_from_lengths
from stream_masker.core.batch import Batch, Column
from stream_masker.core.dtypes import Float64Array
from stream_masker.core.statistics.counts import NO_SLOT, Counts, count_batch
from stream_masker.errors import ParameterError

PENDING_RECORDS = 16_384
"""Records that left the window are removed once this number was added, so that adding single records is cheap."""


class SlidingWindow:
    """The last ``records`` added records, except those more than ``age`` seconds older than the newest of them.

    A late record, with an old time, takes one of the ``records`` places but is not counted. A time in the future
    excludes older records only as long as its record is among the last ``records``.
    """

    def __init__(self, sizes: Sequence[int], *, records: int | None, age: float | None) -> None:
        """``sizes``: the number of concepts in the taxonomy of each attribute. ``records``, ``age`` (in seconds): None
        for no limit.
        """
        self._sizes = tuple(sizes)
        self._records = records
        self._age = age
        self._batches = [Batch(0, tuple(Column(np.zeros(0, dtype=np.int32)) for _ in sizes))]
        self._times: list[Float64Array] = [np.zeros(0)]
        self._pending = 0
        self._counts: Counts | None = None

    def add(self, batch: Batch, time: float | None = None) -> None:
        """Add records in order. ``time``: the time of all these records in seconds, required if the window has an age.

        Raises ParameterError if a required time is missing or not finite.
        """
        seconds = _seconds(time, self._age)
        if batch.size:
            self._batches.append(batch)
            self._times.append(np.full(batch.size, seconds))
            self._pending += batch.size
            self._counts = None
        if self._pending >= PENDING_RECORDS:
            self._forget()

    def counts(self) -> Counts:
        """Return the counts of the records in the window."""
        if self._counts is None:
            live = self._forget()
            self._counts = count_batch(self._batches[0].take(np.flatnonzero(live)), self._sizes)
        return self._counts

    def __len__(self) -> int:
        """Return the number of records in the window."""
        return self.counts().records

    def _forget(self) -> NDArray[np.bool_]:
        """Remove the records that have left the window. Return whether each of the others is counted, (n,) bool."""
        batch, times = joined(self._batches), np.concatenate(self._times)
        last, live = _last(times, self._records, self._age)
        kept = live if self._records is None else last
        self._batches, self._times = [batch.take(np.flatnonzero(kept))], [times[kept]]
        self._pending = 0
        return live[kept]


def _seconds(time: float | None, age: float | None) -> float:
    if time is not None and not isinstance(time, int | float):
        raise ParameterError(f"time is of type {type(time).__name__}: use seconds as a number")
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
    live = last if age is None else last & (times >= times[last].max(initial=-math.inf) - age)
    return last, live


def joined(batches: Sequence[Batch]) -> Batch:
    """Return the records of several batches as one, without their units, and without fields."""
    columns = zip(*(batch.columns for batch in batches), strict=True)
    contexts = [batch.context for batch in batches if batch.context is not None]
    return Batch(
        sum(batch.size for batch in batches),
        tuple(_concatenate_columns(parts) for parts in columns),
        slots=_joined_slots(batches),
        context=np.concatenate(contexts) if contexts else None,
    )


def _joined_slots(batches: Sequence[Batch]) -> NDArray[np.int64] | None:
    """Return the slots of the records, ``NO_SLOT`` for those without; None if no batch has any."""
    if all(batch.slots is None for batch in batches):
        return None
    return np.concatenate([np.full(b.size, NO_SLOT) if b.slots is None else b.slots for b in batches])


def _concatenate_columns(parts: Sequence[Column]) -> Column:
    if not any(part.is_array for part in parts):
        return Column(np.concatenate([part.codes for part in parts]))
    elements, lengths = zip(*(_elements(part) for part in parts), strict=True)
    return _array(np.concatenate(elements), np.concatenate(lengths))


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
