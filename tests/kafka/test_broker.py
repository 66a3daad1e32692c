"""The test brokers: transactions, isolation, and, for the fault tests of the schedule, crashes and restarts."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from confluent_kafka import Producer
from kafka_broker import Cluster
from kafka_records import Topics, mock_broker, read_all, write


def transact(bootstrap: str, topic: str, values: list[bytes], *, end: Callable[[Producer], None]) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": topic})
    producer.init_transactions(30)
    producer.begin_transaction()
    for value in values:
        producer.produce(topic, value)
    producer.flush(30)
    end(producer)


def test_records_are_read_in_partition_order(kafka: str, topics: Topics) -> None:
    topic = topics(partitions=2)
    write(kafka, topic, [{"value": b"%d" % i, "key": b"k", "partition": i % 2} for i in range(10)])
    records = read_all(kafka, topic)
    assert [(r.partition, r.offset, r.value) for r in records] == [
        (i % 2, i // 2, b"%d" % i) for i in (0, 2, 4, 6, 8, 1, 3, 5, 7, 9)
    ]


def test_read_committed_hides_aborted_records(kafka: str, topics: Topics) -> None:
    topic = topics()
    transact(kafka, topic, [b"aborted"], end=Producer.abort_transaction)
    transact(kafka, topic, [b"committed"], end=Producer.commit_transaction)
    assert [r.value for r in read_all(kafka, topic)] == [b"committed"]
    assert [r.value for r in read_all(kafka, topic, isolation="read_uncommitted")] == [b"aborted", b"committed"]


def test_topic_names_are_unique(topics: Topics) -> None:
    assert topics.name("same") != topics.name("same")


@pytest.mark.scheduled
def test_acknowledged_records_survive_a_broker_crash(kafka_cluster: Cluster, cluster_topics: Topics) -> None:
    topic = cluster_topics(partitions=3)
    write(kafka_cluster.bootstrap, topic, [{"value": b"before %d" % i, "partition": i % 3} for i in range(30)])
    kafka_cluster.kill(2)
    write(kafka_cluster.bootstrap, topic, [{"value": b"while %d" % i, "partition": i % 3} for i in range(30)])
    assert len(read_all(kafka_cluster.bootstrap, topic)) == 60


@pytest.mark.scheduled
def test_stopped_broker_is_restarted_for_the_next_test(kafka_cluster: Cluster) -> None:
    assert all(broker.running for broker in kafka_cluster.brokers.values())


@pytest.mark.scheduled
def test_broker_restarts_by_id(kafka_cluster: Cluster, cluster_topics: Topics) -> None:
    topic = cluster_topics()
    write(kafka_cluster.bootstrap, topic, [{"value": b"kept"}])
    process = kafka_cluster.brokers[1].process
    kafka_cluster.restart(1)
    assert kafka_cluster.brokers[1].process is not process
    assert [r.value for r in read_all(kafka_cluster.bootstrap, topic)] == [b"kept"]


def test_mock_broker_creates_topics_on_first_use() -> None:
    with mock_broker() as bootstrap:
        write(bootstrap, "unheard-of", [{"value": b"x", "partition": 3}])
        assert [(r.partition, r.value) for r in read_all(bootstrap, "unheard-of")] == [(3, b"x")]
