"""The checks of the worker's topics, and the properties of its clients."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import yaml
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer

from stream_masker.errors import ConfigurationError, ServiceError
from stream_masker.service.configuration import Configuration, parse_configuration
from stream_masker.service.configuration.topics import TopicsSection
from stream_masker.service.kafka.clients import connect_consumer, connect_producer, retry_delay
from stream_masker.service.kafka.names import consumer_group_id
from stream_masker.service.worker.client_properties import (
    consumer_properties,
    producer_properties,
    statistics_properties,
    transactional_ids,
)
from stream_masker.service.worker.topic_checks import FoundTopics, PartitionCounts, check_partitions, find_partitions

TOPICS = TopicsSection()
COUNTS = {
    TOPICS.input: 4,
    TOPICS.output: 4,
    TOPICS.rejected: 2,
    TOPICS.calibration: 1,
    TOPICS.statistics: 1,
}


def test_what_a_fetch_takes_follows_from_the_memory_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    module = "stream_masker.service.worker.client_properties.memory_limit"
    larger = "kafka: {properties: {message.max.bytes: 64000000}}"
    explicit = "kafka: {properties: {fetch.max.bytes: 7000000}}"
    for limit, text, expected in (
        (768 << 20, "", 48 << 20),
        (None, "", 50 << 20),
        (64 << 30, "", 50 << 20),
        (1 << 20, "", 1_000_000),
        (768 << 20, larger, 64_000_000),
        (768 << 20, explicit, 7_000_000),
    ):
        monkeypatch.setattr(module, lambda limit=limit: limit)
        properties = consumer_properties(configuration(text))
        assert properties["fetch.max.bytes"] == expected
        connect_consumer(properties).close()


def configuration(text: str = "") -> Configuration:
    base = """
