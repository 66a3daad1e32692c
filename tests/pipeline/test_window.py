"""The window over the calibration topic: what replaces what, what leaves it, and when statistics are due."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest
from calibration_bench import block, counts
from hypothesis import given
from hypothesis import strategies as st

from stream_masker.core.statistics.counts import merge, same_counts
from stream_masker.pipeline.messages import BlockRange
from stream_masker.pipeline.records import Block
from stream_masker.pipeline.window import CalibrationSettings, Window, WindowLog, effective_time, window_of

SETTINGS = CalibrationSettings(
    window_records=1_000, window_age=1_000, every_records=50, every_seconds=60, min_records=20
)
DAY = 86_400_000
THREE = [(0, 9), (10, 19), (20, 29)]


def filled(blocks: Iterable[Block], settings: CalibrationSettings = SETTINGS, **options: object) -> WindowLog:
    log = WindowLog(settings, **options)
    for offset, one in enumerate(blocks):
        log.add(offset, DAY, one)
    return log


def window(log: WindowLog) -> Window:
    found = log.window()
    assert found is not None
    return found


def span(first: int, last: int, *, partition: int = 0, timestamp: int = 0) -> Block:
    """Return the block of all records between two offsets, whose codes tell their offsets."""
    return block(first, [offset % 7 for offset in range(first, last + 1)], partition=partition, timestamp=timestamp)


def expected(spans: Iterable[tuple[int, int]]) -> object:
    return merge(counts([offset % 7 for offset in range(first, last + 1)]) for first, last in spans)


@pytest.mark.parametrize(
    ("blocks", "later", "kept"),
    [
        (THREE, [(10, 19), (0, 9)], THREE),
        (THREE, [(0, 9)], [(10, 19), (20, 29), (0, 9)]),
        (THREE, [(5, 14)], [(20, 29), (5, 14)]),
        (THREE, [(0, 29)], [(0, 29)]),
        (THREE, [(29, 40)], [(0, 9), (10, 19), (29, 40)]),
        (THREE, [(30, 40)], [(0, 9), (10, 19), (20, 29), (30, 40)]),
        ([(0, 9), (10, 14), (15, 24)], [(15, 19), (20, 29)], [(0, 29)]),  # the last one's transaction was aborted
    ],
)
@pytest.mark.parametrize("records", [1_000, 100_000])
def test_a_later_block_replaces_those_that_overlap(
    blocks: list[tuple[int, int]], later: list[tuple[int, int]], kept: list[tuple[int, int]], records: int
) -> None:
    """Also if they are merged into groups, which with 1,000 records have 10."""
    log = filled((span(*one) for one in [*blocks, *later]), replace(SETTINGS, window_records=records))
    assert log.position == len(blocks) + len(later) - 1
    assert window(log).records == sum(last - first + 1 for first, last in kept)
    assert same_counts(window(log).original.values[0], expected(kept).values[0])


@pytest.mark.parametrize("later", [(0, 39), (0, 9)])
def test_a_block_replaces_merged_ones_of_its_partition_alone(later: tuple[int, int]) -> None:
    blocks = [span(5 * k, 5 * k + 4, partition=p) for k in range(8) for p in (0, 1)]
    assert window(filled([*blocks, span(*later)])).records == 80


@pytest.mark.parametrize(("blocks", "length", "partitions"), [(1_000, 5, 1), (1_500, 1, 1), (1_500, 1, 3)])
def test_the_window_has_whole_groups_with_its_records_in_bounded_memory(
    blocks: int, length: int, partitions: int
) -> None:
    log = filled(span(length * k, length * (k + 1) - 1, partition=k % partitions) for k in range(blocks))
    found = window(log)
    assert 1_000 <= found.records < 1_000 + 10 * partitions
    assert (found.range.last, found.range.count) == (blocks - 1, found.records // length)
    assert len(found.blocks) <= 110 * partitions


def test_blocks_that_only_reject_do_not_pile_up() -> None:
    empty = replace(span(0, 0), original=counts([]), masked=counts([]), rejected={"not_json": 1}, timestamp=-1)
    settings = replace(SETTINGS, window_records=10)
    log = filled((replace(empty, first_offset=k, last_offset=k) for k in range(5_000)), settings)
    assert len(window(log).blocks) <= 2_000


def test_old_blocks_leave_the_window_and_one_from_the_future_ages_no_other() -> None:
    found = window(filled(span(10 * k, 10 * k + 9, timestamp=100_000 * k) for k in range(30)))
    assert (found.records, found.range.first) == (110, 19)
    ahead = [span(0, 9, timestamp=DAY - 1), span(10, 19, timestamp=400 * DAY), span(20, 29, timestamp=DAY - 1)]
    assert window(filled(ahead)).records == 30
    assert [effective_time(*times) for times in ((5 * DAY, DAY), (5, -1), (-1, DAY))] == [DAY, 5, -1]


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
    again = window_of(((offset, DAY, one) for offset, one in enumerate(blocks)), settings, found.range)
    assert again is not None
    assert again.range == found.range
    places = [
        [(b.partition, b.first_offset, b.last_offset, b.original.records) for b in w.blocks] for w in (again, found)
    ]
    assert places[0] == places[1]
    assert all(map(same_counts, again.original.values, found.original.values))


def test_the_window_adds_up_what_masking_did() -> None:
    found = window(filled([replace(span(0, 9), unchanged=3), replace(span(10, 19), unchanged=4)]))
    effect = found.effect(("one", "two"))
    assert effect.unchanged_records == 7 / 20
    assert found.distortions[0].squared_distance == 5.0
    assert effect.truncated == {"one": 0.0, "two": 0.0}


@pytest.mark.parametrize(
    ("options", "steps"),
    [
        ({"first": True}, [((0, 9), {0.0: False}), ((10, 19), {0.5: True, 1.0: False})]),
        (
            {"first": False},
            [((0, 29), {0.0: False}), ((30, 79), {1.0: True}), ((80, 81), {60.9: False, 61.0: True, 1e3: False})],
        ),
        (
            {"first": False, "least": 5},
            [((0, 29), {0.0: False, 60.0: True}), ((30, 33), {200.0: False}), ((34, 34), {200.0: True})],
        ),
        (
            {"first": False, "since": BlockRange(0, 0, 1)},
            [((0, 59), {0.0: False, 1e3: False}), ((60, 60), {1e3: True})],
        ),
    ],
    ids=[
        "the first ones",
        "enough records, or some after a time",
        "versions differ by enough",
        "blocks of the last one",
    ],
)
def test_statistics_are_due(options: dict[str, Any], steps: list[tuple[tuple[int, int], dict[float, bool]]]) -> None:
    """Each step adds a block, and asks at some seconds whether statistics are due."""
    log = WindowLog(replace(SETTINGS, min_new_records=options.pop("least", SETTINGS.min_new_records)), **options)
    for offset, (offsets, due) in enumerate(steps):
        log.add(offset, DAY, span(*offsets))
        assert {seconds: log.due(seconds) is not None for seconds in due} == due
