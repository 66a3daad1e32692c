"""Construction of a mask worker from a configuration, and the checks before it starts."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import closing
from functools import partial

from confluent_kafka import KafkaException, TopicPartition
from prometheus_client import CollectorRegistry

from stream_masker.errors import ServiceError
from stream_masker.service.configuration import Configuration
from stream_masker.service.configuration.secret import read_secret, secret_id, topic_seal
from stream_masker.service.formats import wire_format
from stream_masker.service.kafka.clients import (
    BATCH_BYTES,
    connect_consumer,
    connect_producer,
    consumer_group_id,
    input_properties,
    output_properties,
    transactional_id,
)
from stream_masker.service.kafka.errors import ALLOW, NoBrokerError, is_refusal
from stream_masker.service.kafka.reader import POLL_TIMEOUT_SECONDS, connect_reader, has_records, require_topics
from stream_masker.service.masking import Masking
from stream_masker.service.observability.logs import describe
from stream_masker.service.observability.metrics import Health, Metrics
from stream_masker.service.worker.groups import MicroWindows
from stream_masker.service.worker.source import Limits, Source
from stream_masker.service.worker.statistics import ActiveStatistics
from stream_masker.service.worker.transactions import Outputs, SessionLostError, Transactions
from stream_masker.service.worker.worker import Clients, Worker, WorkerReport


def check_start(configuration: Configuration) -> None:
    """Raise ServiceError for topics that are missing, or if records of the input would be masked again.

    Kafka deletes the offsets of a group that has been empty for some days. Raises NoBrokerError or KafkaException if no
    broker answers.
    """
    topics = configuration.topics
    names = [topics.input, topics.output, topics.rejected, topics.calibration, topics.statistics]
    counts = require_topics(configuration, names, seconds=POLL_TIMEOUT_SECONDS / 2)
    both = [TopicPartition(topics.input, n) for n in range(min(counts[topics.input], counts[topics.output]))]
    with closing(connect_consumer(input_properties(configuration))) as client:
        committed = client.committed(both, POLL_TIMEOUT_SECONDS)
        for error in (p.error for p in committed if p.error is not None):
            raise KafkaException(error)
        unknown = [one.partition for one in committed if one.offset < 0]
        masked = [n for n in unknown if all(has_records(client, t, n) for t in (topics.output, topics.input))]
    if masked:
        group = consumer_group_id(configuration)
        raise ServiceError(
            f"the group {group} has no offsets of {topics.input}, partitions {', '.join(map(str, masked))}, but "
            f"{topics.output} has records there, so that the input would be masked again: choose where to go on with "
            f"`kafka-consumer-groups.sh --reset-offsets --group {group} --topic {topics.input} --execute` and "
            f"--to-latest, --to-datetime, or --to-earliest"
        )


def run_worker(
    configuration: Configuration, *, registry: CollectorRegistry, health: Health, stop: threading.Event
) -> None:
    """Run a mask worker until ``stop`` is set. Metrics go to ``registry``, liveness and readiness to ``health``.

    Raises ConfigurationError if the configuration names a file that does not exist or cannot be used, and ServiceError
    if a topic is missing, if the group's offsets are gone, or if Kafka refuses the worker.
    """
    topics, limits, groups = configuration.topics, configuration.worker, configuration.groups
    masking, report = Masking(configuration, format_of=wire_format), WorkerReport(Metrics(registry, "worker"), health)
    properties = output_properties(configuration, transactional_id(configuration))
    mechanism = masking.mechanism
    outputs = Outputs(topics, topic_seal(configuration, topics.calibration), mechanism)

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

    def connect(revoke: Callable[[set[int]], None]) -> Clients:
        lost = threading.Event()
        source = Source(
            connect_consumer(input_properties(configuration), lost.set),
            topics.input,
            Limits(limits.batch_records, BATCH_BYTES, limits.batch_delay or 0.0),
            running=running,
            revoke=revoke,
            is_lost=lost.is_set,
        )
        transactions = Transactions(partial(connect_producer, properties), outputs, running=running)
        windows = MicroWindows(Limits(groups.records, BATCH_BYTES, groups.delay), lambda: mechanism.group_minimum)
        return source, transactions, windows if mechanism.needs_group else None

    statistics = ActiveStatistics(
        partial(connect_reader, configuration),
        masking,
        topic_seal(configuration, topics.statistics),
        secret_id=secret_id(read_secret(configuration)),
        on_refused=report.refused_message,
    )
    Worker(connect=connect, statistics=statistics, running=running, report=report, check=check).run()
