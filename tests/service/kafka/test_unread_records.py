"""Partitions that cannot be read on, and offsets that were passed."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from consumer import part

from stream_masker.service.kafka.unread_records import (
    LASTING_SECONDS,
    REPEATED_SECONDS,
    SkippedOffsets,
    UnreadablePartitions,
)


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_an_error_lasts_that_is_repeated_for_the_same_offset() -> None:
    clock = Clock()
    unreadable = UnreadablePartitions(clock)
    unreadable.fail(part(0), 7, "text")
    assert unreadable.lasting == {}
    for clock.now in (LASTING_SECONDS - 1, LASTING_SECONDS):
        unreadable.fail(part(0), 7, "text")
    assert [(p, e.offset, e.text) for p, e in unreadable.lasting.items()] == [(part(0), 7, "text")]
    unreadable.fail(part(0), 8, "text")
    assert unreadable.lasting == {}
    clock.now += LASTING_SECONDS
    unreadable.fail(part(0), 8, "text")
    assert len(unreadable.lasting) == 1
    clock.now += REPEATED_SECONDS
    assert unreadable.lasting == {}


def test_a_partition_that_is_read_again_is_forgotten() -> None:
    clock = Clock()
    unreadable = UnreadablePartitions(clock)
    for clock.now in (0.0, LASTING_SECONDS):
        unreadable.fail(part(0), 7, "text")
    unreadable.forget([part(0), part(1)])
    assert unreadable.lasting == {}


@dataclass(frozen=True)
class Record:
    number: int

    def offset(self) -> int:
        return self.number


class Skipped(SkippedOffsets):
    """Counts of partition 0, whose first retained offset is ``low``."""

    low: int | None = 0

    def __init__(self, committed: int, **more: bool) -> None:
        super().__init__(lambda _: self.low, **more)
        self.start(part(0), committed)

    def reads(self, *offsets: int) -> None:
        self.gather({part(0): offsets[-1] + 1})

    def commits(self, *offsets: int) -> int:
        """Commit records; return what is counted."""
        self.commit(part(0), [*map(Record, offsets)])
        return self.take().get("retention", 0)

    def ends(self, offset: int, kept: int | None = None) -> int:
        """Reach the end of the partition; return what is counted."""
        self.reach_end(part(0), offset, kept)
        return self.take().get("retention", 0)


@pytest.mark.parametrize(
    ("committed", "low", "first", "count"),
    [(10, 25, 25, 15), (10, 25, 30, 15), (10, 0, 12, 0), (10, 10, 10, 0), (-1001, 25, 25, 0), (10, 25, 5, 0)],
)
def test_only_offsets_that_retention_deleted_are_counted(committed: int, low: int, first: int, count: int) -> None:
    skipped = Skipped(committed)
    skipped.low = low
    assert skipped.commits(first) == count
    assert skipped.commits(max(first + 1, committed)) == 0


def test_what_is_deleted_between_the_records_of_a_batch_is_counted() -> None:
    """It was not: only a gap before the first record was."""
    skipped = Skipped(10)
    skipped.low = 20
    assert skipped.commits(10, 11, 20, 21, 23) == 8
    assert skipped.commits(24) == 0


def test_what_is_deleted_while_no_broker_answers_is_counted_at_the_next_answer() -> None:
    """It never was."""
    skipped = Skipped(10)
    skipped.low = None
    assert [skipped.ends(20), skipped.commits(20, 25), skipped.commits(26)] == [0, 0, 0]
    skipped.low = 24
    assert skipped.commits(27) == 10 + 3
    assert skipped.commits(28) == 0


def test_what_is_deleted_up_to_the_end_is_counted_once() -> None:
    """It was counted at each end, and again with the records that followed."""
    skipped = Skipped(10)
    skipped.low = 25
    assert skipped.ends(25) == 15
    assert skipped.ends(25) == 0
    skipped.low = 27
    assert [skipped.ends(30), skipped.ends(30), skipped.commits(30)] == [2, 0, 0]


def test_records_that_were_read_are_not_counted_before_they_are_committed() -> None:
    """They were, if they were deleted meanwhile and the end was reached before the commit."""
    skipped = Skipped(10)
    skipped.reads(10, 11, 12)
    skipped.low = 20
    assert skipped.ends(20, kept=15) == 5
    assert skipped.commits(10, 11, 12) == 0
    skipped.reads(13, 14)
    assert [skipped.ends(20), skipped.commits(13, 14), skipped.commits(20)] == [0, 0, 0]


def test_control_records_before_an_end_that_was_reached_are_not_counted() -> None:
    """The marker of a transaction counted as a lost record once retention had deleted it."""
    skipped = Skipped(10)
    assert skipped.ends(12) == 0
    skipped.low = 12
    assert [skipped.ends(12), skipped.commits(12)] == [0, 0]


def test_a_batch_that_is_read_again_counts_what_was_deleted_meanwhile() -> None:
    skipped = Skipped(10)
    skipped.reads(10, 11, 12)
    skipped.low = 12
    skipped.start(part(0), 10)
    skipped.reads(12, 13)
    assert [skipped.ends(14), skipped.commits(12, 13)] == [0, 2]


def test_what_is_retained_counts_if_the_client_continues_at_the_end() -> None:
    skipped = Skipped(10, skips_retained=True)
    assert skipped.commits(12) == 0
    skipped.low = 25
    assert skipped.commits(40) == 27


def test_skipped_offsets_are_counted_once() -> None:
    skipped = Skipped(10)
    skipped.pass_to(part(0), 10, 13)
    skipped.low = 13
    assert skipped.take() == {"command": 3}
    assert skipped.commits(13) == 0
    skipped.forget([part(0)])
    skipped.low = 99
    assert skipped.commits(99) == 0
