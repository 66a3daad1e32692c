"""The checks of the worker's topics, and the properties of its clients."""

from __future__ import annotations

import pytest
from confluent_kafka import KafkaError, KafkaException
from support.small_configuration import small_configuration

from stream_masker.errors import ConfigurationError, ServiceError
from stream_masker.service.configuration import Configuration, parse_configuration
from stream_masker.service.configuration.topics import TopicsSection
from stream_masker.service.kafka.clients import connect_consumer, connect_producer, retry_delay
from stream_masker.service.kafka.messages import Partition
from stream_masker.service.kafka.names import consumer_group_id
from stream_masker.service.worker import topics as module
from stream_masker.service.worker.run import (
    consumer_properties,
    producer_properties,
    statistics_properties,
    transactional_id,
)
from stream_masker.service.worker.topics import (
    CLIENT_REFRESH_MS,
    FoundTopics,
    InputTopics,
    PartitionCounts,
    check_input,
    check_names,
)

TOPICS = TopicsSection()
COUNTS = {TOPICS.input: 4, TOPICS.output: 4, TOPICS.rejected: 2, TOPICS.calibration: 1, TOPICS.statistics: 1}


def configured(**sections: object) -> Configuration:
    return parse_configuration(small_configuration("a", **sections))


def with_properties(**properties: object) -> Configuration:
    return configured(kafka={"properties": {name.replace("_", "."): value for name, value in properties.items()}})


def test_the_partitions_of_the_worker_s_topics_are_counted() -> None:
    assert check_input(COUNTS, TOPICS, TOPICS.single) == PartitionCounts(input=4, output=4, rejected=2)
    assert check_input({**COUNTS, TOPICS.output: 9}, TOPICS, TOPICS.single).output == 9


def test_missing_topics_and_outputs_that_are_too_small_are_refused() -> None:
    there = {TOPICS.input: 4, TOPICS.output: 0, TOPICS.calibration: 1, TOPICS.statistics: 1}
    missing = rf"topics do not exist: {TOPICS.output}, {TOPICS.rejected}: `stream-masker topics` creates them"
    with pytest.raises(ServiceError, match=missing):
        check_input(there, TOPICS, TOPICS.single)
    with pytest.raises(ServiceError, match="has 3 partitions and discharges has 4"):
        check_input({**COUNTS, TOPICS.output: 3}, TOPICS, TOPICS.single)


def test_an_output_that_matches_the_expression_is_refused() -> None:
    with pytest.raises(ServiceError, match=r"topics.output: 'ward.a.masked' matches topics.input"):
        check_names(TopicsSection(input=r"^ward\..*"), ["ward.a"])


