"""The records that a block counts: the parts of a run that fit into a message, and the strata of a sample.

A statistics version carries the level from which records are counted (``calibration.sampling``). A block then counts
one *stratum* of a run: the records of one level, or of the last stratum's level and all above. A reader that needs a
lower rate leaves out the strata of lower levels: what remains is exactly the sample of that rate.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass, field, replace
from itertools import pairwise
from typing import Final

import numpy as np

from stream_masker.core.batch import Batch, Column, Distortion, MaskedBatch
from stream_masker.core.dtypes import Int64Array
from stream_masker.pipeline.calibration.sampling import MAX_LEVEL
from stream_masker.pipeline.records import Rejected, Stratum
from stream_masker.pipeline.style import StyleCounts

MAX_BLOCK_BYTES: Final = 900_000
"""The target size of a block's JSON. By default, brokers and clients accept messages of up to 1 MB."""

VALUE_BYTES: Final = 52
"""Bytes of a row for each attribute, before and after masking, if no value repeats: a concept id and a count each, and
the slot of a noise key."""

PAIR_BYTES: Final = 32
"""Bytes of a row for each pair of attributes, before and after masking: two indices and a count each, and the slot of
a noise key."""


MAX_COUNTED_ELEMENTS: Final = 256
"""The maximum number of counted array elements of a record, so that a single record cannot dominate a window."""


@dataclass(frozen=True, slots=True)
class CountedRecords:
    """n records, as blocks count them.

    batch, masked: before and after masking, of the records ``indices`` (ascending); rejected: by index; unknown: for
    each attribute the number of values without a concept; lost: the number of those that are not in the batch; styles:
    those of the original codes of each attribute; noise_keys: n noise keys, None if the noise is by position; keys:
    (n,) their hashes (``statistics.units``), once they are needed: 0 for records that no block counts.
    """

    batch: Batch
    masked: MaskedBatch
    indices: Int64Array
    rejected: Mapping[int, Rejected]
    unknown: Sequence[int]
    lost: Sequence[int]
    styles: Sequence[StyleCounts] = ()
    noise_keys: Sequence[bytes] | None = None
    keys: Int64Array | None = None


def limit_elements(columns: Sequence[Column]) -> tuple[Column, ...]:
    """Return the columns with only the first ``MAX_COUNTED_ELEMENTS`` elements of each record's array."""
    return tuple(map(_limited, columns))


def _limited(column: Column) -> Column:
    if column.offsets is None:
        return column
    lengths = np.diff(column.offsets)
    if lengths.max(initial=0) <= MAX_COUNTED_ELEMENTS:
        return column
    kept = np.minimum(lengths, MAX_COUNTED_ELEMENTS)
    offsets = np.concatenate(([0], np.cumsum(kept)))
    places = np.arange(offsets[-1]) + np.repeat(column.offsets[:-1] - offsets[:-1], kept)
    return Column(column.codes[places], offsets)


def split_into_blocks(counted: CountedRecords, size: int) -> Iterator[tuple[int, int, CountedRecords]]:
    """Yield (start, end, slice) of the ``size`` records for each block; usually there is one block.

    Distortions, numbers of unknown values and styles are known only for all records together. They are counted in the
    first block, which leaves the sums over all blocks correct. A single record is never split.
    """
    blocks = _number_of_blocks(counted)
    if blocks <= 1 or size <= 1:
        yield 0, size, counted
        return
    bounds = np.unique(np.linspace(0, size, min(blocks, size) + 1).astype(np.int64)).tolist()
    for start, end in pairwise(bounds):
        yield start, end, slice_counted(counted, start, end)


