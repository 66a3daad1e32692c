"""Readers of topics: one partition from an offset to its end, committed records only, without a consumer group."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, suppress

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, Message, TopicPartition

from stream_masker.errors import ServiceError
from stream_masker.service.configuration import Configuration
from stream_masker.service.kafka.clients import (
    ANSWER_SECONDS,
    READER_GROUP,
    confluent_properties,
    connect_consumer,
    require_broker,
)
from stream_masker.service.kafka.errors import ALLOW, CREATE_TOPICS, REMEDIES, NoBrokerError, explained

SINGLE_PARTITION = 0
"""The only partition of the calibration, statistics and drift topics; any further partitions are unused."""

POLL_TIMEOUT_SECONDS = 10.0
"""The timeout of a request to the broker."""

READ_MESSAGES = 100
"""The messages of one poll, at most: each may be as large as its topic allows."""

READ_POLL_SECONDS = 0.05
"""The timeout of one poll for records, in seconds."""

FETCH_WAIT_MS = 50
"""The time that a broker waits for records before it answers that there are none, in milliseconds."""


class StoppedError(ServiceError):
    """Reading was stopped early because its result is no longer needed."""


def connect_reader(configuration: Configuration, on_lost: Callable[[], object] = lambda: None) -> Consumer:
    """Return a consumer of committed records that joins no group, is assigned explicitly, and commits nothing.

    ``on_lost``: see ``connect_consumer``. Raises ConfigurationError for properties that librdkafka rejects.
    """
    own = {"group.id": READER_GROUP, "auto.offset.reset": "earliest", "fetch.wait.max.ms": FETCH_WAIT_MS}
    return connect_consumer({**confluent_properties(configuration), **own}, on_lost)


def read_to_end(
    consumer: Consumer,
    topic: str,
    *,
    partition: int = SINGLE_PARTITION,
    start: int = OFFSET_BEGINNING,
    stopped: Callable[[], bool] = lambda: False,
    patience: float = POLL_TIMEOUT_SECONDS,
) -> Iterator[Message]:
    """Yield every committed record of a partition from ``start`` to its present end, even while others write to it.

    Raises StoppedError as soon as ``stopped`` returns True; ServiceError if nothing arrives for ``patience`` seconds;
    KafkaException if the topic cannot be read.
    """
    assigned, bounds, idle_seconds = TopicPartition(topic, partition, start), None, 0.0
    with suppress(KafkaException):  # it looks up the leader, which an assigned consumer does after a pause of 0.5 s
        bounds = consumer.get_watermark_offsets(assigned, timeout=ANSWER_SECONDS)
    end = math.inf if bounds is None else bounds[1]
    consumer.assign([assigned])
    while idle_seconds < patience:
        if stopped():
            raise StoppedError(f"reading {topic} was stopped")
        messages = consumer.consume(READ_MESSAGES, timeout=READ_POLL_SECONDS)
        idle_seconds = 0.0 if messages else idle_seconds + READ_POLL_SECONDS
        for message in messages:
            if is_partition_end(message) or message.offset() >= end:
                return
            yield message
    raise ServiceError(f"{topic}, partition {partition}, cannot be read: no response for {patience:.0f} s")


def has_records(client: Consumer, topic: str, partition: int) -> bool:
    """Return whether a partition has committed records; True for a user who may not read it."""
    low, high = client.get_watermark_offsets(TopicPartition(topic, partition), POLL_TIMEOUT_SECONDS, False)
    if low >= high:
        return False
    try:
        return any(True for _ in read_to_end(client, topic, partition=partition))
    except (KafkaException, ServiceError):
        return True


def is_partition_end(message: Message) -> bool:
    """Return whether a message is the event that its partition was read to its end. Raises KafkaException for another
    event, which is an error."""
    error = message.error()
    if error is not None and error.code() != KafkaError._PARTITION_EOF:
        raise KafkaException(error)
    return error is not None


def require_topics(configuration: Configuration, names: Iterable[str], *, seconds: float = 10.0) -> dict[str, int]:
    """Return the number of partitions of each topic.

    Raises NoBrokerError if no broker answers within some seconds, and ServiceError if it refuses the user, or a topic
    does not exist or may not be described.
    """
    require_broker(confluent_properties(configuration), seconds=seconds)
    try:
        with closing(connect_reader(configuration)) as client:
            found = {name: client.list_topics(name, timeout=ANSWER_SECONDS).topics[name] for name in names}
    except KafkaException as failure:
        raise NoBrokerError(explained(failure.args[0])) from failure
    errors = {name: topic.error.code() for name, topic in found.items() if topic.error is not None}
    if refused := [name for name, code in errors.items() if REMEDIES.get(code) is ALLOW]:
        user = configuration.kafka.properties.get("sasl.username", "ANONYMOUS")
        raise ServiceError(f"the user {user!r} may not use the topics {', '.join(refused)}: {ALLOW}")
    if missing := [name for name, code in errors.items() if code != KafkaError.LEADER_NOT_AVAILABLE]:
        raise ServiceError(f"topics do not exist: {', '.join(missing)}: {CREATE_TOPICS}")
    return {name: len(topic.partitions) for name, topic in found.items()}
