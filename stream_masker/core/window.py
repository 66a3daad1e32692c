"""The sliding calibration window of one process."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from stream_masker.core.arrays import offsets_from_lengths
from stream_masker.core.batch import Batch, Column
from stream_masker.core.statistics.counts import NO_SLOT, Counts, count_batch
from stream_masker.errors import ParameterError

PENDING_RECORDS = 16_384
"""Records that left the window are removed once this number was added, so that adding single records is cheap."""


class SlidingWindow:
    """The last ``records`` added records."""

    def __init__(self, sizes: Sequence[int], *, records: int) -> None:
        """``sizes``: the number of concepts in the taxonomy of each attribute. ``records``: at least 1."""
        self._sizes, self._records = tuple(sizes), records
        self._batches = [Batch(0, tuple(Column(np.zeros(0, np.int32)) for _ in sizes))]
        self._pending = 0

    def add(self, batch: Batch) -> None:
        """Add records in order."""
        self._batches.append(batch)
        self._pending += batch.size
        if self._pending >= PENDING_RECORDS:
            self._kept()

    def counts(self) -> Counts:
        """Return the counts of the records in the window.

        Raises ParameterError if an attribute has lists in some batches, and single values in others.
        """
        return count_batch(self._kept(), self._sizes)

    def _kept(self) -> Batch:
        """Remove the records that have left the window, and return the others."""
        batch = joined(self._batches)
        batch = batch.take(np.arange(max(0, batch.size - self._records), batch.size))
        self._batches, self._pending = [batch], 0
        return batch


def joined(batches: Sequence[Batch]) -> Batch:
    """Return the records of several batches as one, without their units, and without fields.

    Records without slots among others get ``NO_SLOT``. Raises ParameterError for an attribute that is an array in some
    batches, and has scalars in others.
    """
    slots, contexts = None, [batch.context for batch in batches if batch.context is not None]
    if any(batch.slots is not None for batch in batches):
        slots = np.concatenate([np.full(b.size, NO_SLOT) if b.slots is None else b.slots for b in batches])
    return Batch(
        sum(batch.size for batch in batches),
        tuple(_joined_column(parts) for parts in zip(*(batch.columns for batch in batches), strict=True)),
        slots=slots,
        context=np.concatenate(contexts) if contexts else None,
    )


def _joined_column(parts: Sequence[Column]) -> Column:
    """Return the values of several columns; beside arrays, a scalar column of absent values has no elements."""
    if not any(part.is_array for part in parts):
        return Column(np.concatenate([part.codes for part in parts]))
    if any((part.codes >= 0).any() for part in parts if not part.is_array):
        raise ParameterError("an attribute is an array in some batches and not in others")
    lengths = np.concatenate([part.lengths if part.is_array else 0 * part.lengths for part in parts])
    codes = np.concatenate([part.codes if part.is_array else part.codes[:0] for part in parts])
    return Column(codes, offsets_from_lengths(lengths))
