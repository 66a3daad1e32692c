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

from stream_masker.core.arrays import offsets_from_lengths, ranges
from stream_masker.core.batch import Batch, Column, Distortion, unchanged_records
from stream_masker.core.random import Secret
from stream_masker.core.statistics.counts import Counts, count_batch, key_slots, merge
from stream_masker.core.window import joined
from stream_masker.pipeline.codec import RecordPart
from stream_masker.pipeline.reasons import RejectionCause
from stream_masker.pipeline.records import Block, Inputs, tallies
from stream_masker.pipeline.style import StyleCounts, add_styles

BLOCK_RECORDS: Final = 5_000
"""The maximum number of records in a block."""

MAX_COUNTED_ELEMENTS: Final = 256
"""The maximum number of counted array elements of a record, so that a single record cannot dominate a window."""

MAX_BLOCK_ROWS: Final = 20_000
"""The rows of a block, about: attributes and pairs of attributes times records. More are split, so that a block fits
into a message of Kafka's default size, 1 MB, even if it is not compressed."""


def limited(column: Column) -> Column:
    """Return a column with only the first ``MAX_COUNTED_ELEMENTS`` elements of each record's array."""
    if column.offsets is None or column.lengths.max(initial=0) <= MAX_COUNTED_ELEMENTS:
        return column
    kept = np.minimum(column.lengths, MAX_COUNTED_ELEMENTS)
    return Column(column.codes[ranges(column.offsets[:-1], kept)], offsets_from_lengths(kept))


@dataclass(frozen=True, slots=True)
class SampleCounts:
    """The counts of a sample.

    causes: the number of records that are not counted, by reason and configured path; styles: those of the codes of
    each attribute; the rest: see ``records.TALLIES``.
    """

    counts: Counts
    causes: Counter[RejectionCause]
    styles: Sequence[StyleCounts]
    emptied: Mapping[str, int]
    suppressed: Mapping[str, int]
    generalized: Mapping[str, int]

    @classmethod
    def joined(cls, parts: Sequence[SampleCounts]) -> SampleCounts:
        """Join the counts of all parts, at least one."""
        causes = sum((part.causes for part in parts), Counter[RejectionCause]())
        styles = add_styles(part.styles for part in parts)
        return cls(merge(part.counts for part in parts), causes, styles, **tallies(parts))


class BlockCounter:
    """Counts records. Each block has records of one partition."""

    def __init__(self, secret: Secret, sizes: Sequence[int]) -> None:
        """secret: from which the hashes of noise keys derive; sizes: the number of concepts of each taxonomy."""
        self._secret = secret
        self._sizes = sizes

    def count(self, part: RecordPart) -> Counts:
        """Return the counts of records before masking."""
        return count_batch(self._joined([part]), self._sizes)

    def with_slots(self, batch: Batch, keys: Sequence[bytes]) -> Batch:
        """Return a batch with the slots of its noise keys, if there are any."""
        return replace(batch, slots=key_slots(self._secret, keys)) if keys else batch

    def blocks(self, topic: str, partition: int, records: Inputs, parts: Sequence[RecordPart]) -> Iterator[Block]:
        """Yield the blocks of the parts that ``records`` were masked in, usually one.

        Distortions and styles are known only for whole parts: those of all are in the first block, which leaves their
        sums correct.
        """
        batch, attributes = self._joined(parts), range(len(self._sizes))
        masked = joined([Batch(part.batch.size, tuple(map(limited, part.masked.columns))) for part in parts])
        starts = accumulate((len(part.values) for part in parts), initial=0)
        indices = np.concatenate([part.indices + start for part, start in zip(parts, starts, strict=False)])
        distortions = [sum((part.masked.distortions[j] for part in parts), Distortion()) for j in attributes]
        styles = add_styles(part.styles for part in parts)
        for start, end in _ranges(batch, len(records)):
            rows = np.arange(*np.searchsorted(indices, [start, end]))
            before, after, has_sums = batch.take(rows), masked.take(rows), start == 0
            yield Block(
                topic=topic,
                partition=partition,
                first_offset=records.offsets[start],
                last_offset=records.offsets[end - 1],
                timestamp=max(records.timestamps[start:end]),
                original=count_batch(before, self._sizes),
                masked=count_batch(after, self._sizes),
                distortions=tuple(distortions if has_sums else [Distortion() for _ in attributes]),
                unchanged=int(np.count_nonzero(unchanged_records(before, after))),
                styles=tuple(styles if has_sums else [() for _ in styles]),
            )

    def _joined(self, parts: Sequence[RecordPart]) -> Batch:
        """Return the records of parts as one batch, with the slots of their noise keys."""
        counted = [replace(part.batch, columns=tuple(map(limited, part.batch.columns))) for part in parts]
        return self.with_slots(joined(counted), [key for part in parts for key in part.keys])


def _ranges(batch: Batch, size: int) -> Iterator[tuple[int, int]]:
    """Yield (start, end) of the records of each block; ``size``: the number of records, with those not in the batch."""
    attributes, elements = len(batch.columns), max((len(column.codes) for column in batch.columns), default=0)
    rows = elements * attributes * (attributes + 1) // 2
    blocks = max(1, -(-size // BLOCK_RECORDS), min(size, -(-rows // MAX_BLOCK_ROWS)))
    yield from pairwise(np.unique(np.linspace(0, size, blocks + 1).astype(np.int64)).tolist())


def merge_blocks(blocks: Sequence[Block]) -> Block:
    """Merge the blocks of one partition, at least one, into one block. It has the place of all of them together."""
    if len(blocks) == 1:
        return blocks[0]
    columns = zip(*(block.distortions for block in blocks), strict=True)
    return replace(
        blocks[0],
        first_offset=min(block.first_offset for block in blocks),
        last_offset=max(block.last_offset for block in blocks),
        timestamp=max(block.timestamp for block in blocks),
        original=merge(block.original for block in blocks),
        masked=merge(block.masked for block in blocks),
        distortions=tuple(sum(column, Distortion()) for column in columns),
        unchanged=sum(block.unchanged for block in blocks),
        styles=add_styles(block.styles for block in blocks),
    )
