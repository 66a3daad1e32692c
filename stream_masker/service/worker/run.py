"""A mask worker from a configuration: its parts made and put together, then run."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial

from confluent_kafka import Consumer
from prometheus_client import CollectorRegistry

from stream_masker.service.configuration import Configuration
from stream_masker.service.kafka.connections import connect_consumer, connect_producer
from stream_masker.service.kafka.transactional_producer import TransactionalProducer
from stream_masker.service.masking import Masking
from stream_masker.service.observability.health import Health
from stream_masker.service.observability.metrics import Metrics
from stream_masker.service.worker.background import BackgroundRunner
from stream_masker.service.worker.batch import BatchLimits, KafkaMessage, OutputTopics, never_hold
from stream_masker.service.worker.batcher import SizeTimeBatcher
from stream_masker.service.worker.client_properties import (
    consumer_properties,
    producer_properties,
    reader_properties,
    transactional_ids,
)
from stream_masker.service.worker.commit_pipeline import CommitPipeline
from stream_masker.service.worker.loop import Liveness, Worker, WorkerComponents
from stream_masker.service.worker.micro_windows import MicroWindowBatcher, MicroWindowLimits
from stream_masker.service.worker.partitions import PartitionCounts, find_partitions
from stream_masker.service.worker.report import WorkerReport
from stream_masker.service.worker.source import PartitionSource
from stream_masker.service.worker.statistics_consumer import ActiveStatistics, StatisticsConsumer

log = logging.getLogger(__name__)

BROKER_WAIT = 2.0
"""Seconds between two looks for a broker."""


def run_worker(
    configuration: Configuration, *, registry: CollectorRegistry, health: Health, stop: threading.Event
) -> None:
    """Runs a mask worker until ``stop`` is set; its metrics go to ``registry``, its state to ``health``.

    A broker that does not answer is waited for. Raises ConfigurationError for what the configuration names and is not
    there, ServiceError for topics that are missing or too narrow, and when Kafka refuses the worker.
    """
    life = Liveness(health, stop)
    masking = Masking(configuration)
    with _input_consumer(configuration) as consumer:
        partitions = find_partitions(consumer, configuration.topics, wait=_waiting(health, life))
        if partitions is None:
            return
        health.reason("brokers", None)
        report = WorkerReport(Metrics(registry, "worker"), health)
        report.start()
        Worker(_parts(configuration, masking, partitions, consumer, life, health, report)).run()


@contextmanager
def _input_consumer(configuration: Configuration) -> Iterator[Consumer]:
    consumer = _connected(configuration)
    try:
        yield consumer
    finally:
        consumer.close()


def _connected(configuration: Configuration) -> Consumer:
    return connect_consumer(consumer_properties(configuration))


def _waiting(health: Health, life: Liveness) -> Callable[[str], bool]:
    def wait(reason: str) -> bool:
        log.warning("%s; trying again", reason)
        health.reason("brokers", reason)
        return life.pause(BROKER_WAIT)

    return wait


def _parts(
    configuration: Configuration,
    masking: Masking,
    partitions: PartitionCounts,
    consumer: Consumer,
    life: Liveness,
    health: Health,
    report: WorkerReport,
) -> WorkerComponents:
    topics = configuration.topics
    in_force = ActiveStatistics(masking)
    source, may_hold = _source(configuration, consumer, in_force, life)
    return WorkerComponents(
        source=source,
        may_hold=may_hold,
        lanes=CommitPipeline(
            [_producer(configuration, identity, life) for identity in transactional_ids(configuration)]
        ),
        aside=BackgroundRunner(serve=source.serve, turn=life.turn),
        follower=StatisticsConsumer(
            client=connect_consumer(reader_properties(configuration)),
            topic=topics.statistics,
            partitions=partitions.statistics,
        ),
        in_force=in_force,
        outputs=_outputs(configuration, masking, partitions),
        life=life,
        health=health,
        report=report,
    )


def _source(
    configuration: Configuration, consumer: Consumer, in_force: ActiveStatistics, life: Liveness
) -> tuple[PartitionSource, Callable[[Sequence[KafkaMessage]], bool]]:
    """The source, which gathers groups for a mechanism that masks such; and whether records may be held in it."""
    limits = _window_limits(configuration)
    source = partial(
        PartitionSource,
        client=consumer,
        connect=lambda: _connected(configuration),
        topic=configuration.topics.input,
        turn=life.turn,
    )
    if not in_force.masking.mechanism.needs_group:
        return source(gathering=SizeTimeBatcher(_limits(configuration))), never_hold
    windows = MicroWindowBatcher(limits, minimum=lambda: in_force.masking.mechanism.group_minimum)
    return source(gathering=windows, regather=windows.put_back), limits.may_hold


def _window_limits(configuration: Configuration) -> MicroWindowLimits:
    groups, worker = configuration.groups, configuration.worker
    return MicroWindowLimits(
        records=groups.records,
        size=worker.batch_bytes,
        delay=groups.delay,
        short=groups.short,
        batch=worker.batch_records,
    )


def _producer(configuration: Configuration, identity: str, life: Liveness) -> TransactionalProducer:
    properties = producer_properties(configuration, identity)
    return TransactionalProducer(
        connect=lambda: connect_producer(properties),
        transactional_id=identity,
        turn=life.going,
        expiry=float(properties["transaction.timeout.ms"]) / 1000,
    )


def _outputs(configuration: Configuration, masking: Masking, partitions: PartitionCounts) -> OutputTopics:
    topics = configuration.topics
    return OutputTopics(
        input=topics.input,
        output=topics.output,
        rejected=topics.rejected,
        calibration=topics.calibration,
        rejected_partitions=partitions.rejected,
        taxonomies=masking.taxonomies,
        configuration=configuration.hash,
        numeric=masking.mechanism.numeric_attributes,
    )


def _limits(configuration: Configuration) -> BatchLimits:
    worker = configuration.worker
    return BatchLimits(records=worker.batch_records, size=worker.batch_bytes, delay=worker.batch_delay)
