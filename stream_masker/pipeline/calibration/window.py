"""The sliding window over the calibration topic, and when to compute statistics anew. Pure: decides, never acts.

The topic's one partition is the window's order. Everything here is a function of the blocks in that order, so that a
calibrator that starts over from the first block of the last published version is where it would have been.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, fields
from functools import cached_property, reduce
from operator import add

from stream_masker.core.batch import Tally
from stream_masker.core.statistics.counts import Counts, merge
from stream_masker.errors import ParameterError
from stream_masker.pipeline.records import Block
from stream_masker.pipeline.wire.messages import BlockRange

NEVER_OLD = -1
"""The time of a block whose records have no timestamps: it leaves the window by number only."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CalibrationSettings:
    """The window's bounds, and when statistics are computed.

    window_records, every_records, min_records, keep_versions: at least 1; window_age, every_seconds: seconds, above
    0; baseline: the version that drift is measured against, None for the first one that is no bootstrap.
    """

    window_records: int = 100_000
    window_age: float = 86_400.0
    every_records: int = 10_000
    every_seconds: float = 60.0
    min_records: int = 1_000
    rollup_depth: int = 2
    keep_versions: int = 1_000
    baseline: int | None = None

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if value is not None and value <= 0:
                raise ParameterError(f"{field.name} is {value}; it must be above 0")


@dataclass(frozen=True, slots=True)
class Entry:
    """A block at its offset on the calibration topic; ``time``: milliseconds, never later than it was written."""

    offset: int
    time: int
    block: Block

    @property
    def key(self) -> tuple[str, int, int]:
        """What two counts of the same records have in common."""
        return self.block.topic, self.block.partition, self.block.first_offset

    @property
    def records(self) -> int:
        return self.block.original.records

    def is_older(self, than: float) -> bool:
        """Whether it is from before a time in milliseconds; never so without a time of its own."""
        return self.time != NEVER_OLD and self.time < than


@dataclass(frozen=True)
class Window:
    """Blocks to compute statistics from, in the topic's order; at least one.

    range: the offsets from the first of them to the end of the topic at the cut: ``window_of`` over that range gives
    this window again.
    """

    entries: tuple[Entry, ...]
    range: BlockRange

    @property
    def records(self) -> int:
        return sum(entry.records for entry in self.entries)

    @cached_property
    def original(self) -> Counts:
        """The counts of the window before masking."""
        return merge(entry.block.original for entry in self.entries)

    @cached_property
    def masked(self) -> Counts:
        """The counts of the window after masking."""
        return merge(entry.block.masked for entry in self.entries)

    @property
    def tallies(self) -> tuple[Tally, ...]:
        """What masking did to each attribute."""
        columns = zip(*(entry.block.tallies for entry in self.entries), strict=True)
        return tuple(reduce(add, column, Tally()) for column in columns)


class WindowLog:
    """The window as blocks come in, and the cuts: the windows to compute statistics from.

    The window is the last ``window_records`` records by whole blocks (one block at least), none of them older than
    ``window_age`` before the latest. Of two blocks with the same key the later one counts, at its place; the earlier
    one's time still does, as long as it lies behind the window's first block: so the window is the same for one who
    starts to read there.

    A cut is due after a block when ``every_records`` records came since the last cut, and after ``every_seconds``
    when any came; a window of fewer than ``min_records`` is never cut. ``since``: the block range of the last version
    that has one; blocks up to its end only fill the window. ``first``: there is no version at all, so that
    ``min_records`` suffice for a cut.
    """

    def __init__(self, settings: CalibrationSettings, *, since: BlockRange | None = None, first: bool = True) -> None:
        self.settings = settings
        self.position = -1
        self._entries: deque[Entry] = deque()
        self._counting: dict[tuple[str, int, int], Entry] = {}
        self._records = 0
        self._latest = NEVER_OLD
        self._published = -1 if since is None else since.last
        self.first = first
        self._new = 0
        self._clock: float | None = None

    def on_block(self, offset: int, written: int, block: Block) -> Window | None:
        """Takes the block at an offset, written at ``written`` (milliseconds); gives the window if a cut is due.

        An offset that is not beyond the last one changes nothing.
        """
        if offset <= self.position:
            return None
        self.position = offset
        self._push(Entry(offset, effective_time(block.timestamp, written), block))
        if offset <= self._published:
            return None
        self._new += block.original.records
        return self._cut() if self._new >= (1 if self.first else self.settings.every_records) else None

    def on_tick(self, now: float) -> Window | None:
        """Takes the time, in seconds; gives the window if a cut is due."""
        if self._clock is None:
            self._clock = now
        elapsed = now - self._clock >= self.settings.every_seconds
        return self._cut() if elapsed and self._new else None

    def window(self) -> Window | None:
        """The present window; None while there is no block."""
        entries = tuple(entry for entry in self._entries if self._counts(entry) and not entry.is_older(self._bound))
        return Window(entries, BlockRange(entries[0].offset, self.position, len(entries))) if entries else None

    @property
    def _bound(self) -> float:
        return self._latest - self.settings.window_age * 1000

    def _counts(self, entry: Entry) -> bool:
        return self._counting.get(entry.key) is entry

    def _push(self, entry: Entry) -> None:
        earlier = self._counting.get(entry.key)
        self._records += entry.records - (0 if earlier is None else earlier.records)
        self._counting[entry.key] = entry
        self._entries.append(entry)
        self._latest = max(self._latest, entry.time)
        while len(self._entries) > 1 and self._is_beyond(self._entries[0]):
            self._drop_first()

    def _is_beyond(self, first: Entry) -> bool:
        too_many = self._records > self.settings.window_records
        return too_many or first.is_older(self._bound) or not self._counts(first)

    def _drop_first(self) -> None:
        gone = self._entries.popleft()
        if self._counts(gone):
            del self._counting[gone.key]
            self._records -= gone.records
        if gone.time == self._latest:
            self._latest = max(entry.time for entry in self._entries)

    def _cut(self) -> Window | None:
        window = self.window()
        if window is None or window.records < self.settings.min_records:
            return None
        self._new, self._clock, self.first = 0, None, False
        return window


def effective_time(timestamp: int, written: int) -> int:
    """The time of a block's records: never later than it was written, so that no wrong clock makes others old."""
    if timestamp < 0:
        return NEVER_OLD
    return min(timestamp, written) if written >= 0 else timestamp


def window_of(
    read: Iterable[tuple[int, int, Block]], settings: CalibrationSettings, blocks: BlockRange
) -> Window | None:
    """The window that a statistics version was computed from, out of (offset, written, block) of the topic."""
    log = WindowLog(settings)
    for offset, written, block in read:
        if blocks.first <= offset <= blocks.last:
            log.on_block(offset, written, block)
    return log.window()