class Broker:
    """The partitions of topics, as a worker with an expression asks for them."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *names: str) -> None:
        self.now, self.requests = 0.0, 0
        self.counts = {"stream-masker.calibration": 1, "stream-masker.statistics": 1, "rejections": 1}
        self.failure: Exception | None = None
        self.add(*names)
        monkeypatch.setattr(module, "connect_admin", lambda _: None)
        monkeypatch.setattr(module, "check_topic_settings", lambda *_: None)
        monkeypatch.setattr(module, "partition_counts", self.partition_counts)
        configuration = configured(topics={"input": r"^ward\.[a-z]+", "rejected": "rejections"})
        found = FoundTopics({name: check_input(self.counts, configuration.topics, name) for name in names}, 1)
        self.topics = InputTopics(configuration, found, lambda: self.now)

    def add(self, *names: str, partitions: int = 2) -> None:
        self.counts |= {f"{name}{end}": partitions for name in names for end in ("", ".masked")}

    def partition_counts(self, _: object) -> dict[str, int]:
        self.requests += 1
        if self.failure is not None:
            raise self.failure
        return self.counts

    def refresh(self) -> list[str]:
        self.now += 30
        self.topics.refresh()
        return self.topics.names


def test_a_new_topic_is_read_once_its_outputs_exist(monkeypatch: pytest.MonkeyPatch) -> None:
    broker = Broker(monkeypatch, "ward.a")
    broker.counts["ward.b"] = 3
    assert broker.refresh() == ["ward.a"]
    assert "ward.b: topics do not exist: ward.b.masked" in (broker.topics.refused or "")
    broker.add("ward.b")
    assert broker.refresh() == ["ward.a", "ward.b"]
    assert broker.topics.refused is None
    del broker.counts["ward.a"]
    assert broker.refresh() == ["ward.b"]
    assert broker.topics.counts("ward.a").output == 2, "its records in flight are still written"


def test_the_topics_stay_the_same_while_no_broker_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    broker = Broker(monkeypatch, "ward.a")
    broker.failure = KafkaException(KafkaError(KafkaError._TRANSPORT, "gone"))
    assert broker.refresh() == ["ward.a"]


def test_partitions_without_a_place_are_asked_for_at_intervals(monkeypatch: pytest.MonkeyPatch) -> None:
    broker = Broker(monkeypatch, "ward.a")
    waiting = [Partition("ward.a", 2), Partition("ward.a", 3)]
    assert [broker.topics.has_place(partition) for partition in waiting * 5] == [False] * 10
    assert broker.requests == 1
    broker.counts["ward.a.masked"] = 4
    broker.now = 30
    assert not broker.topics.has_place(waiting[0])
    broker.now = 30 + CLIENT_REFRESH_MS / 1000
    assert [broker.topics.has_place(partition) for partition in waiting] == [True, True]


def test_properties_that_exactly_once_depends_on_cannot_be_configured() -> None:
    given = with_properties(enable_idempotence=False, partition_assignment_strategy="range", auto_offset_reset="latest")
    consumer, producer = consumer_properties(given), producer_properties(given, "group.one")
    assert consumer["isolation.level"] == statistics_properties(given)["isolation.level"] == "read_committed"
    assert (consumer["enable.auto.commit"], consumer["auto.offset.reset"]) == (False, "error")
    assert consumer["partition.assignment.strategy"] == "cooperative-sticky"
    assert (producer["enable.idempotence"], producer["transactional.id"]) == (True, "group.one")


def test_other_properties_can_be_configured() -> None:
    producer = producer_properties(with_properties(compression_type="zstd", linger_ms=50), "group.one")
    assert (producer["compression.type"], producer["linger.ms"]) == ("zstd", 50)


def test_a_static_member_is_identified_by_its_instance() -> None:
    static = configured(worker={"instance": "pod-3", "static_member": True})
    assert consumer_properties(static)["group.instance.id"] == "pod-3"
    assert "group.instance.id" not in consumer_properties(configured(worker={"instance": "pod-3"}))


def test_workers_of_one_input_share_a_group_and_have_their_own_transactional_ids() -> None:
    assert consumer_group_id(configured()) == "stream-masker.discharges"
    assert consumer_group_id(with_properties(group_id="mine")) == "mine"
    assert transactional_id(configured(worker={"instance": "pod-3"})) == "stream-masker.discharges.pod-3"
    assert transactional_id(configured()).startswith("stream-masker.discharges.")


@pytest.mark.parametrize(
    ("properties", "seconds"),
    [
        ({}, 0.4),
        ({"retry_backoff_ms": 100}, 0.08),
        ({"retry_backoff_ms": 1000, "retry_backoff_max_ms": 200}, 0.2),
        ({"retry_backoff_ms": 5000, "retry_backoff_max_ms": 5000}, 0.5),
    ],
)
def test_the_retry_delay_is_the_least_time_before_a_request_is_sent_again(
    properties: dict[str, int], seconds: float
) -> None:
    assert retry_delay(producer_properties(with_properties(**properties), "id")) == pytest.approx(seconds)


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_librdkafka_accepts_the_properties(protocol: str) -> None:
    given = with_properties(group_protocol=protocol)
    assert ("partition.assignment.strategy" in consumer_properties(given)) is (protocol == "classic")
    connect_consumer(consumer_properties(given)).close()
    connect_producer(producer_properties(given, "group.one"))


def test_a_property_that_librdkafka_refuses_is_a_configuration_error() -> None:
    with pytest.raises(ConfigurationError, match=r"kafka\.properties cannot be used: .*no\.such\.property"):
        connect_consumer(consumer_properties(with_properties(no_such_property=1)))
