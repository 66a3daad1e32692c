"""Micro-windows: when a group is complete, and what becomes of one that is too small."""

from __future__ import annotations

import pytest
from consumer import TOPIC, FakeMessage
from results import result_of

from stream_masker.pipeline.masker import GroupTooSmallError
from stream_masker.pipeline.records import Inputs, Masked, Result
from stream_masker.service.worker.groups import MAX_GROWTH, Batch, GroupLimits, MicroWindows

MINIMUM = 4


class Masker:
    """Masks groups of at least ``needed`` records, and any group that may not wait."""

    reads_headers = False
    needed = 0

    def mask(self, topic: str, partition: int, records: Inputs, *, statistics_version: int, hold: bool) -> Result:
        if hold and len(records) < self.needed:
            raise GroupTooSmallError(self.needed - len(records))
        return result_of([Masked(offset, None, None, [], 1) for offset in records.offsets])


class Stream:
    """Micro-windows and the partitions that feed them."""

    def __init__(self, short: str = "hold", **limits: int) -> None:
        self.limits = GroupLimits(**{"records": 10, "size": 100_000, "delay": 5.0, "short": short, **limits})
        self.windows = MicroWindows(self.limits, lambda: MINIMUM)
        self.masker = Masker()
        self.next: dict[int, int] = {}

    def arrive(self, count: int, now: float = 0, partition: int = 0, size: int = 10) -> None:
        start = self.next.get(partition, 0)
        self.next[partition] = start + count
        messages = [FakeMessage(partition, offset, size) for offset in range(start, start + count)]
        self.windows.add(Batch({partition: [messages]}), now)

    def take(self, now: float = 0) -> dict[int, list[int]]:
        """Return the sizes of the groups that are complete, by partition."""
        self.batch = self.windows.take(now)
        return {p: [len(group) for group in groups] for p, groups in self.batch.groups.items()}

    def mask(self, needed: int, now: float = 0) -> dict[int, list[int]]:
        """Mask the batch; return the offsets that are masked, by partition."""
        self.masker.needed = needed
        results = self.windows.mask(self.masker, TOPIC, self.batch, 1, now)
        return {p: [*result.offsets] for p, result in results.items()}


@pytest.fixture(params=["hold", "suppress"])
def stream(request: pytest.FixtureRequest) -> Stream:
    return Stream(request.param)


def test_a_group_is_complete_at_its_number_of_records_and_the_rest_starts_the_next(stream: Stream) -> None:
    stream.arrive(9)
    assert stream.take() == {}
    stream.arrive(4)
    assert (stream.take(), stream.mask(0)) == ({0: [10]}, {0: [*range(10)]})
    stream.arrive(7)
    stream.arrive(20, partition=1)
    assert stream.take() == {0: [10], 1: [10, 10]}
    assert stream.mask(0) == {0: [*range(10, 20)], 1: [*range(20)]}
    assert stream.take(100) == {}


def test_a_group_is_complete_at_its_bytes_and_after_its_delay_if_it_has_enough(stream: Stream) -> None:
    stream.arrive(5, size=20_000)
    assert stream.take() == {0: [5]}
    stream.arrive(2)
    stream.arrive(3, 4)
    assert (stream.take(4.9), stream.take(5)) == ({}, {0: [5]})


def test_a_short_group_is_held_until_it_has_the_minimum_or_released_to_be_suppressed() -> None:
    for short, when in (("hold", 101), ("suppress", 5)):
        stream = Stream(short)
        stream.arrive(3)
        assert stream.take(4.9) == {}
        assert stream.take(5) == ({0: [3]} if short == "suppress" else {})
        stream.arrive(1, when)
        assert stream.take(when) == ({0: [4]} if short == "hold" else {})


def test_windows_of_dropped_partitions_are_forgotten(stream: Stream) -> None:
    stream.arrive(10, partition=1)
    stream.windows.drop({1, 5})
    assert stream.take(100) == {}


def test_a_group_that_is_too_small_returns_to_its_window_with_those_after_it() -> None:
    stream = Stream()
    stream.arrive(20)
    stream.arrive(10, partition=1)
    stream.take()
    stream.masker.needed = 12
    assert stream.mask(12) == {}
    stream.arrive(10, partition=1)
    assert stream.take() == {0: [12], 1: [12]}
    assert stream.mask(12) == {0: [*range(12)], 1: [*range(12)]}
    assert stream.batch.next_offsets() == {0: 12, 1: 12}


def test_a_large_group_must_grow_by_a_tenth() -> None:
    stream = Stream(records=100)
    stream.arrive(100)
    stream.take()
    stream.mask(101)
    stream.arrive(9)
    assert stream.take() == {}
    stream.arrive(1)
    assert stream.take() == {0: [110]}


def test_a_group_is_held_only_up_to_a_limit() -> None:
    stream = Stream()
    few, many = ([FakeMessage(0, i) for i in range(count)] for count in (MAX_GROWTH * 10 - 1, MAX_GROWTH * 10))
    assert (stream.limits.may_hold(few), stream.limits.may_hold(many)) == (True, False)
    assert not stream.limits.may_hold([FakeMessage(0, 0, 100_000)])
    assert not Stream("suppress").limits.may_hold(few)
    stream.arrive(10)
    stream.take()
    stream.mask(1_000)
    stream.arrive(MAX_GROWTH * 10 - 10)
    assert stream.take() == {0: [MAX_GROWTH * 10]}
