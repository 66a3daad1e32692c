"""The queue of a window: the latest time of its blocks, and what finding it takes."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from stream_masker.pipeline.calibration.queues import BlockQueue, Entry
from stream_masker.pipeline.calibration.segments import Segment

CAPACITY, BLOCKS = 200, 4_000
TIMES: dict[str, Callable[[int], int]] = {
    "equal": lambda _: 7,
    "rising": lambda number: number,
    "falling": lambda number: BLOCKS - number,
    "random": lambda number: number * 7_919 % BLOCKS,
}


class Time(int):
    """A time that counts the comparisons of all times."""

    compared = 0

    def __le__(self, other: object) -> bool:
        Time.compared += 1
        return int.__le__(self, other)  # type: ignore[operator]

    def __gt__(self, other: object) -> bool:
        Time.compared += 1
        return int.__gt__(self, other)  # type: ignore[operator]

    def __eq__(self, other: object) -> bool:
        Time.compared += 1
        return int.__eq__(self, other)  # type: ignore[operator]

    __hash__ = int.__hash__


def pushed(queue: BlockQueue, number: int, time: int) -> Entry:
    entry = Entry(number, time, number, 1, Segment(), 0, -1)
    queue.push(entry)
    return entry


@pytest.mark.parametrize("kind", TIMES)
def test_a_full_queue_takes_a_bounded_number_of_steps_for_a_block(kind: str) -> None:
    """With equal or falling times, each block took as many steps as the window has blocks."""
    queue, Time.compared = BlockQueue(CAPACITY, float("inf")), 0
    for number in range(BLOCKS):
        pushed(queue, number, Time(TIMES[kind](number)))
    assert queue.records == CAPACITY
    assert Time.compared <= 8 * BLOCKS


@pytest.mark.parametrize("age", [5, 40])
def test_blocks_are_as_old_as_the_latest_time_of_the_queue_says(age: int) -> None:
    rng, queue, last = random.Random(2), BlockQueue(50, age), list[Entry]()
    for number in range(2_000):
        last.append(pushed(queue, number, rng.randrange(60) + number // 50))
        while len(last) > 1 and (len(last) > 50 or last[0].time < max(one.time for one in last) - age):
            last.pop(0)
        oldest = max(one.time for one in last) - age
        assert list(queue.entries()) == [one for one in last if one.time >= oldest]
