"""When a batch is complete."""

from __future__ import annotations

import pytest
from consumer import FakeMessage

from stream_masker.service.worker.batch import BatchLimits
from stream_masker.service.worker.batcher import SizeTimeBatcher

LIMITS = BatchLimits(records=10, size=1000, delay=2)


@pytest.fixture
def batches() -> SizeTimeBatcher:
    return SizeTimeBatcher(LIMITS)


def add(batches: SizeTimeBatcher, *messages: FakeMessage, now: float = 0.0) -> None:
    batches.add(messages, partitions={0, 1}, now=now)


def test_the_first_record_is_waited_for_alone_and_as_long_as_it_takes(batches: SizeTimeBatcher) -> None:
    assert (batches.room(), batches.left(1e9)) == (1, None)


def test_the_delay_counts_from_the_first_record(batches: SizeTimeBatcher) -> None:
    add(batches, FakeMessage(0, 1), now=5)
    add(batches, FakeMessage(0, 2), now=6)
    assert (batches.room(), batches.left(6)) == (8, 1)
    assert batches.take(7).next_offsets() == {0: 3}
    assert batches.left(7) is None


def test_a_batch_is_complete_at_its_number_of_records(batches: SizeTimeBatcher) -> None:
    add(batches, *(FakeMessage(0, i) for i in range(10)))
    assert batches.room() == 0


def test_a_batch_is_complete_at_its_bytes_and_the_next_one_asks_for_what_fits(batches: SizeTimeBatcher) -> None:
    add(batches, FakeMessage(0, 0, 500), FakeMessage(0, 1, 500))
    assert batches.room() == 0
    assert batches.take(0).size == 1000
    add(batches, FakeMessage(0, 2, 500))
    assert batches.room() == 1


def test_what_is_dropped_is_gone(batches: SizeTimeBatcher) -> None:
    add(batches, FakeMessage(0, 5), FakeMessage(1, 7))
    batches.drop({1})
    assert batches.take(0).next_offsets() == {0: 6}
