"""The sliding window over the calibration topic, and when statistics are due. Pure decisions, without I/O.

The topic's single partition gives the order of the window. Everything here is a function of the blocks in that order: a
calibrator that restarts from the first block of the last published version reaches the same state.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain
from typing import Final, TypeAlias

from stream_masker.core.batch import Distortion
from stream_masker.core.statistics.counts import merge
from stream_masker.pipeline.messages import BlockRange
from stream_masker.pipeline.records import Block

GROUP_SHARE: Final = 0.01
"""A group of blocks is complete with this share of the window's records, or after this share of its age."""


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
    )


Partition: TypeAlias = tuple[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class CalibrationSettings:
    """The window's bounds, and when statistics are due.

    window_records, every_records, min_records: at least 1; window_age, every_seconds: seconds, above 0;
    min_new_records: the least number of new records of a version, so that no two versions differ by fewer.
    """

    window_records: int = 100_000
    window_age: float = 86_400.0
    every_records: int = 10_000
    every_seconds: float = 60.0
    min_records: int = 1_000
    min_new_records: int = 1


@dataclass(frozen=True)
class Window:
    """The blocks that statistics are computed from, at least one.

    range: from the offset of the first block to the topic's end at the time. A ``WindowLog`` of the blocks in this
    range has the same window.
    """

    blocks: tuple[Block, ...]
    range: BlockRange

    @cached_property
    def total(self) -> Block:
        """The sum of the blocks; its topic, partition and offsets mean nothing."""
        return merge_blocks(self.blocks)


@dataclass(slots=True)
class BlockGroup:
    """Consecutive blocks of the topic by partition, the first one at ``offset``, written at ``start``.

    Once the group is complete, the blocks of a partition are merged, so that a window needs memory for at most some
    hundred groups. latest: of the times of records. Times are in milliseconds.
    """

    offset: int
    start: int
    blocks: dict[Partition, list[Block]] = field(default_factory=dict)
    records: int = 0
    latest: float = -math.inf

    def add(self, block: Block, time: int) -> None:
        """Add a block; time: of its records."""
        self.blocks.setdefault(_partition(block), []).append(block)
        self.records += block.original.records
        self.latest = max(self.latest, time)

    def drop(self, later: Block) -> None:
        """Remove the blocks that count records of a later block."""
        own = self.blocks.get(_partition(later), [])
        kept = [b for b in own if b.last_offset < later.first_offset or later.last_offset < b.first_offset]
        if len(kept) < len(own):
            self.blocks[_partition(later)] = kept
            self.records -= sum(b.original.records for b in own) - sum(b.original.records for b in kept)

    def merge(self, latest: Mapping[Partition, Block]) -> None:
        """Merge the blocks of each partition, as far as offsets ascend, except for the partition's latest block of all.

        The transaction of the latest one may have been aborted: a later block then replaces it, and nothing else.
        """
        for partition, own in self.blocks.items():
            runs = list[list[Block]]()
            for block in own:
                if runs and block is not latest[partition] and runs[-1][-1].last_offset < block.first_offset:
                    runs[-1].append(block)
                else:
                    runs.append([block])
            self.blocks[partition] = list(map(merge_blocks, runs))


def _partition(block: Block) -> Partition:
    return block.topic, block.partition


class WindowLog:
    """The window over the blocks read so far, and when statistics are due.

    The window has whole groups of blocks: the latest ones that have ``window_records`` records or more together, the
    first of them not older than ``window_age`` before the latest time. A later block replaces the earlier ones that
    count the same records: their workers' transactions were aborted, or the input is masked again.

    Statistics are due after a block if ``every_records`` records of the window arrived since they were last due, and
    after ``every_seconds`` if any records arrived, but at least ``min_new_records``; never for a window of fewer than
    ``min_records``. since: the block range of the last version that has one; blocks up to its end only fill the window.
    first: there is no version of blocks yet, so statistics are due with ``min_records``.
    """

    def __init__(self, settings: CalibrationSettings, *, since: BlockRange | None = None, first: bool = True) -> None:
        self.settings = settings
        self.position = -1
        self.first = first
        self._published = -1 if since is None else since.last
        self._groups: list[BlockGroup] = []
        self._latest: dict[Partition, Block] = {}
        self._new = 0
        self._last_due: float | None = None

    @property
    def records(self) -> int:
        """The number of records in the window."""
        return sum(group.records for group in self._groups)

    def add(self, offset: int, written: int, block: Block) -> None:
        """Add a block; written: when the block was written, in milliseconds since the epoch.

        An offset that is not greater than the last one changes nothing. The time of the records is at most ``written``,
        so that a wrong clock cannot age other blocks; it is ``written`` if they have no timestamps.
        """
        if offset <= self.position:
            return
        self.position = offset
        for group in self._groups:
            group.drop(block)
        if not block.original.records:
            return
        if not self._groups or self._is_complete(self._groups[-1], written):
            self._groups.append(BlockGroup(offset, written))
        self._groups[-1].add(block, written if block.timestamp < 0 else min(block.timestamp, written))
        self._latest[_partition(block)] = block
        if self._is_complete(self._groups[-1], written):
            for group in self._groups:
                group.merge(self._latest)
        self._drop_oldest()
        if offset > self._published:
            self._new += block.original.records

    def due(self, now: float) -> Window | None:
        """Return the window if statistics are due at time ``now``, in seconds."""
        if self._last_due is None:
            self._last_due = now
        elapsed = now - self._last_due >= self.settings.every_seconds
        least = 1 if self.first else self.settings.min_new_records
        needed = least if elapsed or self.first else max(least, self.settings.every_records)
        if self._new < needed or self.records < self.settings.min_records:
            return None
        self._new, self._last_due, self.first = 0, now, False
        return self.window()

    def window(self) -> Window | None:
        """Return the current window; None while there is no block."""
        blocks = tuple(chain.from_iterable(own for group in self._groups for own in group.blocks.values()))
        return Window(blocks, BlockRange(self._groups[0].offset, self.position)) if blocks else None

    def _is_complete(self, group: BlockGroup, now: int) -> bool:
        records, age = self.settings.window_records, 1000 * self.settings.window_age
        return group.records >= GROUP_SHARE * records or now - group.start >= GROUP_SHARE * age

    def _drop_oldest(self) -> None:
        """Remove the groups that no window needs any more."""
        groups, records = self._groups, self.records
        oldest = max(group.latest for group in groups) - 1000 * self.settings.window_age
        needed = self.settings.window_records
        while len(groups) > 1 and (groups[0].latest < oldest or records - groups[0].records >= needed):
            records -= groups.pop(0).records
