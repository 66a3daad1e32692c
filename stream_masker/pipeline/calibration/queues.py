"""Queues of the blocks of a window, without blocks that are too old or that count the same records twice.

``BlockQueue`` holds blocks that count all records, up to a number of records. ``SampledQueue`` holds blocks that count
samples, and thins them until they fit, so that the window always reaches back as far as its age allows.
"""

from __future__ import annotations

from collections import Counter, deque
from dataclasses import dataclass
from typing import Final, TypeAlias

from stream_masker.pipeline.calibration.segments import Segment
from stream_masker.pipeline.records import Block

NO_TIME: Final = -1
"""The time of a block whose records have no timestamps. It never becomes too old; only newer records displace it."""

ROOM_TO_LOWER: Final = 0.75
"""The maximum share of the window that the sample of a lower level may fill when the window changes to that level."""

BlockKey: TypeAlias = int
"""A number for topic, partition and level, and the first offset in its lowest ``OFFSET_BITS`` bits: smaller than a
tuple of them."""

OFFSET_BITS: Final = 63


@dataclass(frozen=True, slots=True, eq=False)
class Entry:
    """A block at its offset on the calibration topic. Its counts are those of ``segment`` at ``index``.

    time: milliseconds since the epoch (``effective_time``); key: the same for all blocks that count the same records;
    level: that of the block's stratum, -1 if it counts all records.
    """

    offset: int
    time: int
    key: BlockKey
    records: int
    segment: Segment
    index: int
    level: int

    def is_older(self, than: float) -> bool:
        """Return whether the block's time is before ``than``, in milliseconds. A block without a time is never
        older."""
        return self.time != NO_TIME and self.time < than


class BlockStore:
    """Stores blocks in segments, those of different levels apart, because queues drop blocks by age and by level."""

    def __init__(self) -> None:
        self._open: dict[int, Segment] = {}
        self._streams: dict[tuple[str, int, int], int] = {}

    def entry(self, offset: int, time: int, block: Block) -> Entry:
        """Store a block, and return its entry."""
        level = -1 if block.stratum is None else block.stratum.level
        segment = self._open.get(level)
        if segment is None or segment.is_full:
            segment = self._open[level] = Segment()
        stream = self._streams.setdefault((block.topic, block.partition, level), len(self._streams))
        key = stream << OFFSET_BITS | block.first_offset
        return Entry(offset, time, key, block.original.records, segment, segment.add(block), level)


class BlockQueue:
    """Blocks in the topic's order: at least one, at most ``capacity`` records if there are several.

    As many blocks may be without records. They have only rejected ones.

    None of the first blocks is older than ``age`` milliseconds before the latest time. Of two blocks with the same key,
    the later one counts, at its own offset. The time of the earlier one still determines the latest time while its
    offset is not before the first block, so that a reader that starts there has the same queue.

    overflowed: whether a block was dropped because of the capacity.
    """

    def __init__(self, capacity: int, age: float) -> None:
        self.capacity = capacity
        self.records = 0
        self.overflowed = False
        self._age = age
        self._entries: deque[Entry] = deque()
        self._counting: dict[BlockKey, Entry] = {}
        self._maxima: deque[Entry] = deque()
        self._empty = 0

    def push(self, entry: Entry) -> None:
        """Add a block, and drop the first blocks that no longer belong to the queue."""
        earlier = self._counting.get(entry.key)
        if earlier is not None:
            self._count(earlier, -earlier.records)
        self._count(entry, entry.records)
        self._counting[entry.key] = entry
        self._entries.append(entry)
        self._empty += not entry.records
        self._note_time(entry)
        while len(self._entries) > 1 and self._is_outside(self._entries[0]):
            self._drop_first()

    def entries(self) -> tuple[Entry, ...]:
        """Return the blocks that count and are not too old."""
        oldest = self._latest - self._age
        return tuple(entry for entry in self._entries if self._counts(entry) and not entry.is_older(oldest))

    @property
    def first_offset(self) -> int:
        """The offset of the first block; the queue must have one."""
        return self._entries[0].offset

    def _count(self, entry: Entry, records: int) -> None:
        """Add a number of records; it is negative for a block that no longer counts."""
        self.records += records

    def _counts(self, entry: Entry) -> bool:
        return self._counting.get(entry.key) is entry

    def _is_outside(self, first: Entry) -> bool:
        too_many = self.records > self.capacity
        self.overflowed |= too_many
        return too_many or self._is_past(first)

    def _is_past(self, first: Entry) -> bool:
        """Return whether the first block is too old or does not count, or there are too many blocks without records."""
        return self._empty > self.capacity or first.is_older(self._latest - self._age) or not self._counts(first)

    def _drop_first(self) -> None:
        dropped = self._entries.popleft()
        self._empty -= not dropped.records
        if self._counts(dropped):
            del self._counting[dropped.key]
            self._count(dropped, -dropped.records)
        if dropped is self._maxima[0]:
            self._maxima.popleft()

    @property
    def _latest(self) -> int:
        """The latest time of the blocks."""
        return self._maxima[0].time if self._maxima else NO_TIME

    def _note_time(self, entry: Entry) -> None:
        """Keep the blocks that are later than all blocks after them: the latest one first, whatever the times are."""
        while self._maxima and self._maxima[-1].time <= entry.time:
            self._maxima.pop()
        self._maxima.append(entry)