def _number_of_blocks(counted: CountedRecords) -> int:
    attributes = len(counted.batch.columns)
    row = VALUE_BYTES * attributes + PAIR_BYTES * attributes * (attributes - 1) // 2
    row = row if counted.batch.context is None else row * 3 // 2
    rows = max((len(column.codes) for column in counted.batch.columns), default=0)
    fields = VALUE_BYTES * len(counted.batch.rolled) * counted.batch.size
    return -(-(rows * row + fields) // MAX_BLOCK_BYTES)


def slice_counted(counted: CountedRecords, start: int, end: int) -> CountedRecords:
    """Return the records ``start`` to ``end`` (exclusive).

    Only a slice from 0 has distortions, unknown values and styles.
    """
    first, last = np.searchsorted(counted.indices, [start, end]).tolist()
    rows, distortions = np.arange(first, last), counted.masked.distortions
    return CountedRecords(
        counted.batch.take(rows),
        masked_rows(counted.masked, rows, distortions if start == 0 else (Distortion(),) * len(distortions)),
        counted.indices[first:last] - start,
        {index - start: one for index, one in counted.rejected.items() if start <= index < end},
        counted.unknown if start == 0 else [0] * len(counted.unknown),
        counted.lost if start == 0 else [0] * len(counted.lost),
        counted.styles if start == 0 else [StyleCounts()] * len(counted.styles),
        None if counted.noise_keys is None else counted.noise_keys[first:last],
        None if counted.keys is None else counted.keys[first:last],
    )


def masked_rows(masked: MaskedBatch, rows: Int64Array, distortions: tuple[Distortion, ...]) -> MaskedBatch:
    """Return the masked records with these indices, in their order, with other distortions."""
    numbers = None if masked.numeric is None else masked.numeric[rows]
    return MaskedBatch(tuple(column.take(rows) for column in masked.columns), distortions, numbers)


STRATA: Final = 4
"""The number of strata of a run. A window that outgrows the rate of its blocks this many times over loses the oldest
ones of them."""


@dataclass(frozen=True, slots=True)
class Sampling:
    """The sampling of a statistics version.

    level: records of this level or more are counted from now on. rate: that of the version's window, in (0, 1]; span:
    the time between its oldest and latest block, in seconds. variance_errors, correlation_errors: the standard errors
    of sVar by attribute and of sdCor by pair that follow from the sampling; empty if the window is not a sample.
    """

    level: int
    rate: float = 1.0
    span: float = 0.0
    variance_errors: Mapping[str, float] = field(default_factory=dict)
    correlation_errors: Mapping[tuple[str, str], float] = field(default_factory=dict)


def next_sampling_level(
    records: int, level: int | None, span: float, *, window_records: int, window_age: float, period: float
) -> int:
    """Return the level from which records should be counted, so that the window does not overflow before the next
    version.

    records, level, span: those of the present window; its records and its span in seconds give the rate of the stream.
    At the next version, the window spans at most twice as much, or the ``period`` in seconds between versions, but not
    more than ``window_age``. The result is one level lower than needed, so that the next window can also have a higher
    rate.
    """
    stream = records * 2.0 ** (level or 0) / max(span, 1.0)
    ahead = min(window_age, max(2 * span, period))
    needed = math.ceil(math.log2(max(1.0, stream * ahead / window_records)))
    return min(MAX_LEVEL - STRATA, max(needed, level or 0, 1) - 1)


def strata(counted: CountedRecords, levels: Int64Array, level: int) -> Iterator[tuple[Stratum, CountedRecords]]:
    """Yield the strata of a run from a level on, without empty ones; ``levels``: (n,) those of all its records.

    Sums that are known only for the run as a whole (distortions, unknown values, styles) are scaled to the stratum's
    share of the records. The scaled numbers are rounded at random, with the right mean, by the stratum's place in the
    run.
    """
    last = level + STRATA - 1
    stratum_of = np.minimum(levels, last)
    for one in range(level, last + 1):
        rows = np.flatnonzero(stratum_of[counted.indices] == one)
        rejected = {index: reason for index, reason in counted.rejected.items() if stratum_of[index] == one}
        if rows.size or rejected:
            yield Stratum(level, one), chosen_records(counted, rows, rejected)


def chosen_records(counted: CountedRecords, rows: Int64Array, rejected: Mapping[int, Rejected]) -> CountedRecords:
    """Return the records at some rows of the batch, ascending, with their shares of the sums of the run.

    ``rejected``: the rejections that are counted with them.
    """
    share = _Share(len(rows), counted.batch.size, counted.indices[rows])
    batch = counted.batch.take(rows)
    lost = [share.integer(number) for number in counted.lost]
    given = [int(np.count_nonzero(c.codes >= 0)) + more for c, more in zip(batch.columns, lost, strict=True)]
    return replace(
        counted,
        batch=batch,
        masked=masked_rows(counted.masked, rows, tuple(map(share.distortion, counted.masked.distortions))),
        indices=counted.indices[rows],
        rejected=rejected,
        unknown=[min(share.integer(n), most) for n, most in zip(counted.unknown, given, strict=True)],
        lost=lost,
        styles=[StyleCounts(*map(share.integer, astuple(one))) for one in counted.styles],
        keys=None if counted.keys is None else counted.keys[rows],
    )


class _Share:
    """The share of a sum for ``part`` of ``whole`` records, rounded by a number of the chosen ``indices``."""

    def __init__(self, part: int, whole: int, indices: Int64Array) -> None:
        self._share = part / max(whole, 1)
        self._up = np.random.default_rng(indices[:1]).random() if part else 0.0

    def integer(self, number: int) -> int:
        return math.floor(number * self._share + self._up)

    def distortion(self, one: Distortion) -> Distortion:
        """Return the share of the values, with the mean distortion of all of them."""
        values = self.integer(one.values)
        share = values / max(one.values, 1)
        return Distortion(
            values=values,
            squared_distance=one.squared_distance * share,
            squared_noise=one.squared_noise * share,
            truncated=min(values, round(one.truncated * share)),
            unsigned=min(values, round(one.unsigned * share)),
            unchanged=min(values, round(one.unchanged * share)),
        )
