"""Construction of a mask worker from a configuration, and the checks before it starts."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from contextlib import closing
from functools import partial

from confluent_kafka import Consumer, KafkaException, TopicPartition
from prometheus_client import CollectorRegistry

from stream_masker.errors import ServiceError
from stream_masker.pipeline.messages import block_key, encode_block
from stream_masker.pipeline.records import Block
from stream_masker.service.configuration import Configuration
from stream_masker.service.configuration.secret import read_secret, secret_id, topic_seal
from stream_masker.service.formats import wire_format
from stream_masker.service.kafka.clients import (
    ClientProperties,
    confluent_properties,
    connect_consumer,
    connect_producer,
    consumer_group_id,
)
from stream_masker.service.kafka.errors import ALLOW, NoBrokerError, is_refusal
from stream_masker.service.kafka.reader import POLL_TIMEOUT_SECONDS, connect_reader, read_to_end, require_topics
from stream_masker.service.masking import Masking
from stream_masker.service.observability.logs import describe
from stream_masker.service.observability.metrics import Health, Metrics
from stream_masker.service.worker.groups import MicroWindows
from stream_masker.service.worker.source import Limits, Source
from stream_masker.service.worker.statistics import ActiveStatistics
from stream_masker.service.worker.transactions import Outputs, SessionLostError, Transactions
from stream_masker.service.worker.worker import Clients, Worker, WorkerReport

WORKER_TRANSACTION_MS = 20_000
"""The default transaction timeout: committed readers wait at most this long for the transaction of a dead worker."""

BATCH_BYTES = 16_777_216
"""The greatest size of the keys, values and headers of a batch, beyond its last read, and of a group. It is also the
default size of a broker's response, which stands in memory once more while it is read."""


def check_start(configuration: Configuration) -> None:
    """Raise ServiceError for topics that are missing, or if records of the input would be masked again.

    Kafka deletes the offsets of a group that has been empty for some days. Raises NoBrokerError or KafkaException if no
    broker answers.
    """
    topics = configuration.topics
    names = [topics.input, topics.output, topics.rejected, topics.calibration, topics.statistics]
    counts = require_topics(configuration, names, seconds=POLL_TIMEOUT_SECONDS / 2)
    both = [TopicPartition(topics.input, n) for n in range(min(counts[topics.input], counts[topics.output]))]
    with closing(connect_consumer(consumer_properties(configuration))) as client:
        committed = client.committed(both, POLL_TIMEOUT_SECONDS)
        for error in (p.error for p in committed if p.error is not None):
            raise KafkaException(error)
        unknown = [one.partition for one in committed if one.offset < 0]
        masked = [n for n in unknown if all(_has_records(client, t, n) for t in (topics.output, topics.input))]
    if masked:
        group = consumer_group_id(configuration)
        raise ServiceError(
            f"the group {group} has no offsets of {topics.input}, partitions {', '.join(map(str, masked))}, but "
            f"{topics.output} has records there, so that the input would be masked again: choose where to go on with "
            f"`kafka-consumer-groups.sh --reset-offsets --group {group} --topic {topics.input} --execute` and "
            f"--to-latest, --to-datetime, or --to-earliest"
        )


def _has_records(client: Consumer, topic: str, partition: int) -> bool:
    """Return whether a partition has committed records; True for a user who may not read it."""
    low, high = client.get_watermark_offsets(TopicPartition(topic, partition), POLL_TIMEOUT_SECONDS, False)
    if low >= high:
        return False
    try:
        return any(True for _ in read_to_end(client, topic, partition=partition))
    except (KafkaException, ServiceError):
        return True