class SampledQueue(BlockQueue):
    """Blocks of strata. Those of ``level`` or more are a uniform sample, of at most ``capacity`` records.

    The level rises as soon as the sample is too large. It falls when a larger sample would take ``ROOM_TO_LOWER`` of
    the capacity at most, and all blocks have the strata of that level. Strata that are two levels too low, which will
    hardly be needed again, are dropped. No block is dropped because of the records of others.
    """

    def __init__(self, capacity: int, age: float, *, level: int = 0, fixed_until: int = -1) -> None:
        """``level``: the first level.

        It does not change up to the offset ``fixed_until``, so that the blocks of a version give its sample again.
        """
        super().__init__(capacity, age)
        self.level = level
        self._fixed_until = fixed_until
        self._by_level: Counter[int] = Counter()
        self._starts: deque[tuple[int, int]] = deque()

    def add(self, entry: Entry, start: int) -> None:
        """Add a block of a stratum; ``start``: the lowest level that is counted of its records."""
        self._require(entry.offset, max(start, self.level - 1))
        if entry.level >= self.level - 1:
            self.push(entry)
        if entry.offset > self._fixed_until:
            self._fit(entry.offset)

    def entries(self) -> tuple[Entry, ...]:
        return tuple(entry for entry in super().entries() if entry.level >= self.level)

    def _count(self, entry: Entry, records: int) -> None:
        self._by_level[entry.level] += records
        self.records = self._records_from(self.level)

    def _records_from(self, level: int) -> int:
        return sum(records for at, records in self._by_level.items() if at >= level)

    def _is_outside(self, first: Entry) -> bool:
        return self._is_past(first)

    def _require(self, offset: int, start: int) -> None:
        """Record that the strata below ``start`` are missing for the block at an offset."""
        while self._starts and self._starts[-1][1] <= start:
            self._starts.pop()
        self._starts.append((offset, start))

    def _fit(self, position: int) -> None:
        """Raise or lower the level until the sample fits and is complete."""
        first = self._entries[0].offset if self._entries else position
        while len(self._starts) > 1 and self._starts[0][0] < first:
            self._starts.popleft()
        least, before = self._starts[0][1], self.level
        self.level = max(self.level, least)
        while self._records_from(self.level) > self.capacity:
            self.level += 1
        while self.level > least and self._records_from(self.level - 1) <= ROOM_TO_LOWER * self.capacity:
            self.level -= 1
        self.records = self._records_from(self.level)
        if self.level > before:
            self._drop_below(self.level - 1, position)

    def _drop_below(self, level: int, position: int) -> None:
        for entry in self._entries:
            if entry.level < level and self._counts(entry):
                del self._counting[entry.key]
                self._count(entry, -entry.records)
        self._entries = deque(entry for entry in self._entries if entry.level >= level)
        self._empty = sum(not entry.records for entry in self._entries)
        self._maxima.clear()
        for entry in self._entries:
            self._note_time(entry)
        self._require(position, level)
