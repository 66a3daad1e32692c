"""The sliding window over the calibration topic, and when statistics are due. Pure decisions, without I/O.

The topic's single partition gives the order of the window. Everything here is a function of the blocks in that order: a
calibrator that restarts from the first block of the last published version reaches the same state.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property
from itertools import pairwise
from typing import Final, TypeAlias

from stream_masker.core.batch import Distortion
from stream_masker.core.statistics.counts import Counts, merge
from stream_masker.errors import ParameterError
from stream_masker.pipeline.blocks import merge_blocks
from stream_masker.pipeline.messages import BlockRange
from stream_masker.pipeline.records import Block
from stream_masker.pipeline.style import StyleCounts, add_styles

NO_TIME: Final = -1
"""The time of a block whose records have no timestamps. It never becomes too old; only newer records displace it."""

GROUP_SHARE: Final = 0.01
"""A group of blocks is complete with this share of the window's records, or of its age."""

GROUP_BLOCKS: Final = 1_000
MAX_GROUPS: Final = 1_000
"""The most blocks of a group, and the most groups of a window, for blocks without records, which only reject some."""

Partition: TypeAlias = tuple[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class CalibrationSettings:
    """The window's bounds, and when statistics are due.

    window_records, every_records, min_records, keep_versions: at least 1; window_age, every_seconds:
    seconds, above 0; min_new_records: the least number of new records of a version, so that no two versions differ by
    fewer; core_share: the share of a core that computing may take, above 0, at most 1.
    """

    window_records: int = 100_000
    window_age: float = 86_400.0
    every_records: int = 10_000
    every_seconds: float = 60.0
    min_records: int = 1_000
    keep_versions: int = 1_000
    min_new_records: int = 1
    core_share: float = 0.1

    def __post_init__(self) -> None:
        for setting in fields(self):
            value = getattr(self, setting.name)
            if value is not None and value <= 0:
                raise ParameterError(f"{setting.name} is {value}; it must be above 0")


@dataclass(frozen=True, slots=True, kw_only=True)
class MaskingEffect:
    """The effect of masking on a window, as shares in [0, 1] of the masked values of each attribute.

    unchanged: values that are their own masks; truncated: without a concept as distant as their noise; unsigned:
    without the sign condition; unchanged_records: records that have a value, none of which masking changed.
    """

    unchanged: Mapping[str, float]
    truncated: Mapping[str, float]
    unsigned: Mapping[str, float]
    unchanged_records: float


@dataclass(frozen=True)
class Window:
    """The blocks that statistics are computed from, in the topic's order; at least one.

    range: from the offset of the first block to the topic's end at the time; ``window_of`` restores the window from it.
    """

    blocks: tuple[Block, ...]
    range: BlockRange

    @property
    def records(self) -> int:
        return sum(block.original.records for block in self.blocks)

    @cached_property
    def original(self) -> Counts:
        """The counts of the window before masking."""
        return merge(block.original for block in self.blocks)

    @cached_property
    def masked(self) -> Counts:
        """The counts of the window after masking."""
        return merge(block.masked for block in self.blocks)

    @property
    def styles(self) -> tuple[StyleCounts, ...]:
        """The styles of the original codes of each attribute; empty if no block counts them."""
        return add_styles(block.styles for block in self.blocks)

    @property
    def distortions(self) -> tuple[Distortion, ...]:
        """The distortion of each attribute."""
        columns = zip(*(block.distortions for block in self.blocks), strict=True)
        return tuple(sum(column, Distortion()) for column in columns)

    def effect(self, attributes: Sequence[str]) -> MaskingEffect:
        """Return the effect of masking; ``attributes``: their names, in the order of the blocks."""
        by_name = dict(zip(attributes, self.distortions, strict=True))
        return MaskingEffect(
            unchanged={name: masking.share(masking.unchanged) for name, masking in by_name.items()},
            truncated={name: masking.share(masking.truncated) for name, masking in by_name.items()},
            unsigned={name: masking.share(masking.unsigned) for name, masking in by_name.items()},
            unchanged_records=sum(block.unchanged for block in self.blocks) / max(self.records, 1),
        )


@dataclass(slots=True)
class BlockGroup:
    """Consecutive blocks of the topic, the first one at ``offset``.

    While the group grows, each block stands by itself; in a complete one, the blocks of a partition are merged, except
    for its latest one, so that a window needs memory for at most some hundred groups.

    merged: the number of blocks that are in ``blocks``. latest: the latest time, in milliseconds; earliest: likewise,
    both ``NO_TIME`` if none is known.
    """

    offset: int
    blocks: list[Block] = field(default_factory=list)
    merged: int = 0
    records: int = 0
    earliest: int = NO_TIME
    latest: int = NO_TIME
    complete: bool = False

    def add(self, block: Block, time: int) -> None:
        self.blocks.append(block)
        self.merged += 1
        self.records += block.original.records
        self.latest = max(self.latest, time)
        if time != NO_TIME:
            self.earliest = time if self.earliest == NO_TIME else min(self.earliest, time)

    def close(self, latest: Mapping[Partition, Block]) -> None:
        """Merge the blocks of each partition, as far as their offsets ascend, except for its latest block.

        The transaction of the latest one may have been aborted: a later block then replaces it, and nothing else.
        """
        open_blocks = [block for block in self.blocks if latest.get(_partition(block)) is block]
        others = [block for block in self.blocks if latest.get(_partition(block)) is not block]
        self.blocks = [*(merge_blocks(run) for run in _ascending_runs(others)), *open_blocks]
        self.complete = True

    def drop(self, block: Block) -> None:
        """Remove the blocks that overlap a later one."""
        kept = [other for other in self.blocks if not _overlaps(block, other)]
        if len(kept) < len(self.blocks):
            self.blocks, self.records = kept, sum(other.original.records for other in kept)


def _partition(block: Block) -> Partition:
    return block.topic, block.partition


def _overlaps(block: Block, other: Block) -> bool:
    same = _partition(block) == _partition(other)
    return same and block.first_offset <= other.last_offset and other.first_offset <= block.last_offset


def _ascending_runs(blocks: Iterable[Block]) -> Iterator[list[Block]]:
    """Yield the blocks of each partition, in runs of ascending offsets."""
    by_partition: dict[Partition, list[Block]] = {}
    for block in blocks:
        by_partition.setdefault(_partition(block), []).append(block)
    for several in by_partition.values():
        starts = [i for i, (a, b) in enumerate(pairwise(several), 1) if b.first_offset <= a.last_offset]
        yield from (several[start:end] for start, end in pairwise([0, *starts, len(several)]))


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
        self._records = 0
        self._new = 0
        self._last_due: float | None = None

    def add(self, offset: int, written: int, block: Block) -> None:
        """Add a block; written: when the block was written, in milliseconds.

        An offset that is not greater than the last one changes nothing.
        """
        if offset <= self.position:
            return
        self.position = offset
        self._replace(block)
        self._open_group(offset).add(block, effective_time(block.timestamp, written))
        self._records = sum(group.records for group in self._groups)
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
        oldest = max((group.latest for group in self._groups), default=NO_TIME) - self._age
        groups = [group for group in self._groups if group.latest == NO_TIME or group.latest >= oldest]
        blocks = tuple(block for group in groups for block in group.blocks)
        if not blocks:
            return None
        merged = sum(group.merged for group in groups)
        return Window(blocks, BlockRange(self._groups[0].offset, self.position, merged))

    @property
    def _age(self) -> float:
        return 1000 * self.settings.window_age

    def _replace(self, block: Block) -> None:
        """Remove earlier blocks of the same records. Nothing overlaps a block after all others of its partition."""
        partition = _partition(block)
        if block.first_offset <= self._ends.get(partition, -1):
            for group in self._groups:
                group.drop(block)
        self._ends[partition] = max(block.last_offset, self._ends.get(partition, -1))
        self._latest[partition] = block

    def _open_group(self, offset: int) -> BlockGroup:
        if not self._groups or self._groups[-1].complete:
            self._groups.append(BlockGroup(offset))
        return self._groups[-1]

    def _close_group(self) -> None:
        group, settings = self._groups[-1], self.settings
        if (
            group.records >= GROUP_SHARE * settings.window_records
            or group.latest - group.earliest >= GROUP_SHARE * self._age
            or len(group.blocks) >= GROUP_BLOCKS
        ):
            for each in self._groups[-2:]:
                each.close(self._latest)

    def _drop_oldest(self) -> None:
        latest = max(group.latest for group in self._groups)
        while len(self._groups) > 1 and self._is_outside(self._groups[0], latest - self._age):
            self._records -= self._groups.pop(0).records

    def _is_outside(self, first: BlockGroup, oldest: float) -> bool:
        too_old = first.latest != NO_TIME and first.latest < oldest
        return (
            too_old
            or not first.blocks
            or len(self._groups) > MAX_GROUPS
            or self._records - first.records >= self.settings.window_records
        )


def effective_time(timestamp: int, written: int) -> int:
    """Return the time of a block's records: at most the time at which it was written.

    A wrong clock can thus not age other blocks. timestamp, written: milliseconds since the epoch, below 0 if unknown.
    """
    if timestamp < 0:
        return NO_TIME
    return min(timestamp, written) if written >= 0 else timestamp


def window_of(
    read: Iterable[tuple[int, int, Block]], settings: CalibrationSettings, blocks: BlockRange
) -> Window | None:
    """Return the window that a statistics version was computed from. read: (offset, written, block) from the topic."""
    log = WindowLog(settings, since=blocks)
    for offset, written, block in read:
        if blocks.first <= offset <= blocks.last:
            log.add(offset, written, block)
    return log.window()
