"""Skipping of records that Kafka's client cannot read, by a person's command.

The records of the unreadable batch are rejected with the reason ``skipped``, and the group's offset passes them, in one
transaction. Workers may run: they find the new offset and continue behind the records.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import closing

from confluent_kafka import Consumer, KafkaError, TopicPartition

from stream_masker.errors import ServiceError
from stream_masker.pipeline.messages import encode_rejection
from stream_masker.pipeline.reasons import Reason
from stream_masker.pipeline.records import Rejected
from stream_masker.service.audit import RecordLocation
from stream_masker.service.configuration import Configuration
from stream_masker.service.kafka.clients import confluent_properties, connect_consumer, connect_producer, retry_delay
from stream_masker.service.kafka.failures import require_broker
from stream_masker.service.kafka.messages import OutgoingMessage, SendMessages
from stream_masker.service.kafka.names import consumer_group_id, transactional_id_prefix
from stream_masker.service.kafka.topic_reader import require_topics_of
from stream_masker.service.kafka.transactional_producer import TransactionalProducer, TransactionOutcome
from stream_masker.service.worker.client_properties import producer_properties

SKIP_REQUEST_SECONDS = 10.0
"""Time limit of a request, and of reading the record at an offset."""


def skip(configuration: Configuration, location: RecordLocation) -> range:
    """Skip an unreadable record and those of its batch; return their offsets.

    Raises ServiceError if the offset can be read, if records before it are not masked yet, or if it is skipped already.
    """
    topic = configuration.topics.single
    rejected = configuration.topics.of(topic).rejected
    require_broker(confluent_properties(configuration))
    require_topics_of(configuration, [topic, rejected])
    with closing(_connect(configuration)) as consumer:
        _check(consumer, topic, location)
        end = first_readable(lambda offset: _read(consumer, topic, location.partition, offset) is None, location)
        rejections = [_rejection(topic, location.partition, offset) for offset in range(location.offset, end)]
        partitions = consumer.list_topics(rejected, timeout=SKIP_REQUEST_SECONDS).topics[rejected].partitions

        def write(send: SendMessages) -> None:
            send(rejected, location.partition % len(partitions), rejections)

        _commit(configuration, write, TopicPartition(topic, location.partition, end), consumer)
    return range(location.offset, end)


def first_readable(readable: Callable[[int], bool], location: RecordLocation) -> int:
    """Return the first offset behind an unreadable one that is readable; all behind it are, too."""
    unread, step = location.offset, 1
    while not readable(unread + step):
        unread, step = unread + step, 2 * step
    read = unread + step
    while read - unread > 1:
        middle = (unread + read) // 2
        unread, read = (unread, middle) if readable(middle) else (middle, read)
    return read


def _connect(configuration: Configuration) -> Consumer:
    properties = confluent_properties(
        configuration,
        group_id=consumer_group_id(configuration),
        enable_auto_commit=False,
        enable_partition_eof=True,
        isolation_level="read_committed",
        auto_offset_reset="error",
    )
    return connect_consumer({**properties, "log_level": 0})


def _check(consumer: Consumer, topic: str, location: RecordLocation) -> None:
    """Raise ServiceError unless the record is the next one to be read, and cannot be."""
    partition = TopicPartition(topic, location.partition)
    low, high = consumer.get_watermark_offsets(partition, timeout=SKIP_REQUEST_SECONDS)
    if not low <= location.offset < high:
        raise ServiceError(f"{location} of {topic} does not exist: the partition has the offsets {low} to {high - 1}")
    [committed] = consumer.committed([partition], timeout=SKIP_REQUEST_SECONDS)
    if committed.offset > location.offset:
        raise ServiceError(f"{location} of {topic} is already masked, rejected or skipped")
    start = max(committed.offset, low)
    unreadable = _read(consumer, topic, location.partition, start)
    if unreadable is None:
        raise ServiceError(f"{topic} can be read at partition {location.partition}, offset {start}: nothing is skipped")
    if unreadable != location.offset:
        raise ServiceError(f"{topic} cannot be read at partition {location.partition}, offset {unreadable}: skip that")


def _read(consumer: Consumer, topic: str, partition: int, offset: int) -> int | None:
    """Return the offset that cannot be read, from an offset on; None if a record is read, or the partition's end."""
    consumer.assign([TopicPartition(topic, partition, offset)])
    deadline = time.monotonic() + SKIP_REQUEST_SECONDS
    while time.monotonic() < deadline:
        message = consumer.poll(0.1)
        if message is None or message.partition() != partition:
            continue
        error = message.error()
        readable = error is None or error.code() == KafkaError._PARTITION_EOF
        return None if readable else max(offset, int(message.offset() or 0))
    raise ServiceError(
        f"partition {partition} of {topic}, offset {offset}: no answer within {SKIP_REQUEST_SECONDS:.0f} s"
    )


def _commit(
    configuration: Configuration, write: Callable[[SendMessages], None], end: TopicPartition, consumer: Consumer
) -> None:
    """Write the rejections and pass the records, in one transaction. Raises ServiceError if it fails."""
    identity = f"{transactional_id_prefix(configuration)}skip"
    properties = producer_properties(configuration, identity)
    producer = TransactionalProducer(
        connect=lambda: connect_producer(properties),
        transactional_id=identity,
        running=lambda: True,
        expiry=float(properties["transaction.timeout.ms"]) / 1000,
        retry_delay=retry_delay(properties),
    )
    producer.open()

    outcome = producer.begin(write) or producer.commit([end], consumer.consumer_group_metadata(), lambda: None)
    if outcome is not TransactionOutcome.COMMITTED:
        raise ServiceError(f"the transaction has the outcome {outcome}: run the command again")


def _rejection(topic: str, partition: int, offset: int) -> OutgoingMessage:
    value = encode_rejection(Rejected(offset, Reason.SKIPPED), topic=topic, partition=partition)
    return value, f"{topic}:{partition}:{offset}".encode(), 0, []
