"""When a group is complete, and what becomes of one that is too small."""

from __future__ import annotations

import pytest
from consumer import FakeMessage

from stream_masker.errors import ParameterError
from stream_masker.service.worker.batch import GroupShortfall, MessageBatch
from stream_masker.service.worker.micro_windows import MAX_GROWTH, MicroWindowBatcher, MicroWindowLimits

LEAST = 4


class Stream:
    """Windows, and the partitions that feed them."""

    def __init__(self, short: str = "hold", **limits: int) -> None:
        self.limits = MicroWindowLimits(**{"records": 10, "size": 100_000, "delay": 5.0, "short": short, **limits})
        self.windows = MicroWindowBatcher(self.limits, minimum=lambda: LEAST)
        self.next: dict[int, int] = {}

    def come(self, count: int, now: float, partition: int = 0, size: int = 10) -> None:
        start = self.next.get(partition, 0)
        self.next[partition] = start + count
        messages = [FakeMessage(partition, offset, size) for offset in range(start, start + count)]
        self.windows.add(messages, partitions={0, 1}, now=now)

    def taken(self, now: float) -> dict[int, list[int]]:
        self.batch = self.windows.take(now)
        return {p: [m.offset() for m in messages] for p, messages in self.batch.partitions.items()}

    def too_small(self, now: float, lacking: int = 1, partition: int = 0, group: int = 0) -> None:
        """A group of what was taken last cannot be masked."""
        sizes = [len(messages) for messages in self.batch.groups(partition)]
        short = GroupShortfall(sum(sizes[:group]), sizes[group], lacking)
        self.windows.put_back(partition, self.batch.take_out(partition, short.start), short, now)


@pytest.fixture(params=["hold", "suppress", "merge"])
def stream(request: pytest.FixtureRequest) -> Stream:
    return Stream(request.param)


def test_a_group_is_complete_at_its_number_of_records_and_the_rest_begins_the_next(stream: Stream) -> None:
    stream.come(9, 0)
    assert (stream.windows.room() > 0, stream.taken(0)) == (True, {})
    stream.come(4, 1)
    assert stream.windows.room() == 0
    assert stream.taken(1) == {0: list(range(10))}
    assert (stream.windows.room() > 0, stream.taken(1)) == (True, {})
    stream.come(7, 2)
    assert stream.taken(2) == {0: list(range(10, 20))}


def test_a_batch_is_all_groups_that_are_complete(stream: Stream) -> None:
    assert stream.windows.room() == stream.limits.batch
    stream.come(34, 0)
    stream.come(10, 0, partition=1)
    assert stream.taken(0) == {0: list(range(30)), 1: list(range(10))}
    assert [[len(group) for group in stream.batch.groups(p)] for p in (0, 1)] == [[10, 10, 10], [10]]
    stream.come(6, 1)
    assert stream.taken(1) == {0: list(range(30, 40))}


@pytest.mark.parametrize("short", ["hold", "merge"])
def test_what_came_behind_a_group_that_is_too_small_goes_back_with_it(short: str) -> None:
    stream = Stream(short)
    stream.come(30, 0)
    stream.taken(0)
    stream.too_small(0, lacking=2, group=1)
    assert stream.batch.next_offsets() == {0: 10}
    assert stream.taken(0) == {0: list(range(10, 22))}
    stream.come(2, 0)
    assert stream.taken(0) == {0: list(range(22, 32))}


def test_a_group_with_enough_records_is_complete_after_the_delay(stream: Stream) -> None:
    stream.come(2, 0)
    stream.come(3, 4)
    assert (stream.windows.left(4), stream.taken(4.9)) == (1, {})
    assert stream.taken(5) == {0: [0, 1, 2, 3, 4]}
    assert stream.windows.left(5) is None


def test_partitions_are_groups_of_their_own(stream: Stream) -> None:
    stream.come(10, 0, partition=0)
    stream.come(5, 3, partition=1)
    assert stream.taken(3) == {0: list(range(10))}
    assert stream.windows.left(3) == 5
    assert stream.taken(8) == {1: list(range(5))}


def test_what_comes_of_other_partitions_is_passed_over_and_given_up_ones_are_forgotten(stream: Stream) -> None:
    stream.come(10, 0, partition=7)
    stream.come(10, 0, partition=1)
    stream.windows.drop([1, 5])
    assert stream.taken(100) == {}


