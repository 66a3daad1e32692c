"""Micro-windows: when a group is complete, and the policies for one that is too small."""

from __future__ import annotations

import pytest
from consumer import FakeMessage, offsets, part, parts

from stream_masker.service.worker.groups import MAX_GROWTH, GroupBatcher, GroupLimits

MINIMUM = 4


class Stream:
    """A batcher and the partitions that feed it."""

    def __init__(self, short: str = "hold", **limits: int) -> None:
        given = {"records": 10, "size": 100_000, "delay": 5.0, "short": short, "batch": 10_000, **limits}
        self.batcher = GroupBatcher(GroupLimits(**given), lambda: MINIMUM)
        self.limits = self.batcher.limits
        self.next: dict[int, int] = {}

    def arrive(self, count: int, now: float, partition: int = 0, size: int = 10) -> None:
        start = self.next.get(partition, 0)
        self.next[partition] = start + count
        messages = [FakeMessage(partition, offset, size) for offset in range(start, start + count)]
        self.batcher.add(messages, partitions=parts(0, 1), now=now)

    def take(self, now: float) -> dict[int, list[int]]:
        self.batch = self.batcher.take(now)
        return {p.number: [m.offset() for group in groups for m in group] for p, groups in self.batch.groups.items()}

    def seconds_left(self, now: float) -> float | None:
        return self.batcher.seconds_left(now, committing=False)

    def put_back(self, now: float, lacking: int = 1, partition: int = 0, group: int = 0) -> None:
        """Put back a group of the last batch because it is too small."""
        self.batcher.put_back(part(partition), self.batch.cut(part(partition), group), lacking, now)


@pytest.fixture(params=["hold", "suppress", "merge"])
def stream(request: pytest.FixtureRequest) -> Stream:
    return Stream(request.param)


def test_a_group_is_complete_at_its_number_of_records_and_the_rest_starts_the_next(stream: Stream) -> None:
    stream.arrive(9, 0)
    assert (stream.batcher.room() > 0, stream.take(0)) == (True, {})
    stream.arrive(4, 1)
    assert stream.batcher.room() == 0
    assert stream.take(1) == {0: list(range(10))}
    assert (stream.batcher.room() > 0, stream.take(1)) == (True, {})
    stream.arrive(7, 2)
    assert stream.take(2) == {0: list(range(10, 20))}


def test_a_batch_contains_all_complete_groups(stream: Stream) -> None:
    assert stream.batcher.room() == stream.limits.batch
    stream.arrive(34, 0)
    stream.arrive(10, 0, partition=1)
    assert stream.take(0) == {0: list(range(30)), 1: list(range(10))}
    assert [[len(group) for group in stream.batch.groups[part(p)]] for p in (0, 1)] == [[10, 10, 10], [10]]
    stream.arrive(6, 1)
    assert stream.take(1) == {0: list(range(30, 40))}


@pytest.mark.parametrize("short", ["hold", "merge"])
def test_messages_after_a_group_that_is_too_small_are_put_back_with_it(short: str) -> None:
    stream = Stream(short)
    stream.arrive(30, 0)
    stream.take(0)
    stream.put_back(0, lacking=2, group=1)
    assert stream.batch.next_offsets() == offsets({0: 10})
    assert stream.take(0) == {0: list(range(10, 22))}
    stream.arrive(2, 0)
    assert stream.take(0) == {0: list(range(22, 32))}


def test_a_group_with_enough_records_is_complete_after_the_delay(stream: Stream) -> None:
    stream.arrive(2, 0)
    stream.arrive(3, 4)
    assert (stream.seconds_left(4), stream.take(4.9)) == (1, {})
    assert stream.take(5) == {0: [0, 1, 2, 3, 4]}
    assert stream.seconds_left(5) is None


def test_each_partition_has_its_own_group(stream: Stream) -> None:
    stream.arrive(10, 0, partition=0)
    stream.arrive(5, 3, partition=1)
    assert stream.take(3) == {0: list(range(10))}
    assert stream.seconds_left(3) == 5
    assert stream.take(8) == {1: list(range(5))}


