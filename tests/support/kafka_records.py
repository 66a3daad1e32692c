"""Topics and records of a broker under test: unique topics, writing and reading of records."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import orjson
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

QUIET = {"log_level": 0}

IN_FLIGHT = 50_000
"""The maximum number of queued messages in ``write``; librdkafka's queue holds twice as many."""

_idle: dict[str, Producer] = {}
"""Reusable producers by bootstrap address; a new one needs half a second for its producer id."""


@dataclass(frozen=True)
class Record:
    """A record of a partition; ``timestamp`` in milliseconds since the epoch."""

    topic: str
    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    headers: dict[str, bytes | None]
    timestamp: int

    @property
    def json(self) -> Any:
        return orjson.loads(self.value or b"null")


class Topics:
    """Creates topics with unique names and removes them at the end."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap
        self.admin = AdminClient({"bootstrap.servers": bootstrap, **QUIET})
        self.names: list[str] = []

    def __call__(self, name: str = "topic", *, partitions: int = 1, config: Mapping[str, str] | None = None) -> str:
        """Create a topic and return its name."""
        unique = self.name(name)
        created = self.admin.create_topics([NewTopic(unique, partitions, config=dict(config or {}))])
        created[unique].result(60)
        self.wait(unique, partitions)
        return unique

    def name(self, name: str = "topic") -> str:
        """Return a unique name for a topic that the test creates itself."""
        unique = f"{name}-{uuid.uuid4().hex[:8]}"
        self.names.append(unique)
        return unique

    def wait(self, name: str, partitions: int, timeout: float = 120.0) -> None:
        """Wait until every partition has a leader."""
        deadline = time.monotonic() + timeout
        while not self.led(name, partitions):
            assert time.monotonic() < deadline, f"topic {name} has no leaders after {timeout} s"
            time.sleep(0.05)

    def led(self, name: str, partitions: int) -> bool:
        found = self.admin.list_topics(timeout=60).topics.get(name)
        return found is not None and sum(p.leader >= 0 for p in found.partitions.values()) == partitions

    def remove(self) -> None:
        """Delete every topic that exists."""
        existing = [name for name in self.names if name in self.admin.list_topics(timeout=60).topics]
        for future in self.admin.delete_topics(existing).values() if existing else ():
            future.result(60)


def write(bootstrap: str, topic: str, records: Iterable[Mapping[str, Any]]) -> None:
    """Produce records, given as keyword arguments of ``Producer.produce`` (value, key, partition, headers, ...)."""
    errors: list[KafkaError] = []
    producer = _idle.pop(bootstrap, None) or Producer(
        {"bootstrap.servers": bootstrap, "linger.ms": 5, "enable.idempotence": True, **QUIET}
    )
    for record in records:
        while len(producer) >= IN_FLIGHT:
            producer.poll(0.1)
        producer.produce(topic, on_delivery=lambda error, _: errors.append(error) if error else None, **record)
        producer.poll(0)
    assert producer.flush(60) == 0, f"{len(producer)} records were not delivered"
    assert not errors, f"{len(errors)} records failed: {errors[0]}"
    _idle[bootstrap] = producer


def read_all(bootstrap: str, topic: str, *, isolation: str = "read_committed", timeout: float = 120.0) -> list[Record]:
    """Return every record of a topic up to its present end, sorted by partition and offset."""
    deadline = time.monotonic() + timeout
    consumer = Consumer(reader_properties(bootstrap, isolation))
    try:
        partitions = consumer.list_topics(topic, timeout=60).topics[topic].partitions
        consumer.assign([TopicPartition(topic, number, OFFSET_BEGINNING) for number in partitions])
        messages = list(until_ends(consumer, len(partitions), deadline))
    finally:
        consumer.close()
    return sorted(map(as_record, messages), key=lambda record: (record.partition, record.offset))


def reader_properties(bootstrap: str, isolation: str) -> dict[str, Any]:
    return {
        "bootstrap.servers": bootstrap,
        "group.id": f"reader-{uuid.uuid4().hex}",
        "enable.auto.commit": False,
        "enable.partition.eof": True,
        "fetch.wait.max.ms": 50,
        "isolation.level": isolation,
        **QUIET,
    }


def until_ends(consumer: Consumer, partitions: int, deadline: float) -> Iterator[Message]:
    """Yield messages until each partition has reported its end. ``consume`` always waits for its full timeout."""
    ended: set[int] = set()
    while len(ended) < partitions:
        assert time.monotonic() < deadline, f"only {len(ended)} of {partitions} partitions were read to their end"
        for message in consumer.consume(10_000, timeout=0.05):
            error = message.error()
            if error is None:
                yield message
            else:
                assert error.code() == KafkaError._PARTITION_EOF, error
                ended.add(message.partition())


def as_record(message: Message) -> Record:
    return Record(
        message.topic(),
        message.partition(),
        message.offset(),
        message.key(),
        message.value(),
        dict(message.headers() or ()),
        message.timestamp()[1],
    )


@contextmanager
def mock_broker(brokers: int = 1) -> Iterator[str]:
    """Run librdkafka's mock broker, which creates topics on first use with four partitions; yield its address."""
    producer = Producer({"test.mock.num.brokers": brokers, "bootstrap.servers": "mock", **QUIET})
    yield ",".join(f"{broker.host}:{broker.port}" for broker in producer.list_topics(timeout=60).brokers.values())
    producer.flush(1)
