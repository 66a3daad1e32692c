"""Construction of a mask worker from a configuration."""

from __future__ import annotations

import logging
import socket
import threading
from collections.abc import Callable
from contextlib import closing
from functools import partial

from prometheus_client import CollectorRegistry

from stream_masker.service.configuration import Configuration
from stream_masker.service.configuration.secret import own_secret_id, topic_seal, warn_about_plain_topics
from stream_masker.service.formats.wire_format import wire_format
from stream_masker.service.kafka.broker_watch import COMPONENT as BROKERS
from stream_masker.service.kafka.broker_watch import watched_brokers
from stream_masker.service.kafka.clients import (
    COMMITTED_READS,
    RETRY_PROPERTIES,
    ClientProperties,
    confluent_properties,
    connect_consumer,
    connect_producer,
    retry_delay,
)
from stream_masker.service.kafka.messages import MessageOpener
from stream_masker.service.kafka.names import consumer_group_id, statistics_group_id, transactional_id_prefix
from stream_masker.service.masking import Masking
from stream_masker.service.observability.health import Health
from stream_masker.service.observability.logs import RepeatFilter
from stream_masker.service.observability.metrics import Metrics
from stream_masker.service.worker.batch import Batcher, LoadBatcher
from stream_masker.service.worker.groups import GroupBatcher, GroupLimits
from stream_masker.service.worker.outcomes import OutputTopics
from stream_masker.service.worker.report import WorkerReport
from stream_masker.service.worker.source import Source
from stream_masker.service.worker.statistics import ActiveStatistics, StatisticsSource
from stream_masker.service.worker.topics import RESET_PROPERTY, FoundTopics, InputTopics, find_topics, until_answered
from stream_masker.service.worker.transactions import Transactions
from stream_masker.service.worker.worker import Liveness, Worker, WorkerParts

log = logging.getLogger(__name__)
log.addFilter(RepeatFilter())

BROKER_RETRY_PAUSE = 2.0
"""Seconds between two attempts to reach a broker."""

WORKER_TRANSACTION_MS = 20_000
"""The default transaction timeout: committed readers wait at most this long for the transaction of a dead worker."""

LINGER_MS = 5
"""The producer's default delay before it sends a request. A commit sends what is left at once."""

RECONNECT_MS = 1_000
"""The default maximum pause before a client connects again. With librdkafka's default of ten seconds, a worker would
resume long after a broker is back."""

FETCH_BYTES = 16_777_216
"""The default size of a broker's response, which stands in memory once more while it is read."""

RESETS_TO_END = ("latest", "largest", "end")
"""Values of ``auto.offset.reset`` with which a partition without a committed offset is read from its end."""


def run_worker(
    configuration: Configuration, *, registry: CollectorRegistry, health: Health, stop: threading.Event
) -> None:
    """Run a mask worker until ``stop`` is set. Metrics go to ``registry``, liveness and readiness to ``health``.

    Waits for brokers that do not answer. Raises ConfigurationError if the configuration names a file that does not
    exist or cannot be used, and ServiceError if a topic is missing or has too few partitions, if the group's offsets
    are gone, or if Kafka refuses the worker.
    """
    liveness, masking = Liveness(health, stop), Masking(configuration, format_of=wire_format)
    warn_about_plain_topics(configuration)

    def wait(reason: str) -> bool:
        log.warning("%s; trying again", reason)
        health.reason(BROKERS, reason)
        return liveness.pause(BROKER_RETRY_PAUSE)

    with closing(connect_consumer(consumer_properties(configuration))) as client:
        found = until_answered(lambda: find_topics(configuration, client), wait)
    if found is None:
        return
    health.reason(BROKERS, None)
    report = WorkerReport(Metrics(registry, "worker"), health, rejected_share=configuration.limits.rejected_share)
    report.start()
    with watched_brokers(configuration, health):
        Worker(worker_parts(configuration, masking, found, liveness, health, report)).run()


def worker_parts(
    configuration: Configuration,
    masking: Masking,
    found: FoundTopics,
    liveness: Liveness,
    health: Health,
    report: WorkerReport,
) -> WorkerParts:
    """Return the parts of a worker on the topics that were found."""
    topics, names, secret_id = InputTopics(configuration, found), configuration.topics, own_secret_id(configuration)
    seal = topic_seal(configuration, names.calibration)

    def outputs(topic: str) -> OutputTopics:
        return OutputTopics(
            input=topic,
            output=names.of(topic).output,
            rejected=names.of(topic).rejected,
            calibration=names.calibration,
            rejected_partitions=topics.counts(topic).rejected,
            seal=seal,
            taxonomies=masking.taxonomies,
            secret_id=secret_id,
            configuration=configuration.hash,
            numeric=masking.mechanism.numeric_attributes,
            context=masking.mechanism.context.fingerprint,
        )

    def connect(batcher: Batcher, before_revoke: Callable[[], None]) -> Source:
        return Source(
            connect_consumer(consumer_properties(configuration)),
            batcher,
            running=liveness.beat,
            has_place=topics.has_place,
            before_revoke=before_revoke,
            from_end=configuration.kafka.properties.get(RESET_PROPERTY) in RESETS_TO_END,
        )

    return WorkerParts(
        connect=connect,
        transactions=partial(new_transactions, configuration, transactional_id(configuration), outputs, liveness.beat),
        batcher=partial(new_batcher, configuration, masking),
        statistics=StatisticsSource(
            connect_consumer(statistics_properties(configuration)),
            names.statistics,
            found.statistics,
            MessageOpener(topic_seal(configuration, names.statistics)),
            ActiveStatistics(masking, secret_id),
            report.refused_message,
        ),
        topics=topics,
        liveness=liveness,
        health=health,
        report=report,
    )