def run_worker(
    configuration: Configuration, *, registry: CollectorRegistry, health: Health, stop: threading.Event
) -> None:
    """Run a mask worker until ``stop`` is set. Metrics go to ``registry``, liveness and readiness to ``health``.

    Raises ConfigurationError if the configuration names a file that does not exist or cannot be used, and ServiceError
    if a topic is missing, if the group's offsets are gone, or if Kafka refuses the worker.
    """
    topics, limits, groups = configuration.topics, configuration.worker, configuration.groups
    masking, report = Masking(configuration, format_of=wire_format), WorkerReport(Metrics(registry, "worker"), health)
    taxonomies, mechanism, context = masking.taxonomies, masking.mechanism, masking.mechanism.context
    properties = producer_properties(configuration, transactional_id(configuration))
    seal, outage = topic_seal(configuration, topics.calibration), threading.Event()

    def running(seconds: float = 0.0) -> bool:
        stops = stop.wait(seconds) if seconds else stop.is_set()
        health.beat()
        return not stops

    def check() -> None:
        try:
            check_start(configuration)
        except (NoBrokerError, KafkaException) as failure:
            if isinstance(failure, KafkaException) and is_refusal(failure.args[0], ALLOW):
                raise
            reason = describe(failure)
            health.reason("brokers", reason)
            raise SessionLostError(reason) from None
        health.reason("brokers", None)

    def encode(block: Block) -> tuple[bytes, bytes]:
        key = block_key(block)
        return key, seal.seal(key, encode_block(block, taxonomies, context))

    def connect(revoke: Callable[[set[int]], None]) -> Clients:
        outage.clear()
        source = Source(
            connect_consumer(consumer_properties(configuration), outage.set),
            topics.input,
            Limits(limits.batch_records, BATCH_BYTES, limits.batch_delay or 0.0),
            running=running,
            revoke=revoke,
        )
        transactions = Transactions(partial(connect_producer, properties), Outputs(topics, encode), running=running)
        windows = MicroWindows(Limits(groups.records, BATCH_BYTES, groups.delay), lambda: mechanism.group_minimum)
        return source, transactions, windows if mechanism.needs_group else None

    statistics = ActiveStatistics(
        lambda: connect_reader(configuration, outage.set),
        masking,
        topic_seal(configuration, topics.statistics),
        secret_id=secret_id(read_secret(configuration)),
        on_refused=report.refused_message,
    )
    Worker(
        connect=connect,
        statistics=statistics,
        running=running,
        report=report,
        check=check,
        had_outage=outage.is_set,
    ).run()


def transactional_id(configuration: Configuration) -> str:
    """Return the id of this worker's producer: the group, and the worker's instance.

    The instance is ``worker.instance``, or the host's name and the native id of the calling thread, which on the main
    thread is the process id. A worker that restarts with the same id completes or aborts its open transaction at once.
    Two workers must never share an id.
    """
    instance = configuration.worker.instance or f"{socket.gethostname()}-{threading.get_native_id()}"
    return f"{consumer_group_id(configuration)}.{instance}"


def consumer_properties(configuration: Configuration) -> ClientProperties:
    """Return the properties of the input's consumer: it reads committed records and commits no offsets itself.

    A partition is never reset by the client: ``Source`` chooses where it is read on, and counts what was deleted. The
    classic protocol uses the incremental assignor; that of KIP-848 is always incremental.
    """
    group = consumer_group_id(configuration)
    properties = {**confluent_properties(configuration), "group.id": group, "auto.offset.reset": "error"}
    kip_848 = str(properties.get("group.protocol", "")).lower() == "consumer"
    return {
        "queued.max.messages.kbytes": 2 * BATCH_BYTES // 1024,
        "fetch.max.bytes": max(BATCH_BYTES, int(properties.get("message.max.bytes", 0))),
        **properties,
        **({} if kip_848 else {"partition.assignment.strategy": "cooperative-sticky"}),
    }


def producer_properties(configuration: Configuration, transactional_id: str) -> ClientProperties:
    """Return the properties of the transactional producer. Its queue has no limits: it holds one batch at a time."""
    return {
        "transaction.timeout.ms": WORKER_TRANSACTION_MS,
        "compression.type": "lz4",
        "linger.ms": 5,
        **confluent_properties(configuration),
        "transactional.id": transactional_id,
        "enable.idempotence": True,
        "queue.buffering.max.messages": 0,
        "queue.buffering.max.kbytes": 2**31 - 1,
    }
