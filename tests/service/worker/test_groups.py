"""Micro-windows: when a group is complete, and what becomes of one that is too small."""

from __future__ import annotations

from itertools import groupby

import pytest
from consumer import TOPIC, FakeMessage
from results import Masked, result_of

from stream_masker.pipeline.masker import GroupTooSmallError
from stream_masker.pipeline.records import Inputs, Result
from stream_masker.service.worker.groups import MicroWindows
from stream_masker.service.worker.source import Limits

MINIMUM = 4


class Stream:
    """Micro-windows and the partitions that feed them; the masker needs groups of ``needed``, if they may wait."""

    reads_headers = False

    def __init__(self, **limits: int) -> None:
        self.windows = MicroWindows(Limits(**{"records": 10, "size": 100_000, "delay": 5.0, **limits}), lambda: MINIMUM)
        self.next: dict[int, int] = {}
        self.needed = 0

    def mask(self, topic: str, partition: int, records: Inputs, *, statistics_version: int, hold: bool) -> Result:
        if hold and len(records.offsets) < self.needed:
            raise GroupTooSmallError(self.needed - len(records.offsets))
        group = f"{records.offsets[0]}-{records.offsets[-1]}"
        return result_of([Masked(offset, group.encode(), None, [], 1) for offset in records.offsets])

    def masked(self, count: int, now: float = 0, partition: int = 0, size: int = 10) -> dict[int, list[int]]:
        """Return the sizes of the groups that are masked, by partition, when ``count`` messages arrive."""
        start = self.next.get(partition, 0)
        self.next[partition] = start + count
        messages = [FakeMessage(partition, offset, size) for offset in range(start, start + count)]
        results = self.windows.mask(self, TOPIC, {partition: messages}, 1, now)
        self.offsets = {p: [*result.offsets] for p, result in results.items()}
        return {p: [len([*group]) for _, group in groupby(result.values)] for p, result in results.items()}


@pytest.fixture
def stream() -> Stream:
    return Stream()


def test_a_group_is_complete_at_its_number_of_records_and_the_rest_starts_the_next(stream: Stream) -> None:
    assert stream.masked(9) == {}
    assert stream.masked(4) == {0: [10]}
    assert stream.offsets == {0: [*range(10)]}
    assert stream.masked(20, partition=1) == {1: [10, 10]}
    assert stream.masked(7) == {0: [10]}
    assert stream.offsets == {0: [*range(10, 20)]}
    assert stream.masked(0, 100) == {}


def test_a_group_is_complete_at_its_bytes_and_after_its_delay_if_it_has_enough(stream: Stream) -> None:
    assert stream.masked(5, size=20_000) == {0: [5]}
    assert stream.masked(2) == {}
    assert (stream.masked(3, 4), stream.masked(0, 4.9), stream.masked(0, 5)) == ({}, {}, {0: [5]})
    assert (stream.masked(3, 5), stream.masked(0, 100), stream.masked(1, 101)) == ({}, {}, {0: [4]})


def test_a_group_that_is_too_small_grows_by_what_it_lacks_and_delays_no_other_partition(stream: Stream) -> None:
    stream.needed = 12
    assert (stream.masked(10), stream.masked(1)) == ({}, {})
    assert stream.masked(12, partition=1) == {1: [12]}
    assert stream.masked(1) == {0: [12]}
    assert stream.offsets == {0: [*range(12)]}


def test_a_large_group_must_grow_by_a_tenth() -> None:
    stream = Stream(records=100)
    stream.needed = 101
    assert (stream.masked(100), stream.masked(9), stream.masked(1)) == ({}, {}, {0: [110]})


@pytest.mark.parametrize(("count", "size"), [(100, 10), (50, 2_000)], ids=["records", "bytes"])
def test_a_group_is_held_only_up_to_a_limit(stream: Stream, count: int, size: int) -> None:
    stream.needed = 1_000
    assert stream.masked(count - 1, size=size) == {}
    assert stream.masked(1, size=size) == {0: [count]}
