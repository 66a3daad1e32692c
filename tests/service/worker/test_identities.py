"""When the ids of input topics are requested again."""

from __future__ import annotations

import pytest
from consumer import FakeMessage, part, parts

from stream_masker.service.worker.batch import BatchLimits, MessageBatch
from stream_masker.service.worker.input_topics import TopicIds


class Reader:
    def __init__(self) -> None:
        self.ids = TopicIds(lambda _: True)

    def doubts(self, *places: tuple[int, int]) -> bool:
        """Read a batch of these partitions and offsets; return whether the id of its topic was in doubt."""
        batch = batch_of(*places)
        topics = self.ids.in_doubt(batch)
        self.ids.passed(batch)
        assert topics in ([], ["in"])
        return bool(topics)


def batch_of(*places: tuple[int, int]) -> MessageBatch:
    batch = MessageBatch(BatchLimits(records=10, size=1000, delay=1))
    batch.add([FakeMessage(*place) for place in places], partitions=parts(*{partition for partition, _ in places}))
    return batch


@pytest.fixture
def reader() -> Reader:
    return Reader()


def test_the_id_is_in_doubt_for_the_first_records_of_a_partition(reader: Reader) -> None:
    assert reader.doubts((0, 5), (0, 6))
    assert not reader.doubts((0, 7))
    assert not reader.doubts((0, 9))
    assert reader.doubts((0, 10), (1, 0))


def test_the_id_is_in_doubt_when_a_partition_begins_again(reader: Reader) -> None:
    reader.doubts((0, 5), (0, 6))
    assert reader.doubts((0, 6))
    assert reader.doubts((0, 0))
    assert not reader.doubts((0, 1))


def test_the_id_is_in_doubt_after_a_rebalance(reader: Reader) -> None:
    reader.doubts((0, 5))
    reader.ids.forget()
    assert reader.doubts((0, 6))
    batch = batch_of((0, 7))
    reader.ids.in_doubt(batch)
    reader.ids.forget()
    reader.ids.passed(batch)
    assert reader.doubts((0, 8))


def test_records_that_are_put_back_are_no_reason(reader: Reader) -> None:
    batch = batch_of((0, 5), (0, 6))
    reader.ids.in_doubt(batch)
    batch.remove_from(part(0), 1)
    reader.ids.passed(batch)
    assert not reader.doubts((0, 6))
