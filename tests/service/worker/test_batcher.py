"""The batcher by load."""

from __future__ import annotations

import pytest
from consumer import FakeMessage, offsets, parts

from stream_masker.service.worker.batch import BatchLimits
from stream_masker.service.worker.batcher import FILLING_SECONDS, LONGEST_WAIT_SECONDS, OVERLAPPED_RECORDS, LoadBatcher

LIMITS = BatchLimits(records=10, size=1000, delay=2)


@pytest.fixture
def batcher() -> LoadBatcher:
    return LoadBatcher(LIMITS)


@pytest.fixture
def idle() -> LoadBatcher:
    """A batcher without a delay, after a small batch."""
    batcher = LoadBatcher(BatchLimits())
    batcher.take(0)
    return batcher


def add(batcher: LoadBatcher, *messages: FakeMessage, now: float = 0.0) -> None:
    batcher.add(messages, partitions=parts(0, 1), now=now)


def test_an_empty_batch_reads_one_record_and_has_no_time_limit(batcher: LoadBatcher) -> None:
    assert (batcher.room(), batcher.time_left(1e9)) == (1, None)


def test_a_delay_starts_with_the_first_record(batcher: LoadBatcher) -> None:
    add(batcher, FakeMessage(0, 1), now=5)
    add(batcher, FakeMessage(0, 2), now=6)
    assert (batcher.room(), batcher.time_left(6)) == (8, 1)
    assert batcher.take(7).next_offsets() == offsets({0: 3})
    assert batcher.time_left(7) is None


def test_without_a_delay_a_batch_ends_at_once_unless_the_batch_before_commits(idle: LoadBatcher) -> None:
    add(idle, FakeMessage(0, 1), now=5)
    assert idle.time_left(5) == 0
    assert idle.time_left(5, committing=True) == pytest.approx(LONGEST_WAIT_SECONDS)


def test_a_large_batch_does_not_wait_for_the_commit_before(idle: LoadBatcher) -> None:
    add(idle, *(FakeMessage(0, i) for i in range(OVERLAPPED_RECORDS)), now=5)
    assert idle.time_left(5, committing=True) == 0
    assert idle.room() > 0


@pytest.mark.parametrize(("records", "wait"), [(5_000, FILLING_SECONDS), (4_999, 0.0)])
def test_a_batch_after_one_that_was_half_full_waits_for_more(idle: LoadBatcher, records: int, wait: float) -> None:
    add(idle, *(FakeMessage(0, i) for i in range(records)), now=5)
    idle.take(5)
    add(idle, FakeMessage(0, records), now=5)
    assert idle.time_left(5) == pytest.approx(wait)


def test_the_first_batch_waits_for_a_backlog() -> None:
    batcher = LoadBatcher(BatchLimits())
    add(batcher, FakeMessage(0, 1), now=5)
    assert batcher.time_left(5) == pytest.approx(FILLING_SECONDS)


def test_a_batch_is_complete_at_its_number_of_records(batcher: LoadBatcher) -> None:
    add(batcher, *(FakeMessage(0, i) for i in range(10)))
    assert batcher.room() == 0


def test_a_batch_is_complete_at_its_bytes_and_the_next_one_reads_what_fits(batcher: LoadBatcher) -> None:
    add(batcher, FakeMessage(0, 0, 500), FakeMessage(0, 1, 500))
    assert batcher.room() == 0
    assert batcher.take(0).size == 1000
    add(batcher, FakeMessage(0, 2, 500))
    assert batcher.room() == 1


def test_dropped_partitions_are_not_in_the_batch(batcher: LoadBatcher) -> None:
    add(batcher, FakeMessage(0, 5), FakeMessage(1, 7))
    batcher.drop(parts(1))
    assert batcher.take(0).next_offsets() == offsets({0: 6})
