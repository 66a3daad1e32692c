"""Records of a broker under test: writing, and reading to the end."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import Any

import orjson
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

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


def done(futures: Mapping[Any, Future[Any]]) -> None:
    """Wait until the broker has done what was asked for. Raises KafkaException if it refuses."""
    for future in futures.values():
        future.result(60)


def delete_topics(bootstrap: str, chosen: Callable[[str], bool]) -> None:
    """Delete the topics whose names are chosen."""
    admin = AdminClient({"bootstrap.servers": bootstrap, **QUIET})
    names = [name for name in admin.list_topics(timeout=60).topics if chosen(name)]
    done(admin.delete_topics(names) if names else {})


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
    found, ended, deadline = [], set[int](), time.monotonic() + timeout
    with closing(reader(bootstrap, topic, isolation=isolation)) as consumer:
        partitions = len(consumer.assignment())
        while len(ended) < partitions:
            assert time.monotonic() < deadline, f"only {len(ended)} of {partitions} partitions were read to their end"
            for message in consumer.consume(10_000, timeout=0.05):  # which always waits for its full timeout
                if message.error() is None:
                    found.append(as_record(message))
                else:
                    assert message.error().code() == KafkaError._PARTITION_EOF, message.error()
                    ended.add(message.partition())
    return sorted(found, key=lambda record: (record.partition, record.offset))


def reader(bootstrap: str, *topics: str, isolation: str = "read_committed") -> Consumer:
    """Return a consumer of all partitions of topics from their beginning, which reports each end as an error."""
    properties = {"enable.auto.commit": False, "enable.partition.eof": True, "fetch.wait.max.ms": 50, **QUIET}
    own = {"bootstrap.servers": bootstrap, "group.id": f"reader-{uuid.uuid4().hex}", "isolation.level": isolation}
    consumer = Consumer(properties | own)
    parts = [(t, p) for t in topics for p in consumer.list_topics(t, timeout=60).topics[t].partitions]
    consumer.assign([TopicPartition(*part, OFFSET_BEGINNING) for part in parts])
    return consumer


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
