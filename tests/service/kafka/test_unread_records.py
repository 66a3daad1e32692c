"""Partitions that cannot be read on, and offsets that were passed."""

from __future__ import annotations

import pytest
from consumer import part

from stream_masker.service.audit import RecordLocation
from stream_masker.service.kafka.unread_records import (
    LASTING_SECONDS,
    REPEATED_SECONDS,
    SkippedOffsets,
    UnreadablePartitions,
)
from stream_masker.service.skip import first_readable


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


@pytest.mark.parametrize(
    ("committed", "low", "first", "count"),
    [(10, 25, 25, 15), (10, 25, 30, 15), (10, 0, 12, 0), (10, 10, 10, 0), (-1001, 25, 25, 0), (10, 25, 5, 0)],
)
def test_only_offsets_that_retention_deleted_are_counted(committed: int, low: int, first: int, count: int) -> None:
    skipped = SkippedOffsets()
    skipped.start(part(0), committed)
    if skipped.may_have_gap(part(0), first):
        skipped.retained_from(part(0), low, first)
    assert skipped.take() == ({"retention": count} if count else {})
    skipped.advance(part(0), 31)
    assert not skipped.may_have_gap(part(0), 31)
    assert skipped.take() == {}


def test_skipped_offsets_are_counted_once() -> None:
    skipped = SkippedOffsets()
    skipped.start(part(0), 10)
    skipped.pass_to(part(0), 10, 13)
    assert not skipped.may_have_gap(part(0), 13)
    assert skipped.take() == {"command": 3}
    skipped.forget([part(0)])
    assert not skipped.may_have_gap(part(0), 99)


@pytest.mark.parametrize("end", [11, 12, 13, 20, 500, 10_010])
def test_the_end_of_an_unreadable_batch_is_found(end: int) -> None:
    tried = []
    assert first_readable(lambda offset: tried.append(offset) or offset >= end, RecordLocation(0, 10)) == end
    assert len(tried) <= 30
