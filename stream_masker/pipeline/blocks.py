"""Counting of masked records in blocks: absolute counts of a run of records of one partition.

A block is keyed by topic, partition and first offset. It states what the records *are*, not what changed, so merging it
twice changes nothing, and a later block replaces an earlier one that overlaps.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise
from typing import Final

import numpy as np

from stream_masker.core.arrays import offsets_from_lengths
from stream_masker.core.batch import Batch, Column, Distortion, MaskedBatch, unchanged_records
from stream_masker.core.dtypes import Int64Array
from stream_masker.core.random import Secret
from stream_masker.core.statistics.counts import Counts, count_batch, key_hashes, key_slots, merge
from stream_masker.pipeline.codec import DecodedBatch
from stream_masker.pipeline.reasons import RejectionCause, RejectionCauses, by_reason
from stream_masker.pipeline.records import Block, Header, Inputs, Rejected
from stream_masker.pipeline.style import StyleCounts, add_styles

BLOCK_RECORDS: Final = 5_000
"""The maximum number of records in a block."""

MAX_COUNTED_ELEMENTS: Final = 256
"""The maximum number of counted array elements of a record, so that a single record cannot dominate a window."""

MAX_BLOCK_ROWS: Final = 20_000
"""The rows of a block, about: attributes and pairs of attributes times records. More are split, so that a block fits
into a message of Kafka's default size, 1 MB, even if it is not compressed."""


@dataclass(frozen=True, slots=True)
class Run:
    """Consecutive records of one partition that are counted in one block; ``stamp``: the headers of their masks."""

    topic: str
    partition: int
    records: Inputs
    statistics_version: int
    stamp: list[Header]

    def split(self) -> Iterator[Run]:
        """Yield the run as runs of at most ``BLOCK_RECORDS`` records."""
        for start in range(0, max(len(self.records), 1), BLOCK_RECORDS):
            yield replace(self, records=self.records.part(start, start + BLOCK_RECORDS))


def spans(runs: Sequence[Run]) -> Iterator[tuple[Run, tuple[int, int]]]:
    """Yield each run, with the start and end of its records among those of all runs."""
    return zip(runs, pairwise(accumulate((len(run.records) for run in runs), initial=0)), strict=True)


@dataclass(frozen=True, slots=True)
class MaskedPart:
    """Masked records: what was decoded, the masks, and the values to write, None for those without."""

    decoded: DecodedBatch
    masked: MaskedBatch
    values: list[bytes | None]


@dataclass(frozen=True, slots=True)
class CountedRecords:
    """n records, as blocks count them.

    batch, masked: before and after masking, of the records ``indices`` (ascending); rejected: by index; unknown: for
    each attribute the number of values without a concept; lost: the number of those that are not in the batch; styles:
    those of the original codes of each attribute; noise_keys: n noise keys, None if the noise is by position.
    """

    batch: Batch
    masked: MaskedBatch
    indices: Int64Array
    rejected: Mapping[int, Rejected]
    unknown: Sequence[int]
    lost: Sequence[int]
    styles: Sequence[StyleCounts] = ()
    noise_keys: Sequence[bytes] | None = None

    @classmethod
    def of(cls, parts: Sequence[MaskedPart], *, has_keys: bool) -> CountedRecords:
        """Return consecutive records that were masked in parts."""
        starts = np.cumsum([0, *(len(part.values) for part in parts)]).tolist()
        decoded, masked = [part.decoded for part in parts], [part.masked for part in parts]
        contexts = [one.batch.context for one in decoded if one.batch.context is not None]
        columns = _joined_columns([one.batch.columns for one in decoded])
        size = sum(one.batch.size for one in decoded)
        return cls(
            Batch(size, columns, context=np.concatenate(contexts) if contexts else None),
            MaskedBatch(
                _joined_columns([one.columns for one in masked]),
                tuple(sum(each, Distortion()) for each in zip(*(one.distortions for one in masked), strict=True)),
            ),
            np.concatenate([one.indices + start for one, start in zip(decoded, starts, strict=False)]),
            {start + k: one for start, part in zip(starts, decoded, strict=False) for k, one in part.rejected.items()},
            np.sum([one.unknown for one in decoded], axis=0).tolist(),
            np.sum([one.lost for one in decoded], axis=0).tolist(),
            add_styles(one.styles for one in decoded),
            [key for one in decoded for key in one.keys] if has_keys else None,
        )

    def part(self, start: int, end: int) -> CountedRecords:
        """Return the records ``start`` to ``end`` (exclusive).

        Distortions, numbers of unknown values and styles are known only for all records together: a part from 0 has all
        of them, and any other has none, which leaves their sums correct.
        """
        first, last = np.searchsorted(self.indices, [start, end]).tolist()
        rows, zeros, whole = np.arange(first, last), [0] * len(self.unknown), start == 0
        distortions = self.masked.distortions if whole else (Distortion(),) * len(self.unknown)
        return CountedRecords(
            self.batch.take(rows),
            MaskedBatch(tuple(column.take(rows) for column in self.masked.columns), distortions),
            self.indices[first:last] - start,
            {index - start: one for index, one in self.rejected.items() if start <= index < end},
            self.unknown if whole else zeros,
            self.lost if whole else zeros,
            self.styles if whole else [StyleCounts()] * len(self.styles),
            None if self.noise_keys is None else self.noise_keys[first:last],
        )


