"""The window over the calibration topic: what replaces what, what leaves it, and when statistics are due."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import pytest
from calibration_bench import block, counts
from hypothesis import given
from hypothesis import strategies as st
from support.results import same_counts

from stream_masker.core.statistics.counts import merge
from stream_masker.pipeline.messages import BlockRange
from stream_masker.pipeline.records import Block
from stream_masker.pipeline.window import CalibrationSettings, Window, WindowLog

SETTINGS = CalibrationSettings(
    window_records=1_000, window_age=1_000, every_records=50, every_seconds=60, min_records=20
)
UNMERGED = replace(SETTINGS, window_records=100_000)
DAY = 86_400_000


def filled(blocks: Iterable[Block], settings: CalibrationSettings = SETTINGS, **options: object) -> WindowLog:
    log = WindowLog(settings, **options)
    for offset, one in enumerate(blocks):
        log.add(offset, DAY, one)
    return log


def window(log: WindowLog) -> Window:
    found = log.window()
    assert found is not None
    assert found.total.original.records == log.records
    return found


def span(first: int, last: int, *, partition: int = 0, timestamp: int = 0) -> Block:
    """Return the block of all records between two offsets, whose codes tell their offsets."""
    return block(first, [offset % 7 for offset in range(first, last + 1)], partition=partition, timestamp=timestamp)


def assert_counts(log: WindowLog, *spans: tuple[int, int]) -> None:
    """Assert that the window counts the records of these offsets, each once."""
    expected = merge(counts([offset % 7 for offset in range(first, last + 1)]) for first, last in spans)
    assert window(log).total.original.records == expected.records
    assert same_counts(window(log).total.original.values[0], expected.values[0])


def test_a_block_that_is_merged_twice_changes_nothing() -> None:
    log = filled([span(0, 9), span(10, 19)])
    log.add(1, DAY, span(10, 19))
    log.add(2, DAY, span(0, 9))
    assert (log.records, log.position) == (20, 2)


@pytest.mark.parametrize(
    ("later", "kept"),
    [
        ((0, 9), [(10, 19), (20, 29), (0, 9)]),
        ((5, 14), [(20, 29), (5, 14)]),
        ((0, 29), [(0, 29)]),
        ((29, 40), [(0, 9), (10, 19), (29, 40)]),
        ((30, 40), [(0, 9), (10, 19), (20, 29), (30, 40)]),
    ],
)
def test_a_later_block_replaces_those_that_overlap(later: tuple[int, int], kept: list[tuple[int, int]]) -> None:
    assert_counts(filled([span(0, 9), span(10, 19), span(20, 29), span(*later)], UNMERGED), *kept)


def test_a_block_without_records_replaces_others_and_takes_no_memory() -> None:
    empty = replace(span(0, 9), original=counts([]), masked=counts([]), timestamp=-1)
    log = filled([span(0, 9), span(10, 19), empty])
    assert_counts(log, (10, 19))
    assert len(window(log).blocks) == 1
    assert filled([span(0, 9), empty]).window() is None


def test_a_block_replaces_merged_ones_of_its_partition_alone() -> None:
    """Groups of 10 records: those of a partition are merged once the group is complete."""
    blocks = [span(5 * k, 5 * k + 4, partition=p) for k in range(8) for p in (0, 1)]
    for later in (span(0, 39), span(0, 9)):
        assert filled([*blocks, later]).records == 80


def test_a_block_of_an_aborted_transaction_is_replaced_alone_also_at_the_end_of_a_group() -> None:
    committed, aborted, again = [span(0, 9), span(10, 14)], span(15, 24), [span(15, 19), span(20, 29)]
    assert_counts(filled([*committed, aborted, *again]), (0, 29))


def test_records_that_are_masked_again_from_the_start_replace_no_others() -> None:
    """In the group in which masking starts again, later offsets come first."""
    assert_counts(filled([span(100, 104), *(span(5 * k, 5 * k + 4) for k in range(4))]), (100, 104), (0, 19))


def test_the_window_has_whole_groups_with_its_records_or_more() -> None:
    log = filled(span(5 * k, 5 * k + 4) for k in range(300))
    assert 1_000 <= log.records < 1_010
    assert window(log).range == BlockRange(100, 299)


@pytest.mark.parametrize("partitions", [1, 3])
def test_memory_does_not_grow_with_the_number_of_blocks(partitions: int) -> None:
    log = filled((span(k, k, partition=k % partitions) for k in range(500)), replace(SETTINGS, window_records=300))
    assert len(window(log).blocks) <= 110 * partitions
    assert log.records >= 300


def test_old_blocks_leave_the_window() -> None:
    found = window(filled([span(10 * k, 10 * k + 9, timestamp=100_000 * k) for k in range(30)]))
    assert (found.total.original.records, found.range.first) == (110, 19)


def test_a_block_from_the_future_ages_no_other_one() -> None:
    ahead = [span(0, 9, timestamp=DAY - 1), span(10, 19, timestamp=400 * DAY), span(20, 29, timestamp=DAY - 1)]
    assert filled(ahead).records == 30


@given(
    st.lists(st.tuples(st.integers(0, 30), st.integers(0, 6), st.integers(0, 1), st.integers(0, 5_000)), max_size=80),
    st.integers(5, 200),
)
def test_a_version_names_the_blocks_that_restore_its_window(
    drawn: list[tuple[int, int, int, int]], records: int
) -> None:
    """Whatever the order, the overlaps and the times are, also in a window that has slid."""
    settings = replace(SETTINGS, window_records=records)
    blocks = [
        span(10 * first, 10 * first + 3 * length, partition=partition, timestamp=1000 * time)
        for first, length, partition, time in drawn
    ]
    found = filled(blocks, settings).window()
    if found is None:
        return
    log = WindowLog(settings, since=found.range)
    for offset in range(found.range.first, found.range.last + 1):
        log.add(offset, DAY, blocks[offset])
    again = window(log)
    assert again.range == found.range
    places = ([(b.partition, b.first_offset, b.last_offset) for b in one.blocks] for one in (again, found))
    assert next(places) == next(places)
    assert all(map(same_counts, again.total.original.values, found.total.original.values))


def test_the_window_adds_up_what_masking_did() -> None:
    found = window(filled([replace(span(0, 9), unchanged=3), replace(span(10, 19), unchanged=4)]))
    assert (found.total.unchanged, found.total.distortions[0].squared_distance) == (7, 5.0)


EVERY = replace(SETTINGS, min_new_records=5)


@pytest.mark.parametrize(
    ("log", "steps"),
    [
        (WindowLog(SETTINGS), [(0, 9), 0.0, (10, 19), {0.5}, 1.0]),
        (filled([span(0, 29)], first=False), [0.0, (30, 79), {1.0}, (80, 81), 60.9, {61.0}, 1_000.0]),
        (filled([span(0, 29)], EVERY, first=False), [0.0, {60.0}, (30, 33), 200.0, (34, 34), {200.0}]),
        (filled([span(0, 29), span(30, 59)], since=BlockRange(0, 1), first=False), [0.0, 1_000.0, (60, 60), {1_000.0}]),
    ],
    ids=["the first one", "enough records, or a time", "enough new records", "after the last version's blocks"],
)
def test_when_statistics_are_due(log: WindowLog, steps: list[object]) -> None:
    """A step is the records of a block, or a time at which statistics are not due, or, as a set, at which they are."""
    for step in steps:
        if isinstance(step, tuple):
            log.add(log.position + 1, DAY, span(*step))
        else:
            [now] = step if isinstance(step, set) else {step}
            assert (log.due(now) is not None) == isinstance(step, set), now