ontologies: {icd: {source: icd10cm}}
attributes: {principal: {path: code, ontology: icd}}
fields: {unlisted: drop}
noise_key: position
mechanism: {reference: mean}
"""
    return parse_configuration(yaml.safe_load(base + text))


def test_the_partitions_of_the_worker_s_topics_are_counted() -> None:
    counts = PartitionCounts(input=4, output=4, rejected=2)
    assert check_partitions(COUNTS, TOPICS) == FoundTopics({TOPICS.single: counts}, statistics=1)


def test_missing_topics_are_named_with_the_command_that_creates_them() -> None:
    there = {TOPICS.input: 4, TOPICS.output: 0, TOPICS.calibration: 1, TOPICS.statistics: 1}
    with pytest.raises(
        ServiceError,
        match=rf"topics do not exist: {TOPICS.output}, {TOPICS.rejected}: `stream-masker topics` creates them",
    ):
        check_partitions(there, TOPICS)


def test_an_output_with_fewer_partitions_than_the_input_is_refused() -> None:
    with pytest.raises(ServiceError, match="has 3 partitions and discharges has 4"):
        check_partitions({**COUNTS, TOPICS.output: 3}, TOPICS)


def test_the_output_may_have_more_partitions() -> None:
    assert check_partitions({**COUNTS, TOPICS.output: 9}, TOPICS).inputs[TOPICS.single].output == 9


class FakeClient:
    def __init__(self, failures: int) -> None:
        self.failures = failures

    def list_topics(self, *, timeout: float):
        if self.failures:
            self.failures -= 1
            raise KafkaException(KafkaError(KafkaError._TRANSPORT, "connection refused"))
        return SimpleNamespace(
            topics={name: SimpleNamespace(partitions=dict.fromkeys(range(n))) for name, n in COUNTS.items()}
        )


def test_the_worker_waits_for_a_broker() -> None:
    reasons: list[str] = []
    partitions = find_partitions(FakeClient(2), TOPICS, wait=lambda reason: reasons.append(reason) or True)
    assert partitions is not None
    assert reasons == [
        reason for reason in reasons if reason.startswith("no broker answers: connection refused: check that")
    ]
    assert len(reasons) == 2


def test_waiting_for_a_broker_ends_when_stopping() -> None:
    assert find_partitions(FakeClient(10), TOPICS, wait=lambda _: False) is None


def test_properties_that_exactly_once_depends_on_cannot_be_configured() -> None:
    given = configuration(
        "kafka: {properties: {enable.idempotence: false, partition.assignment.strategy: range, "
        "delivery.report.only.error: false}}"
    )
    consumer, producer = consumer_properties(given), producer_properties(given, "group.one")
    assert consumer["isolation.level"] == statistics_properties(given)["isolation.level"] == "read_committed"
    assert consumer["enable.auto.commit"] is False
    assert consumer["partition.assignment.strategy"] == "cooperative-sticky"
    assert (producer["enable.idempotence"], producer["transactional.id"]) == (True, "group.one")


def test_a_static_member_is_identified_by_its_instance() -> None:
    static = configuration("worker: {instance: pod-3, static_member: true}")
    assert consumer_properties(static)["group.instance.id"] == "pod-3"
    assert "group.instance.id" not in consumer_properties(configuration("worker: {instance: pod-3}"))
    with pytest.raises(ConfigurationError, match=r"worker\.static_member: needs worker\.instance"):
        configuration("worker: {static_member: true}")


def test_other_properties_can_be_configured() -> None:
    given = configuration(
        "kafka: {properties: {compression.type: zstd, linger.ms: 50, auto.offset.reset: latest, "
        "transaction.timeout.ms: 30000}}"
    )
    producer = producer_properties(given, "group.one")
    assert (producer["compression.type"], producer["linger.ms"], producer["transaction.timeout.ms"]) == (
        "zstd",
        50,
        30_000,
    )
    assert consumer_properties(given)["auto.offset.reset"] == "latest"


def test_a_new_group_reads_from_the_beginning() -> None:
    assert consumer_properties(configuration())["auto.offset.reset"] == "earliest"


def test_the_producer_s_queue_holds_a_batch() -> None:
    producer = producer_properties(configuration("worker: {batch_records: 200000, batch_bytes: 200000000}"), "id")
    assert producer["queue.buffering.max.messages"] > 400_000
    assert producer["queue.buffering.max.kbytes"] * 1024 >= 4 * 200_000_000 - 1024


@pytest.mark.parametrize(
    ("properties", "seconds"),
    [
        ("", 0.4),
        ("retry.backoff.ms: 100", 0.08),
        ("retry.backoff.ms: 1000, retry.backoff.max.ms: 200", 0.2),
        ("retry.backoff.ms: 5000, retry.backoff.max.ms: 5000", 0.5),
    ],
)
def test_the_retry_delay_is_the_least_time_before_a_request_is_sent_again(properties: str, seconds: float) -> None:
    given = configuration(f"kafka: {{properties: {{{properties}}}}}")
    assert retry_delay(producer_properties(given, "id")) == pytest.approx(seconds)


def test_the_protocol_of_kip_848_has_no_client_side_assignor() -> None:
    given = configuration("kafka: {properties: {group.protocol: consumer}}")
    assert "partition.assignment.strategy" not in consumer_properties(given)


def test_workers_of_one_input_share_a_group_and_have_their_own_transactional_ids() -> None:
    assert consumer_group_id(configuration()) == "stream-masker.discharges"
    assert consumer_group_id(configuration("kafka: {properties: {group.id: mine}}")) == "mine"
    named = transactional_ids(configuration("worker: {instance: pod-3}"))
    assert named == ["stream-masker.discharges.pod-3:0", "stream-masker.discharges.pod-3:1"]
    assert all(name.startswith("stream-masker.discharges.") for name in transactional_ids(configuration()))
    assert statistics_properties(configuration())["group.id"] != consumer_group_id(configuration())


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_librdkafka_accepts_the_properties(protocol: str) -> None:
    given = configuration(f"kafka: {{bootstrap_servers: '127.0.0.1:1', properties: {{group.protocol: {protocol}}}}}")
    consumer = connect_consumer(consumer_properties(given))
    assert isinstance(consumer, Consumer)
    consumer.close()
    assert isinstance(connect_producer(producer_properties(given, "group.one")), Producer)


def test_a_property_that_librdkafka_refuses_is_a_configuration_error() -> None:
    given = configuration("kafka: {properties: {no.such.property: 1}}")
    with pytest.raises(ConfigurationError, match=r"kafka\.properties cannot be used: .*no\.such\.property"):
        connect_consumer(consumer_properties(given))