def _joined_columns(parts: Sequence[Sequence[Column]]) -> tuple[Column, ...]:
    """Join the columns of several batches; of each array, only the elements that are counted."""
    return tuple(_joined(list(map(limited, columns))) for columns in zip(*parts, strict=True))


def _joined(columns: Sequence[Column]) -> Column:
    codes = np.concatenate([column.codes for column in columns])
    if columns[0].offsets is None:
        return Column(codes)
    return Column(codes, np.cumsum([0, *np.concatenate([column.lengths for column in columns])]))


def limited(column: Column) -> Column:
    """Return a column with only the first ``MAX_COUNTED_ELEMENTS`` elements of each record's array."""
    if column.offsets is None or column.lengths.max(initial=0) <= MAX_COUNTED_ELEMENTS:
        return column
    kept = np.minimum(column.lengths, MAX_COUNTED_ELEMENTS)
    offsets = offsets_from_lengths(kept)
    places = np.arange(offsets[-1]) + np.repeat(column.offsets[:-1] - offsets[:-1], kept)
    return Column(column.codes[places], offsets)


@dataclass(frozen=True, slots=True)
class SampleCounts:
    """The counts of a sample.

    causes: the number of records that are not counted, by reason and configured path; styles: those of the codes of
    each attribute.
    """

    counts: Counts
    causes: RejectionCauses
    styles: tuple[StyleCounts, ...]

    @property
    def rejected(self) -> dict[str, int]:
        """The number of records that are not counted, by reason."""
        return by_reason(self.causes)

    @classmethod
    def joined(cls, parts: Sequence[SampleCounts]) -> SampleCounts:
        """Join the counts of all parts, at least one."""
        causes = sum((Counter(part.causes) for part in parts), Counter[RejectionCause]())
        return cls(merge(part.counts for part in parts), dict(causes), add_styles(part.styles for part in parts))


class BlockCounter:
    """Counts the records of runs in blocks. Each run belongs to one partition."""

    def __init__(self, secret: Secret, sizes: Sequence[int]) -> None:
        """secret: from which the hashes of noise keys derive; sizes: the number of concepts of each taxonomy."""
        self._secret = secret
        self._sizes = sizes

    def count(self, decoded: DecodedBatch) -> Counts:
        """Return the counts of decoded records."""
        batch = replace(self.with_slots(decoded), columns=tuple(map(limited, decoded.batch.columns)))
        return count_batch(batch, self._sizes, decoded.unknown, decoded.lost)

    def with_slots(self, decoded: DecodedBatch) -> Batch:
        """Return the batch of decoded records with the slots of their noise keys."""
        return self._slotted(decoded.batch, decoded.keys or None)

    def blocks(
        self, records: Inputs, counted: CountedRecords, *, topic: str, partition: int, statistics_version: int
    ) -> list[Block]:
        """Return the blocks of a run; usually one. ``records``: those of the run, at least one."""
        return [
            Block(
                topic=topic,
                partition=partition,
                first_offset=records.offsets[start],
                last_offset=records.offsets[end - 1],
                timestamp=max(records.timestamps[start:end]),
                statistics_version=statistics_version,
                original=count_batch(self._slotted(part.batch, part.noise_keys), self._sizes, part.unknown, part.lost),
                masked=count_batch(Batch(part.batch.size, part.masked.columns), self._sizes),
                distortions=part.masked.distortions,
                rejected=dict(Counter(one.reason for one in part.rejected.values())),
                unchanged=int(np.count_nonzero(unchanged_records(part.batch, part.masked))),
                styles=tuple(part.styles),
            )
            for start, end, part in split_into_blocks(counted, len(records))
        ]

    def _slotted(self, batch: Batch, keys: Sequence[bytes] | None) -> Batch:
        return batch if keys is None else replace(batch, slots=key_slots(key_hashes(self._secret, keys)))


def split_into_blocks(counted: CountedRecords, size: int) -> Iterator[tuple[int, int, CountedRecords]]:
    """Yield (start, end, part) of the ``size`` records for each block; usually there is one block."""
    attributes = len(counted.batch.columns)
    rows = max((len(column.codes) for column in counted.batch.columns), default=0)
    blocks = min(size, -(-rows * attributes * (attributes + 1) // 2 // MAX_BLOCK_ROWS))
    for start, end in pairwise(np.unique(np.linspace(0, size, max(blocks, 1) + 1).astype(np.int64)).tolist()):
        yield start, end, counted.part(start, end)


def merge_blocks(blocks: Sequence[Block]) -> Block:
    """Merge the blocks of consecutive records of one partition, at least one, into one block."""
    if len(blocks) == 1:
        return blocks[0]
    columns = zip(*(block.distortions for block in blocks), strict=True)
    return replace(
        blocks[0],
        last_offset=blocks[-1].last_offset,
        timestamp=max(block.timestamp for block in blocks),
        original=merge(block.original for block in blocks),
        masked=merge(block.masked for block in blocks),
        distortions=tuple(sum(column, Distortion()) for column in columns),
        rejected=dict(sum((Counter(block.rejected) for block in blocks), Counter[str]())),
        unchanged=sum(block.unchanged for block in blocks),
        styles=add_styles(block.styles for block in blocks),
    )
