"""The batcher by size and time."""

from __future__ import annotations

import pytest
from consumer import FakeMessage, offsets, parts

from stream_masker.service.worker.batch import BatchLimits
from stream_masker.service.worker.batcher import SizeTimeBatcher

LIMITS = BatchLimits(records=10, size=1000, delay=2)


@pytest.fixture
def batcher() -> SizeTimeBatcher:
    return SizeTimeBatcher(LIMITS)


def add(batcher: SizeTimeBatcher, *messages: FakeMessage, now: float = 0.0) -> None:
    batcher.add(messages, partitions=parts(0, 1), now=now)


def test_an_empty_batch_reads_one_record_and_has_no_time_limit(batcher: SizeTimeBatcher) -> None:
    assert (batcher.room(), batcher.time_left(1e9)) == (1, None)


def test_the_delay_starts_with_the_first_record(batcher: SizeTimeBatcher) -> None:
    add(batcher, FakeMessage(0, 1), now=5)
    add(batcher, FakeMessage(0, 2), now=6)
    assert (batcher.room(), batcher.time_left(6)) == (8, 1)
    assert batcher.take(7).next_offsets() == offsets({0: 3})
    assert batcher.time_left(7) is None


def test_a_batch_is_complete_at_its_number_of_records(batcher: SizeTimeBatcher) -> None:
    add(batcher, *(FakeMessage(0, i) for i in range(10)))
    assert batcher.room() == 0


def test_a_batch_is_complete_at_its_bytes_and_the_next_one_reads_what_fits(batcher: SizeTimeBatcher) -> None:
    add(batcher, FakeMessage(0, 0, 500), FakeMessage(0, 1, 500))
    assert batcher.room() == 0
    assert batcher.take(0).size == 1000
    add(batcher, FakeMessage(0, 2, 500))
    assert batcher.room() == 1


def test_dropped_partitions_are_not_in_the_batch(batcher: SizeTimeBatcher) -> None:
    add(batcher, FakeMessage(0, 5), FakeMessage(1, 7))
    batcher.drop(parts(1))
    assert batcher.take(0).next_offsets() == offsets({0: 6})