def new_transactions(
    configuration: Configuration,
    identity: str,
    outputs: Callable[[str], OutputTopics],
    running: Callable[[], bool],
) -> Transactions:
    """Return the transactions of a new session."""
    properties = producer_properties(configuration, identity)
    return Transactions(
        partial(connect_producer, properties),
        outputs,
        running=running,
        expiry=float(properties["transaction.timeout.ms"]) / 1000,
        retry_delay=retry_delay(properties),
    )


def new_batcher(configuration: Configuration, masking: Masking) -> Batcher:
    """Return the batcher of a new session: micro-windows if the mechanism masks groups."""
    worker, groups = configuration.worker, configuration.groups
    if not masking.mechanism.needs_group:
        return LoadBatcher(records=worker.batch_records, size=worker.batch_bytes, delay=worker.batch_delay or 0.0)
    limits = GroupLimits(
        records=groups.records,
        size=worker.batch_bytes,
        delay=groups.delay,
        short=groups.short,
        batch=worker.batch_records,
    )
    return GroupBatcher(limits, lambda: masking.mechanism.group_minimum)


def transactional_id(configuration: Configuration) -> str:
    """Return the id of this worker's producer: the group, and the worker's instance.

    The instance is ``worker.instance``, or the host's name and the native id of the calling thread, which on the main
    thread is the process id. A worker that restarts with the same id completes or aborts its open transaction at once.
    Two workers must never share an id.
    """
    instance = configuration.worker.instance or f"{socket.gethostname()}-{threading.get_native_id()}"
    return transactional_id_prefix(configuration) + instance


def consumer_properties(configuration: Configuration) -> ClientProperties:
    """Return the properties of the input's consumer: it reads committed records and commits no offsets itself.

    A partition is never reset by the client: ``Source`` chooses where it is read on, and counts what was deleted.
    """
    properties = confluent_properties(
        configuration,
        group_id=consumer_group_id(configuration),
        **COMMITTED_READS,
        auto_offset_reset="error",
    )
    defaults = {
        "queued.max.messages.kbytes": max(1024, 2 * configuration.worker.batch_bytes // 1024),
        "fetch.max.bytes": max(FETCH_BYTES, int(properties.get("message.max.bytes", 0))),
        "reconnect.backoff.max.ms": RECONNECT_MS,
    }
    return {**defaults, **properties, **_assignor(properties), **_membership(configuration)}


def _membership(configuration: Configuration) -> ClientProperties:
    """Return the properties of a static member: it stays in the group when it ends, and keeps its share on return."""
    worker = configuration.worker
    return {"group.instance.id": worker.instance} if worker.static_member else {}


def _assignor(properties: ClientProperties) -> ClientProperties:
    """Return the incremental assignor of the classic protocol. The protocol of KIP-848 is always incremental."""
    kip_848 = str(properties.get("group.protocol", "classic")).lower() == "consumer"
    return {} if kip_848 else {"partition.assignment.strategy": "cooperative-sticky"}


def statistics_properties(configuration: Configuration) -> ClientProperties:
    """Return the properties of the statistics topic's consumer. It joins no group, but the client requires a name.

    A worker is ready when it has reached the end of the topic, which a broker reports after ``fetch.wait.max.ms``.
    """
    properties = confluent_properties(
        configuration,
        group_id=statistics_group_id(configuration),
        **COMMITTED_READS,
        auto_offset_reset="earliest",
    )
    return {"fetch.wait.max.ms": 100, "reconnect.backoff.max.ms": RECONNECT_MS, **properties}


def producer_properties(configuration: Configuration, transactional_id: str) -> ClientProperties:
    """Return the properties of the transactional producer; its queue has room for two batches with their blocks."""
    worker = configuration.worker
    defaults = {
        "transaction.timeout.ms": WORKER_TRANSACTION_MS,
        "queue.buffering.max.messages": max(100_000, 2 * worker.batch_records + 1_000),
        "queue.buffering.max.kbytes": max(65_536, 4 * worker.batch_bytes // 1024),
        "compression.type": "lz4",
        "linger.ms": LINGER_MS,
        "reconnect.backoff.max.ms": RECONNECT_MS,
        **RETRY_PROPERTIES,
    }
    properties = confluent_properties(configuration, transactional_id=transactional_id, enable_idempotence=True)
    return {**defaults, **properties}