def test_messages_of_other_and_of_dropped_partitions_are_ignored(stream: Stream) -> None:
    stream.arrive(10, 0, partition=7)
    stream.arrive(10, 0, partition=1)
    stream.batcher.drop(parts(1, 5))
    assert stream.take(100) == {}


def test_a_group_is_complete_at_its_bytes(stream: Stream) -> None:
    stream.arrive(5, 0, size=20_000)
    assert (stream.batcher.room(), stream.take(0)) == (0, {0: [0, 1, 2, 3, 4]})


def test_a_short_group_is_held_until_it_has_the_minimum() -> None:
    stream = Stream("hold")
    stream.arrive(3, 0)
    assert (stream.seconds_left(100), stream.take(100)) == (None, {})
    stream.arrive(1, 101)
    assert stream.seconds_left(101) <= 0
    assert stream.take(101) == {0: [0, 1, 2, 3]}


def test_a_short_group_is_released_to_be_suppressed() -> None:
    stream = Stream("suppress")
    stream.arrive(3, 0)
    assert (stream.seconds_left(4), stream.take(4), stream.take(5)) == (1, {}, {0: [0, 1, 2]})


def test_a_short_group_is_merged_into_the_next_with_a_new_delay() -> None:
    stream = Stream("merge")
    stream.arrive(3, 0)
    assert (stream.take(5), stream.seconds_left(5)) == ({}, 5)
    stream.arrive(2, 6)
    assert stream.take(9.9) == {}
    assert stream.take(10) == {0: [0, 1, 2, 3, 4]}


@pytest.mark.parametrize("short", ["hold", "merge"])
def test_a_group_put_back_is_complete_when_it_has_grown_by_what_it_lacks(short: str) -> None:
    stream = Stream(short)
    stream.arrive(12, 0)
    assert stream.take(0) == {0: list(range(10))}
    stream.put_back(0, lacking=3)
    assert stream.take(0) == {}
    stream.arrive(1, 1)
    assert stream.take(1) == {0: list(range(13))}


def test_the_delay_of_a_group_put_back_is_over_if_held_and_new_if_merged() -> None:
    for short, when in (("hold", 7), ("merge", 11)):
        stream = Stream(short)
        stream.arrive(6, 0)
        assert stream.take(6) == {0: list(range(6))}
        stream.put_back(6, lacking=2)
        stream.arrive(2, 7)
        assert stream.take(when - 0.1) == ({} if short == "merge" else {0: list(range(8))})
        if short == "merge":
            assert stream.take(when) == {0: list(range(8))}


def test_a_large_group_put_back_must_grow_by_a_tenth() -> None:
    stream = Stream("hold", records=100)
    stream.arrive(100, 0)
    stream.take(0)
    stream.put_back(0)
    stream.arrive(9, 0)
    assert stream.take(0) == {}
    stream.arrive(1, 0)
    assert stream.take(0) == {0: list(range(110))}


def test_other_partitions_are_not_put_back() -> None:
    stream = Stream()
    stream.arrive(10, 0, partition=0)
    stream.arrive(10, 0, partition=1)
    stream.take(0)
    stream.put_back(0, partition=1)
    assert stream.batch.next_offsets() == offsets({0: 10})
    stream.arrive(1, 0, partition=1)
    assert stream.take(0) == {1: list(range(11))}


def test_a_group_is_held_only_up_to_a_limit() -> None:
    limits = Stream("hold").limits
    few, many = ([FakeMessage(0, i) for i in range(count)] for count in (MAX_GROWTH * 10 - 1, MAX_GROWTH * 10))
    assert (limits.may_hold(few), limits.may_hold(many)) == (True, False)
    assert not limits.may_hold([FakeMessage(0, 0, 100_000)])
    assert not Stream("suppress").limits.may_hold(few)
    stream = Stream("hold")
    stream.arrive(10, 0)
    stream.take(0)
    stream.put_back(0, lacking=1_000)
    stream.arrive(MAX_GROWTH * 10 - 10, 0)
    assert stream.batcher.room() == 0
    assert stream.take(0) == {0: list(range(MAX_GROWTH * 10))}


def test_a_batch_without_groups_is_empty() -> None:
    assert Stream().batcher.take(0).records == 0
    assert Stream().seconds_left(0) is None
