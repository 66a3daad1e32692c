"""A record that Kafka's client cannot read: the worker is not ready and says where, and masks all other partitions."""

from __future__ import annotations

import re

from confluent_kafka import Consumer, Producer, TopicPartition
from kafka_records import QUIET
from service import START, Service, ids, value

BEYOND = 101_000_000
"""Bytes of one record that are more than the client decompresses."""


def bomb(service: Service) -> None:
    """Publish a batch of three records to partition 0; the second one has 101 MB of blanks, in some kilobytes."""
    service.alter("input", compression_type="producer", max_message_bytes=str(2 * BEYOND))
    properties = {"compression.type": "zstd", "message.max.bytes": 2 * BEYOND, "batch.size": 2 * BEYOND}
    producer = Producer({"bootstrap.servers": service.bootstrap, "linger.ms": 60_000, **properties, **QUIET})
    for content in (value(100), b" " * BEYOND, value(102)):
        producer.produce(service.topics["input"], content, partition=0, timestamp=START)
    assert producer.flush(30) == 0


def move_offset(service: Service, offset: int) -> None:
    """Move the group's offset of partition 0, as kafka-consumer-groups.sh does."""
    consumer = Consumer({"bootstrap.servers": service.bootstrap, "group.id": service.group, **QUIET})
    consumer.commit(offsets=[TopicPartition(service.topics["input"], 0, offset)], asynchronous=False)
    consumer.close()


def test_a_record_of_more_than_100_megabytes_is_named_and_the_others_are_masked(service: Service) -> None:
    service.create(2)
    service.publish()
    service.produce(range(20), partitions=2)
    bomb(service)
    service.produce(range(20, 40), partitions=2)
    with service.running() as worker:
        worker.wait(lambda: worker.metric("unreadable_partitions") == 1, "the error that lasts")
        assert worker.says(f"partition 0 of {service.topics['input']} cannot be read at offset 10: ")
        assert not worker.ready()
        worker.wait(lambda: worker.metric("records_in_total") == 30, "the records of the other partition")
    move_offset(service, 13)
    with service.running() as worker:
        worker.wait(lambda: worker.metric("records_in_total") == 10, "the records behind it")
        worker.wait(worker.ready, "readiness")
    assert sorted(ids(service.read("output"))) == list(range(40))
    assert not re.search(r"Traceback", service.logs())
