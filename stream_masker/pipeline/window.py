"""The sliding window over the calibration topic, and when statistics are due. Pure decisions, without I/O.

The topic's single partition gives the order of the window. Everything here is a function of the blocks in that order: a
calibrator that restarts from the first block of the last published version reaches the same state.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final, TypeAlias

from stream_masker.pipeline.blocks import merge_blocks
from stream_masker.pipeline.messages import BlockRange
from stream_masker.pipeline.records import Block

GROUP_SHARE: Final = 0.01
"""A group of blocks is complete with this share of the window's records, or of its age."""

GROUP_BLOCKS: Final = 1_000
MAX_GROUPS: Final = 1_000
"""The most blocks of a group, and the most groups of a window, for blocks without records, which only reject some."""

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
    """The blocks that statistics are computed from, in the topic's order; at least one.

    range: from the offset of the first block to the topic's end at the time. A ``WindowLog`` of the blocks in this
    range has the same window.
    """

    blocks: tuple[Block, ...]
    range: BlockRange

    @property
    def records(self) -> int:
        return sum(block.original.records for block in self.blocks)

    @cached_property
    def total(self) -> Block:
        """The sum of the blocks. Its place has no meaning."""
        return merge_blocks(self.blocks)


@dataclass(slots=True)
class BlockGroup:
    """Consecutive blocks of the topic, the first one at ``offset``.

    While the group grows, each block stands by itself; in a complete one, the blocks of a partition are merged, except
    for its latest one, so that a window needs memory for at most some hundred groups.

    merged: the number of blocks that are in ``blocks``. earliest, latest: times of blocks in milliseconds.
    """

    offset: int
    blocks: list[Block] = field(default_factory=list)
    merged: int = 0
    records: int = 0
    earliest: float = math.inf
    latest: float = -math.inf
    complete: bool = False

    def add(self, block: Block, time: int) -> None:
        self.blocks.append(block)
        self.merged += 1
        self.records += block.original.records
        self.earliest, self.latest = min(self.earliest, time), max(self.latest, time)

    def close(self, latest: Mapping[Partition, Block]) -> None:
        """Merge the blocks of each partition, as far as their offsets ascend, except for its latest block.

        The transaction of the latest one may have been aborted: a later block then replaces it, and nothing else.
        """
        runs: list[list[Block]] = []
        last: dict[Partition, list[Block]] = {}
        for block in self.blocks:
            partition = _partition(block)
            run = last.get(partition)
            if run is None or run[-1].last_offset >= block.first_offset or latest.get(partition) is block:
                run = last[partition] = []
                runs.append(run)
            run.append(block)
        self.complete = True
        self.blocks = [merge_blocks(run) for run in runs]

    def drop(self, block: Block) -> None:
        """Remove the blocks that overlap a later one."""
        self.blocks = [other for other in self.blocks if not _overlaps(block, other)]
        self.records = sum(other.original.records for other in self.blocks)


def _partition(block: Block) -> Partition:
    return block.topic, block.partition


def _overlaps(block: Block, other: Block) -> bool:
    same = _partition(block) == _partition(other)
    return same and block.first_offset <= other.last_offset and other.first_offset <= block.last_offset


class WindowLog:
    """The window over the blocks read so far, and when statistics are due.

    The window has whole groups of blocks: the latest ones that have ``window_records`` records or more together, none
    of them older than ``window_age`` before the latest time. A later block replaces the earlier ones that count the
    same records: their workers' transactions were aborted, or the input is masked again.

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
        self._ends: dict[Partition, int] = {}
        self._latest: dict[Partition, Block] = {}
        self._new = 0
        self._last_due: float | None = None

    def add(self, offset: int, written: int, block: Block) -> None:
        """Add a block; written: when the block was written, in milliseconds since the epoch.

        An offset that is not greater than the last one changes nothing. The time of the records is at most ``written``,
        so that a wrong clock cannot age other blocks; it is ``written`` if they have no timestamps.
        """
        if offset <= self.position:
            return
        self.position = offset
        self._replace(block)
        if not self._groups or self._groups[-1].complete:
            self._groups.append(BlockGroup(offset))
        self._groups[-1].add(block, written if block.timestamp < 0 else min(block.timestamp, written))
        self._close_group()
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
        window = self.window() if self._new >= needed else None
        if window is None or window.records < self.settings.min_records:
            return None
        self._new, self._last_due, self.first = 0, now, False
        return window

    def window(self) -> Window | None:
        """Return the current window; None while there is no block."""
        groups = [group for group in self._groups if not self._is_old(group)]
        blocks = tuple(block for group in groups for block in group.blocks)
        if not blocks:
            return None
        merged = sum(group.merged for group in groups)
        return Window(blocks, BlockRange(self._groups[0].offset, self.position, merged))

    def _is_old(self, group: BlockGroup) -> bool:
        return group.latest < max(each.latest for each in self._groups) - 1000 * self.settings.window_age

    def _replace(self, block: Block) -> None:
        """Remove earlier blocks of the same records. Nothing overlaps a block after all others of its partition."""
        partition = _partition(block)
        if block.first_offset <= self._ends.get(partition, -1):
            for group in self._groups:
                group.drop(block)
        self._ends[partition] = max(block.last_offset, self._ends.get(partition, -1))
        self._latest[partition] = block

    def _close_group(self) -> None:
        group, settings = self._groups[-1], self.settings
        if (
            group.records >= GROUP_SHARE * settings.window_records
            or group.latest - group.earliest >= GROUP_SHARE * 1000 * settings.window_age
            or len(group.blocks) >= GROUP_BLOCKS
        ):
            for each in self._groups[-2:]:
                each.close(self._latest)

    def _drop_oldest(self) -> None:
        """Remove the groups that no window needs any more."""
        groups = self._groups
        records = sum(group.records for group in groups)
        while len(groups) > 1 and (
            self._is_old(groups[0])
            or not groups[0].blocks
            or len(groups) > MAX_GROUPS
            or records - groups[0].records >= self.settings.window_records
        ):
            records -= groups.pop(0).records