def test_a_group_is_complete_at_its_bytes(stream: Stream) -> None:
    stream.come(5, 0, size=20_000)
    assert (stream.windows.room(), stream.taken(0)) == (0, {0: [0, 1, 2, 3, 4]})


def test_a_short_group_is_held_until_just_enough_have_come() -> None:
    stream = Stream("hold")
    stream.come(3, 0)
    assert (stream.windows.left(100), stream.taken(100)) == (None, {})
    stream.come(1, 101)
    assert stream.windows.left(101) <= 0
    assert stream.taken(101) == {0: [0, 1, 2, 3]}


def test_a_short_group_is_released_to_be_suppressed() -> None:
    stream = Stream("suppress")
    stream.come(3, 0)
    assert (stream.windows.left(4), stream.taken(4), stream.taken(5)) == (1, {}, {0: [0, 1, 2]})


def test_a_short_group_is_merged_into_the_next_whose_delay_begins_anew() -> None:
    stream = Stream("merge")
    stream.come(3, 0)
    assert (stream.taken(5), stream.windows.left(5)) == ({}, 5)
    stream.come(2, 6)
    assert stream.taken(9.9) == {}
    assert stream.taken(10) == {0: [0, 1, 2, 3, 4]}


@pytest.mark.parametrize("short", ["hold", "merge"])
def test_a_group_that_cannot_be_masked_comes_again_when_it_has_grown_by_what_it_lacks(short: str) -> None:
    stream = Stream(short)
    stream.come(12, 0)
    assert stream.taken(0) == {0: list(range(10))}
    stream.too_small(0, lacking=3)
    assert stream.taken(0) == {}
    stream.come(1, 1)
    assert stream.taken(1) == {0: list(range(13))}


def test_a_group_that_is_held_has_waited_long_enough_and_one_that_is_merged_waits_again() -> None:
    for short, when in (("hold", 7), ("merge", 11)):
        stream = Stream(short)
        stream.come(6, 0)
        assert stream.taken(6) == {0: list(range(6))}
        stream.too_small(6, lacking=2)
        stream.come(2, 7)
        assert stream.taken(when - 0.1) == ({} if short == "merge" else {0: list(range(8))})
        if short == "merge":
            assert stream.taken(when) == {0: list(range(8))}


def test_large_groups_are_not_tried_again_for_every_record() -> None:
    stream = Stream("hold", records=100)
    stream.come(100, 0)
    stream.taken(0)
    stream.too_small(0)
    stream.come(9, 0)
    assert stream.taken(0) == {}
    stream.come(1, 0)
    assert stream.taken(0) == {0: list(range(110))}


def test_only_what_was_held_is_put_back() -> None:
    stream = Stream()
    stream.come(10, 0, partition=0)
    stream.come(10, 0, partition=1)
    stream.taken(0)
    stream.too_small(0, partition=1)
    assert stream.batch.next_offsets() == {0: 10}
    stream.come(1, 0, partition=1)
    assert stream.taken(0) == {1: list(range(11))}


def test_a_group_is_not_held_for_ever() -> None:
    limits = Stream("hold").limits
    few, many = ([FakeMessage(0, i) for i in range(count)] for count in (MAX_GROWTH * 10 - 1, MAX_GROWTH * 10))
    assert (limits.may_hold(few), limits.may_hold(many)) == (True, False)
    assert not limits.may_hold([FakeMessage(0, 0, 100_000)])
    assert not Stream("suppress").limits.may_hold(few)
    stream = Stream("hold")
    stream.come(10, 0)
    stream.taken(0)
    stream.too_small(0, lacking=1_000)
    stream.come(MAX_GROWTH * 10 - 10, 0)
    assert stream.windows.room() == 0
    assert stream.taken(0) == {0: list(range(MAX_GROWTH * 10))}


def test_a_batch_of_no_group_is_empty() -> None:
    assert isinstance(Stream().windows.take(0), MessageBatch)
    assert Stream().windows.take(0).records == 0
    assert Stream().windows.left(0) is None


@pytest.mark.parametrize("wrong", [{"records": 0}, {"size": 0}, {"delay": 0}])
def test_limits_that_are_none(wrong: dict[str, int]) -> None:
    with pytest.raises(ParameterError, match="a group holds at least"):
        MicroWindowLimits(**wrong)
