"""The calibration window: its content, when it is cut, and its dependence on the topic's order alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stream_masker.core.batch import Distortion
from stream_masker.core.statistics.counts import Counts, SparseCounts
from stream_masker.errors import ParameterError
from stream_masker.pipeline.calibration.window import CalibrationSettings, Window, WindowLog, window_of
from stream_masker.pipeline.records import Block
from stream_masker.pipeline.wire.statistics import BlockRange

HOUR = 3_600_000

WrittenBlock = tuple[int, int, Block]
"""A block on the topic: its offset, the time of writing in ms, and the block."""


def counts(records: int, value: int) -> Counts:
    column = SparseCounts(np.array([value], dtype=np.int64), np.array([records], dtype=np.int64))
    return Counts(records=records, values=(column,), pairs={}, given=(column.rows,), unknown=(0,))


def block(first_offset: int, records: int, timestamp: int = 0, *, partition: int = 0, value: int = 0) -> Block:
    return Block(
        topic="discharges",
        partition=partition,
        first_offset=first_offset,
        last_offset=first_offset + records,
        timestamp=timestamp,
        statistics_version=1,
        original=counts(records, value),
        masked=counts(records, value + 1),
        distortions=(Distortion(records, 0.5, 0.25),),
        rejected={},
    )


def limits(**changes: float) -> CalibrationSettings:
    return CalibrationSettings(**{"window_records": 100, "every_records": 30, "min_records": 10, **changes})


def offsets(window: Window | None) -> list[int]:
    return [] if window is None else [entry.offset for entry in window.entries]


def replay(log: WindowLog, topic: Sequence[WrittenBlock]) -> list[Window]:
    return [window for window in (log.on_block(*written) for written in topic) if window is not None]


def written(blocks: Sequence[Block], *, gap: int = 3, at: int = 0) -> list[WrittenBlock]:
    return [(gap * i, at, b) for i, b in enumerate(blocks)]


def of_slots(one: Block, *slots: int) -> Block:
    """The block, as if the noise keys of all its records had these slots."""
    bits = np.uint64(sum(1 << slot for slot in slots))
    values = [replace(column, key_bits=np.full(column.keys.size, bits)) for column in one.original.values]
    return replace(one, original=replace(one.original, values=values))


def test_a_version_needs_new_records_of_as_many_different_keys() -> None:
    """Records of one patient, however many, cause no version: it would differ from the last one by this patient."""
    log = WindowLog(limits(window_records=1000, min_new_records=20), first=False)
    one = [of_slots(block(40 * i, 40), 7) for i in range(3)]
    assert replay(log, written(one)) == []
    assert log.on_tick(0.0) is None
    assert log.on_tick(1e6) is None
    assert offsets(log.on_block(50, 0, of_slots(block(200, 19), *range(20, 39)))) == [0, 3, 6, 50]
    assert log.on_block(51, 0, of_slots(block(300, 40), 8)) is None


def test_keys_of_blocks_that_are_in_the_last_version_do_not_count() -> None:
    log = WindowLog(limits(min_new_records=20), since=BlockRange(0, 5, 1), first=False)
    assert log.on_block(5, 0, of_slots(block(0, 40), *range(40))) is None
    assert log.on_block(6, 0, of_slots(block(40, 40), 1)) is None


def test_the_window_holds_the_last_records_in_whole_blocks() -> None:
    log = WindowLog(limits(window_records=25))
    replay(log, written([block(10 * i, 10) for i in range(5)]))
    assert offsets(log.window()) == [9, 12]


def test_one_block_larger_than_the_window_is_the_window() -> None:
    log = WindowLog(limits(window_records=25))
    replay(log, written([block(0, 10), block(10, 40)]))
    assert offsets(log.window()) == [3]
    assert log.window().records == 40


def test_blocks_older_than_the_window_age_are_excluded() -> None:
    log = WindowLog(limits(window_age=3600))
    ages = [2 * HOUR, 3 * HOUR + 1, 90 * 60_000, 3 * HOUR]
    replay(log, written([block(10 * i, 10, age) for i, age in enumerate(ages)], at=9 * HOUR))
    assert offsets(log.window()) == [3, 9]
    assert log.window().range == BlockRange(first=3, last=9, count=2)


def test_a_block_exactly_as_old_as_the_window_age_is_included() -> None:
    log = WindowLog(limits(window_age=3600))
    replay(log, written([block(0, 10, HOUR), block(10, 10, 2 * HOUR)], at=9 * HOUR))
    assert offsets(log.window()) == [0, 3]


def test_a_timestamp_in_the_future_excludes_no_other_block() -> None:
    log = WindowLog(limits(window_age=3600))
    replay(log, written([block(0, 10, HOUR), block(10, 10, 10**15), block(20, 10, HOUR)], at=HOUR + 1))
    assert offsets(log.window()) == [0, 3, 6]


def test_records_without_timestamps_are_never_old() -> None:
    log = WindowLog(limits(window_age=3600))
    replay(log, written([block(0, 10, -1), block(10, 10, 5 * HOUR)], at=9 * HOUR))
    assert offsets(log.window()) == [0, 3]


def test_a_late_block_at_the_end_is_in_the_range_but_not_in_the_window() -> None:
    log = WindowLog(limits(window_age=3600))
    replay(log, written([block(0, 10, 5 * HOUR), block(10, 10, HOUR)], at=9 * HOUR))
    assert log.window().range == BlockRange(first=0, last=3, count=1)


def test_a_block_read_twice_is_counted_once() -> None:
    log = WindowLog(limits(every_records=10))
    assert log.on_block(7, 0, block(0, 10)) is not None
    assert log.on_block(7, 0, block(0, 10)) is None
    assert log.on_block(6, 0, block(10, 10)) is None
    assert log.window().records == 10
    assert log.on_block(8, 0, block(10, 9)) is None, "a block that is read again holds no new records"


def test_blocks_of_the_same_records_are_counted_once() -> None:
    log = WindowLog(limits())
    replay(log, written([block(0, 10), block(10, 10), block(0, 10), block(0, 10, partition=1)]))
    assert offsets(log.window()) == [3, 6, 9]
    assert log.window().original.records == 30


def test_counts_and_distortions_of_the_window_are_the_sums_over_its_blocks() -> None:
    log = WindowLog(limits())
    replay(log, written([block(0, 10, value=4), block(10, 5, value=4), block(20, 5, value=6)]))
    window = log.window()
    assert (window.original.records, window.masked.records) == (20, 20)
    assert window.original.values[0].keys.tolist() == [4, 6]
    assert window.original.values[0].counts.tolist() == [15, 5]
    assert window.masked.values[0].keys.tolist() == [5, 7]
    assert window.distortions == (Distortion(20, 1.5, 0.75),)


def test_the_first_cut_needs_min_records_and_later_cuts_every_records() -> None:
    log = WindowLog(limits(min_records=20))
    cuts = replay(log, written([block(10 * i, 10) for i in range(9)]))
    assert [cut.range.last for cut in cuts] == [3, 12, 21]


def test_with_an_active_version_the_first_cut_waits_for_every_records() -> None:
    log = WindowLog(limits(min_records=20), first=False)
    assert [cut.range.last for cut in replay(log, written([block(10 * i, 10) for i in range(5)]))] == [6]


def test_a_window_below_min_records_is_not_cut_until_it_has_them() -> None:
    log = WindowLog(limits(min_records=40), first=False)
    assert [cut.range.last for cut in replay(log, written([block(10 * i, 10) for i in range(6)]))] == [9]


def test_the_timer_cuts_only_after_new_records() -> None:
    log = WindowLog(limits(every_seconds=60), first=False)
    assert log.on_tick(1000) is None
    assert log.on_tick(1061) is None
    log.on_block(0, 0, block(0, 15))
    assert offsets(log.on_tick(1062)) == [0]
    assert log.on_tick(1063) is None
    log.on_block(3, 0, block(15, 1))
    assert log.on_tick(1122) is None
    assert offsets(log.on_tick(1123)) == [0, 3]


def test_the_timer_does_not_cut_a_window_below_min_records() -> None:
    log = WindowLog(limits(every_seconds=60), first=False)
    log.on_tick(0)
    log.on_block(0, 0, block(0, 9))
    assert log.on_tick(60) is None
    log.on_block(3, 0, block(9, 1))
    assert offsets(log.on_tick(61)) == [0, 3]


@pytest.mark.parametrize("name", ["window_records", "window_age", "every_records", "every_seconds", "min_records"])
def test_rejects_settings_of_zero(name: str) -> None:
    with pytest.raises(ParameterError, match=name):
        limits(**{name: 0})


def test_replacing_the_latest_block_does_not_bring_back_older_blocks() -> None:
    hours = [(0, 2), (10, 1), (20, 3), (20, 1)]
    topic = written([block(first, 10, hour * HOUR) for first, hour in hours], at=9 * HOUR)
    log = WindowLog(limits(window_age=3600))
    replay(log, topic)
    assert offsets(log.window()) == [0]
    assert log.window().range == BlockRange(first=0, last=9, count=1)


blocks = st.lists(
    st.builds(
        lambda first, records, hours, partition: block(first, records, hours * HOUR, partition=partition),
        first=st.integers(0, 8),
        records=st.integers(1, 12),
        hours=st.integers(0, 12),
        partition=st.integers(0, 1),
    ),
    max_size=40,
)


@given(blocks=blocks, age=st.sampled_from([3600.0, 4 * 3600.0, 10**6]), window=st.sampled_from([20, 60]))
def test_a_restart_from_a_version_gives_the_windows_of_an_uninterrupted_run(
    blocks: list[Block], age: float, window: int
) -> None:
    bounds = limits(window_records=window, window_age=age, every_records=15, min_records=8)
    topic = written(blocks, at=24 * HOUR)
    whole = replay(WindowLog(bounds), topic)
    for i, cut in enumerate(whole):
        again = WindowLog(bounds, since=cut.range, first=False)
        resumed = replay(again, [w for w in topic if w[0] >= cut.range.first])
        assert [(w.range, offsets(w)) for w in resumed] == [(w.range, offsets(w)) for w in whole[i + 1 :]]
        assert offsets(window_of(topic, bounds, cut.range)) == offsets(cut)


@given(blocks=blocks, age=st.sampled_from([3600.0, 10**6]))
def test_the_window_equals_its_literal_definition(blocks: list[Block], age: float) -> None:
    log = WindowLog(limits(window_records=50, window_age=age))
    topic = written(blocks, at=24 * HOUR)
    replay(log, topic)
    assert offsets(log.window()) == defined(topic, 50, age)


def defined(topic: Sequence[WrittenBlock], records: int, age: float) -> list[int]:
    """The window computed from its definition, one block at a time over the whole topic."""
    held: list[WrittenBlock] = []
    for new in topic:
        held.append(new)
        while len(held) > 1 and (
            held[0] not in counting(held)
            or sum(w[2].original.records for w in counting(held)) > records
            or held[0][2].timestamp < oldest(held, age)
        ):
            del held[0]
    return [w[0] for w in counting(held) if w[2].timestamp >= oldest(held, age)]


def counting(held: list[WrittenBlock]) -> list[WrittenBlock]:
    """The last block of each key."""
    last = {key(w): w for w in held}
    return [w for w in held if last[key(w)] is w]


def oldest(held: list[WrittenBlock], age: float) -> float:
    return max((w[2].timestamp for w in held), default=0) - age * 1000


def key(w: WrittenBlock) -> tuple[int, int]:
    return w[2].partition, w[2].first_offset


def test_sampling_can_be_turned_off():
    assert not CalibrationSettings(sampling=False).sampling
