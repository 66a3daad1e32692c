"""The worker's input topics: new ones that match an expression, and those that are refused."""

from __future__ import annotations

import pytest
from confluent_kafka import KafkaError, KafkaException

from stream_masker.errors import ServiceError
from stream_masker.service.configuration.topics import TopicsSection
from stream_masker.service.kafka.messages import Partition
from stream_masker.service.worker.input_topics import CLIENT_REFRESH_MS, InputTopics
from stream_masker.service.worker.topic_checks import PartitionCounts, check_partitions

TOPICS = TopicsSection(input=r"^ward\.[a-z]+")
INTERNAL = {TOPICS.calibration: 1, TOPICS.statistics: 1}


def with_outputs(*names: str, partitions: int = 2) -> dict[str, int]:
    """The partitions of input topics and of the topics of their records."""
    return {f"{name}{end}": partitions for name in names for end in ("", ".masked", ".rejected")}


class Broker:
    """The topics, and what is admitted."""

    def __init__(self, topics: TopicsSection = TOPICS, **counts: int) -> None:
        self.now = 0.0
        self.requests = 0
        self.counts = {**INTERNAL, **counts}
        self.admitted: list[str] = []
        self.failure: Exception | None = None
        existing = check_partitions(self.counts, topics)
        self.inputs = InputTopics(
            topics, existing, partitions=self.partitions, admit=self.admit, every=30, clock=lambda: self.now
        )

    def partitions(self) -> dict[str, int]:
        self.requests += 1
        if self.failure is not None:
            raise self.failure
        return self.counts

    def admit(self, topic: str) -> None:
        if topic.endswith("small"):
            raise ServiceError("max.message.bytes is too small")
        self.admitted.append(topic)


def test_a_new_topic_is_read_once_its_outputs_exist() -> None:
    broker = Broker(**with_outputs("ward.a"))
    inputs = broker.inputs
    assert (inputs.names, inputs.due) == (["ward.a"], False)
    broker.now = 30
    assert inputs.due
    broker.counts["ward.b"] = 3
    assert not inputs.refresh()
    assert (inputs.due, inputs.names) == (False, ["ward.a"])
    assert inputs.refused is not None
    assert "ward.b: topics do not exist: ward.b.masked, ward.b.rejected" in inputs.refused
    broker.counts |= with_outputs("ward.b", partitions=3)
    assert inputs.refresh()
    assert (inputs.names, inputs.refused, broker.admitted) == (["ward.a", "ward.b"], None, ["ward.b"])
    assert inputs.counts("ward.b") == PartitionCounts(3, 3, 3)
    assert not inputs.refresh()


def test_a_topic_that_is_gone_is_not_read_but_its_records_in_flight_are_written() -> None:
    broker = Broker(**with_outputs("ward.a", "ward.b"))
    del broker.counts["ward.a"]
    assert broker.inputs.refresh()
    assert broker.inputs.names == ["ward.b"]
    assert broker.inputs.counts("ward.a").rejected == 2


def test_a_new_topic_that_fails_a_check_is_left_out() -> None:
    broker = Broker(**with_outputs("ward.a"))
    broker.counts |= with_outputs("ward.small") | {**with_outputs("ward.c"), "ward.c": 5}
    assert not broker.inputs.refresh()
    assert broker.inputs.refused is not None
    assert "ward.small: max.message.bytes is too small" in broker.inputs.refused
    assert "ward.c.masked has 2 partitions and ward.c has 5" in broker.inputs.refused


def test_a_new_topic_whose_output_matches_the_expression_is_left_out() -> None:
    loops = TopicsSection(input=r"^a|ward\..*", rejected="rejections")
    broker = Broker(loops, **with_outputs("a"), rejections=1)
    broker.counts |= with_outputs("ward.b")
    assert not broker.inputs.refresh()
    assert broker.inputs.names == ["a"]
    assert "'ward.b.masked' matches topics.input, so its records would be masked again" in (broker.inputs.refused or "")


def test_a_loop_at_start_is_refused() -> None:
    loop = TopicsSection(input=r"^ward\..*")
    with pytest.raises(ServiceError, match=r"topics.output: 'ward.a.masked' matches topics.input"):
        check_partitions(INTERNAL | with_outputs("ward.a"), loop)


def test_no_topic_may_match_at_start() -> None:
    broker = Broker()
    assert broker.inputs.names == []
    broker.counts |= with_outputs("ward.a")
    assert broker.inputs.refresh()
    assert broker.inputs.names == ["ward.a"]


def test_the_topics_stay_the_same_while_no_broker_answers() -> None:
    broker = Broker(**with_outputs("ward.a"))
    broker.failure = KafkaException(KafkaError(KafkaError._TRANSPORT, "gone"))
    assert not broker.inputs.refresh()
    assert broker.inputs.names == ["ward.a"]


def test_named_topics_are_not_looked_for_again() -> None:
    named = TopicsSection(input=["a", "b"])
    broker = Broker(named, **with_outputs("a", "b"))
    broker.now = 1e9
    assert (broker.inputs.due, broker.inputs.names) == (False, ["a", "b"])


def test_the_partitions_of_outputs_are_requested_at_intervals_while_some_have_no_place() -> None:
    broker = Broker(**with_outputs("ward.a"))
    known = broker.counts["ward.a"]
    waiting = [Partition("ward.a", known), Partition("ward.a", known + 1)]
    assert [broker.inputs.has_place(partition) for partition in waiting * 5] == [False] * 10
    assert broker.requests == 1
    broker.counts["ward.a.masked"] = known + 2
    broker.now = 30
    assert not broker.inputs.has_place(waiting[0])
    broker.now = 30 + CLIENT_REFRESH_MS / 1000
    assert [broker.inputs.has_place(partition) for partition in waiting] == [True, True]
    assert broker.requests == 3
