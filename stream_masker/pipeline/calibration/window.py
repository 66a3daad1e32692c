"""The sliding window over the calibration topic, and when statistics are due. Pure decisions, without I/O.

The topic's single partition gives the order of the window. Everything here is a function of the blocks in that order: a
calibrator that restarts from the first block of the last published version reaches the same state.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Literal, NamedTuple

import numpy as np

from stream_masker.core.batch import Distortion
from stream_masker.core.dtypes import BoolArray, Int64Array
from stream_masker.core.numeric import Moments, merge_moments
from stream_masker.core.statistics.counts import MANY_KEYS, Counts, united_bits
from stream_masker.errors import ParameterError
from stream_masker.pipeline.calibration.queues import NO_TIME, BlockQueue, BlockStore, Entry, SampledQueue
from stream_masker.pipeline.calibration.segments import (
    BlockColumns,
    CountColumns,
    Segment,
    context_totals,
    distortion_totals,
    total_counts,
)
from stream_masker.pipeline.records import Block
from stream_masker.pipeline.style import StyleCounts, add_styles
from stream_masker.pipeline.wire.statistics import BlockRange


@dataclass(frozen=True, slots=True, kw_only=True)
class CalibrationSettings:
    """The window's bounds, and when statistics are due.

    min_new_records: the least number of new records, and of their noise keys, that a version needs, so that two
    versions never differ by fewer persons; window_records, every_records, min_records, rollup_depth, keep_versions: at
    least 1; window_age, every_seconds: seconds, above 0; sampling: whether records are sampled if they are more than
    the window holds; core_share: the share of a core that computing may take; urgent_divergence: the drift from which
    computing need not wait (``calibration.pace``); both above 0, at most 1; baseline: the version that drift is
    measured against. None stands for the first version that was not computed from a bootstrap sample.
    """

    window_records: int = 100_000
    window_age: float = 86_400.0
    every_records: int = 10_000
    every_seconds: float = 60.0
    min_records: int = 1_000
    rollup_depth: int = 2
    keep_versions: int = 1_000
    min_new_records: int = 1
    core_share: float = 0.1
    sampling: bool = True
    urgent_divergence: float = 0.05
    baseline: int | None = None

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if value is not None and not isinstance(value, bool) and value <= 0:
                raise ParameterError(f"{field.name} is {value}; it must be above 0")


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


class WindowPart(NamedTuple):
    """The blocks of a window that are in one segment.

    chosen: (n,) those of the segment that are in the window; positions: their positions in the window, in this order.
    """

    columns: BlockColumns
    counted: BoolArray
    positions: Int64Array


@dataclass(frozen=True)
class Window:
    """The blocks that statistics are computed from, in the topic's order; at least one.

    range: from the offset of the first block to the topic's end at the time, with the level of a sample; ``window_of``
    restores the window from it. overflowed: whether there were more records than the window holds, all of them
    counted and with times.
    """

    entries: tuple[Entry, ...]
    range: BlockRange
    overflowed: bool = False

    @property
    def records(self) -> int:
        return sum(entry.records for entry in self.entries)

    @property
    def span(self) -> float:
        """The time between the oldest and the latest block, in seconds. 0 if none has a time."""
        times = [entry.time for entry in self.entries if entry.time != NO_TIME]
        return (max(times) - min(times)) / 1000 if times else 0.0

    @cached_property
    def parts(self) -> tuple[WindowPart, ...]:
        """The blocks by their segments."""
        positions: dict[Segment, list[int]] = {}
        for position, entry in enumerate(self.entries):
            positions.setdefault(entry.segment, []).append(position)
        return tuple(self._part(segment, np.array(indices)) for segment, indices in positions.items())

    def _part(self, segment: Segment, positions: Int64Array) -> WindowPart:
        columns, indices = segment.columns, np.array([self.entries[position].index for position in positions])
        blocks = np.zeros(len(columns.unchanged), np.bool_)
        blocks[indices] = True
        return WindowPart(columns, blocks, positions[np.argsort(indices)])

    @cached_property
    def original(self) -> Counts:
        """The counts of the window before masking."""
        return self._counts("original")

    @cached_property
    def masked(self) -> Counts:
        """The counts of the window after masking."""
        return self._counts("masked")

    def _counts(self, side: Literal["original", "masked"]) -> Counts:
        columns: list[tuple[CountColumns, WindowPart]] = [(getattr(part.columns, side), part) for part in self.parts]
        total = total_counts([(counts, part.counted) for counts, part in columns])
        moments: list[Moments | None] = [None] * len(self.entries)
        for counts, part in (pair for pair in columns if pair[0].moments is not None):
            for position, index in zip(part.positions, np.flatnonzero(part.counted).tolist(), strict=True):
                moments[position] = counts.moments_of(index)
        contexts = context_totals([(counts, part.counted) for counts, part in columns])
        return replace(total, numeric=merge_moments(moments), contexts=contexts)

    @property
    def styles(self) -> tuple[StyleCounts, ...]:
        """The styles of the original codes of each attribute; empty if no block counts them."""
        return add_styles(part.columns.style_totals(part.counted) for part in self.parts)

    @property
    def distortions(self) -> tuple[Distortion, ...]:
        """The distortion of each attribute."""
        positions = np.concatenate([part.positions for part in self.parts])
        return distortion_totals([part.columns.distortions(part.counted) for part in self.parts], np.argsort(positions))

    def effect(self, attributes: Sequence[str]) -> MaskingEffect:
        """Return the effect of masking; ``attributes``: their names, in the order of the blocks."""
        by_name = dict(zip(attributes, self.distortions, strict=True))
        unchanged = sum(int(part.columns.unchanged[part.counted].sum(dtype=np.int64)) for part in self.parts)
        return MaskingEffect(
            unchanged={name: masking.share(masking.unchanged) for name, masking in by_name.items()},
            truncated={name: masking.share(masking.truncated) for name, masking in by_name.items()},
            unsigned={name: masking.share(masking.unsigned) for name, masking in by_name.items()},
            unchanged_records=unchanged / max(self.records, 1),
        )


class WindowLog:
    """The window over the blocks read so far, and when statistics are due.

    The window contains whole blocks: at least one, at most ``window_records`` records if there are several, and none
    older than ``window_age`` before the latest time (``calibration.queues``). As soon as blocks that count samples hold
    ``min_records`` records, they alone are the window.

    Statistics are due after a block if ``every_records`` records of the window arrived since they were last due, and
    after ``every_seconds`` if any records arrived, but at least ``min_new_records`` with as many noise keys; never for
    a window of fewer than ``min_records``. since: the block range of the last version that has one; blocks up to its
    end only fill the window. first: there is no version yet, so statistics are due with ``min_records``.
    """

    def __init__(self, settings: CalibrationSettings, *, since: BlockRange | None = None, first: bool = True) -> None:
        self.settings = settings
        self.position = -1
        capacity, age = settings.window_records, settings.window_age * 1000
        self._published = -1 if since is None else since.last
        level = None if since is None else since.level
        self._store = BlockStore()
        self._whole = BlockQueue(capacity, age)
        self._sampled = SampledQueue(
            capacity, age, level=level or 0, fixed_until=-1 if level is None else self._published
        )
        self._is_sampled = level is not None
        self.first = first
        self._new = 0
        self._new_slots: int | None = None
        self._last_due: float | None = None

    def on_block(self, offset: int, written: int, block: Block) -> Window | None:
        """Add a block. Return the window if statistics are due; written: when the block was written, in milliseconds.

        An offset that is not greater than the last one changes nothing.
        """
        if offset <= self.position:
            return None
        self.position = offset
        added = self._push(offset, effective_time(block.timestamp, written), block)
        if offset <= self._published:
            return None
        self._new += added
        slots = united_bits(column.key_bits for column in block.original.values)
        if added and slots is not None:
            self._new_slots = (self._new_slots or 0) | slots
        due = self._least if self.first else max(self._least, self.settings.every_records)
        return self._due_window() if self._new >= due and self._has_new_keys else None

    def on_tick(self, now: float) -> Window | None:
        """Return the window if statistics are due at time ``now``, in seconds."""
        if self._last_due is None:
            self._last_due = now
        elapsed = now - self._last_due >= self.settings.every_seconds
        return self._due_window() if elapsed and self._new >= self._least and self._has_new_keys else None

    def window(self) -> Window | None:
        """Return the current window; None while there is no block."""
        queue = self._sampled if self._is_sampled else self._whole
        entries, level = queue.entries(), self._sampled.level if self._is_sampled else None
        if not entries:
            return None
        block_range = BlockRange(queue.first_offset, self.position, len(entries), level)
        return Window(
            entries, block_range, not self._is_sampled and self._whole.overflowed and entries[-1].time != NO_TIME
        )

    @property
    def _least(self) -> int:
        """The number of new records that a version needs."""
        return 1 if self.first else self.settings.min_new_records

    @property
    def _has_new_keys(self) -> bool:
        """Whether the new records have as many noise keys as a version needs; True if their noise is by position."""
        return self._new_slots is None or self._new_slots.bit_count() >= min(self._least, MANY_KEYS)

    def _push(self, offset: int, time: int, block: Block) -> int:
        """Add a block. Return the number of its records that are in the window."""
        if block.stratum is None and self._is_sampled:
            return 0
        entry = self._store.entry(offset, time, block)
        if block.stratum is None:
            self._whole.push(entry)
            return entry.records
        self._sampled.add(entry, block.stratum.start)
        if not self._is_sampled and self._sampled.records >= self.settings.min_records:
            self._is_sampled = True
            self._whole = BlockQueue(self.settings.window_records, self.settings.window_age)
            return self._sampled.records
        return entry.records if self._is_sampled and entry.level >= self._sampled.level else 0

    def _due_window(self) -> Window | None:
        window = self.window()
        if window is None or window.records < self.settings.min_records:
            return None
        self._new, self._new_slots, self._last_due, self.first = 0, None, None, False
        return window


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
            log.on_block(offset, written, block)
    return log.window()
