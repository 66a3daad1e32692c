"""Counting of masked records in blocks: absolute counts of a run of records of one partition.

A block is keyed by topic, partition and first offset. It states what the records *are*, not what changed, so merging it
twice changes nothing, and a later block replaces an earlier one that overlaps.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Final

import numpy as np

from stream_masker.core.arrays import offsets_from_lengths
from stream_masker.core.batch import Batch, Column, Distortion, MaskedBatch, unchanged_records
from stream_masker.core.dtypes import Int64Array
from stream_masker.core.random import Secret
from stream_masker.core.statistics.counts import Counts, count_batch, key_hashes, key_slots, merge
from stream_masker.pipeline.codec import DecodedBatch
from stream_masker.pipeline.reasons import RejectionCause, RejectionCauses
from stream_masker.pipeline.records import Block, Inputs, Rejected, rejected_part
from stream_masker.pipeline.style import StyleCounts, add_styles

BLOCK_RECORDS: Final = 5_000
"""The maximum number of records in a block."""

MAX_COUNTED_ELEMENTS: Final = 256
"""The maximum number of counted array elements of a record, so that a single record cannot dominate a window."""

MAX_BLOCK_ROWS: Final = 20_000
"""The rows of a block, about: attributes and pairs of attributes times records. More are split, so that a block fits
into a message of Kafka's default size, 1 MB, even if it is not compressed."""


@dataclass(frozen=True, slots=True)
class MaskedRecords:
    """n consecutive records after masking: what is written of them, and what blocks count.

    batch, masked: before and after masking, of the records ``indices`` (ascending); values, keys: those to write, None
    for tombstones and rejected records; rejected: by index; unknown: for each attribute the number of values without a
    concept; lost: the number of those that are not in the batch; styles: those of the original codes of each attribute;
    emptied: the number of values that a transform removed, by path; noise_keys: empty if the noise is by position.
    """

    batch: Batch
    masked: MaskedBatch
    indices: Int64Array
    values: Sequence[bytes | None]
    keys: Sequence[bytes | None]
    rejected: Mapping[int, Rejected]
    unknown: Sequence[int]
    lost: Sequence[int]
    styles: Sequence[StyleCounts] = ()
    emptied: Mapping[str, int] = field(default_factory=dict)
    noise_keys: Sequence[bytes] = ()

    @classmethod
    def joined(cls, parts: Sequence[MaskedRecords]) -> MaskedRecords:
        """Return consecutive records that were masked in parts, at least one."""
        starts = np.cumsum([0, *(len(part.values) for part in parts)]).tolist()
        columns = _joined_columns([part.batch.columns for part in parts])
        contexts = [part.batch.context for part in parts if part.batch.context is not None]
        context = np.concatenate(contexts) if contexts else None
        distortions = zip(*(part.masked.distortions for part in parts), strict=True)
        return cls(
            Batch(sum(part.batch.size for part in parts), columns, context=context),
            MaskedBatch(
                _joined_columns([part.masked.columns for part in parts]),
                tuple(sum(each, Distortion()) for each in distortions),
            ),
            np.concatenate([part.indices + start for part, start in zip(parts, starts, strict=False)]),
            [value for part in parts for value in part.values],
            [key for part in parts for key in part.keys],
            {start + k: one for start, part in zip(starts, parts, strict=False) for k, one in part.rejected.items()},
            np.sum([part.unknown for part in parts], axis=0).tolist(),
            np.sum([part.lost for part in parts], axis=0).tolist(),
            add_styles(part.styles for part in parts),
            sum((Counter(part.emptied) for part in parts), Counter[str]()),
            [key for part in parts for key in part.noise_keys],
        )

    def part(self, start: int, end: int) -> MaskedRecords:
        """Return the records ``start`` to ``end`` (exclusive).

        Distortions, styles and numbers of unknown and emptied values are known only for all records together: a part
        from 0 has all of them, and any other has none, which leaves their sums correct.
        """
        first, last = np.searchsorted(self.indices, [start, end]).tolist()
        rows, zeros, whole = np.arange(first, last), [0] * len(self.unknown), start == 0
        distortions = self.masked.distortions if whole else (Distortion(),) * len(self.unknown)
        return MaskedRecords(
            self.batch.take(rows),
            MaskedBatch(tuple(column.take(rows) for column in self.masked.columns), distortions),
            self.indices[first:last] - start,
            self.values[start:end],
            self.keys[start:end],
            rejected_part(self.rejected, start, end),
            self.unknown if whole else zeros,
            self.lost if whole else zeros,
            self.styles if whole else [StyleCounts()] * len(self.styles),
            self.emptied if whole else {},
            self.noise_keys[first:last],
        )

    def blocks(self) -> Iterator[tuple[int, int, MaskedRecords]]:
        """Yield (start, end, records) of each block; usually there is one."""
        attributes, size = len(self.batch.columns), len(self.values)
        elements = max((len(column.codes) for column in self.batch.columns), default=0)
        rows = elements * attributes * (attributes + 1) // 2
        blocks = max(1, -(-size // BLOCK_RECORDS), min(size, -(-rows // MAX_BLOCK_ROWS)))
        for start, end in pairwise(np.unique(np.linspace(0, size, blocks + 1).astype(np.int64)).tolist()):
            yield start, end, self.part(start, end)


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

    @classmethod
    def joined(cls, parts: Sequence[SampleCounts]) -> SampleCounts:
        """Join the counts of all parts, at least one."""
        causes = sum((Counter(part.causes) for part in parts), Counter[RejectionCause]())
        return cls(merge(part.counts for part in parts), dict(causes), add_styles(part.styles for part in parts))


class BlockCounter:
    """Counts records. Each block has records of one partition."""

    def __init__(self, secret: Secret, sizes: Sequence[int]) -> None:
        """secret: from which the hashes of noise keys derive; sizes: the number of concepts of each taxonomy."""
        self._secret = secret
        self._sizes = sizes

    def count(self, decoded: DecodedBatch) -> Counts:
        """Return the counts of decoded records."""
        batch = replace(decoded.batch, columns=tuple(map(limited, decoded.batch.columns)))
        return count_batch(self.with_slots(batch, decoded.keys), self._sizes, decoded.unknown, decoded.lost)

    def with_slots(self, batch: Batch, keys: Sequence[bytes]) -> Batch:
        """Return a batch with the slots of its noise keys, if there are any."""
        return replace(batch, slots=key_slots(key_hashes(self._secret, keys))) if keys else batch

    def blocks(self, topic: str, partition: int, version: int, records: Inputs, masked: MaskedRecords) -> list[Block]:
        """Return the blocks of masked records, at least one. ``records``: their input."""
        return [
            Block(
                topic=topic,
                partition=partition,
                first_offset=records.offsets[start],
                last_offset=records.offsets[end - 1],
                timestamp=max(records.timestamps[start:end]),
                statistics_version=version,
                original=count_batch(
                    self.with_slots(part.batch, part.noise_keys), self._sizes, part.unknown, part.lost
                ),
                masked=count_batch(Batch(part.batch.size, part.masked.columns), self._sizes),
                distortions=part.masked.distortions,
                rejected=dict(Counter(one.reason for one in part.rejected.values())),
                unchanged=int(np.count_nonzero(unchanged_records(part.batch, part.masked))),
                styles=tuple(part.styles),
            )
            for start, end, part in masked.blocks()
        ]


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
