"""Construction of a mask worker from a configuration."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial

from confluent_kafka import Consumer, KafkaException
from prometheus_client import CollectorRegistry

from stream_masker.pipeline.seal import TopicSeal
from stream_masker.service.configuration import Configuration
from stream_masker.service.configuration.secret import own_secret_id, topic_seal, warn_about_plain_topics
from stream_masker.service.formats.wire_format import wire_format
from stream_masker.service.kafka.broker_watch import COMPONENT as BROKERS
from stream_masker.service.kafka.broker_watch import watched_brokers
from stream_masker.service.kafka.clients import (
    confluent_properties,
    connect_admin,
    connect_consumer,
    connect_producer,
    retry_delay,
)
from stream_masker.service.kafka.failures import is_access_refusal, require_broker
from stream_masker.service.kafka.messages import KafkaMessage, MessageOpener
from stream_masker.service.kafka.names import starts_group_id
from stream_masker.service.kafka.topic_identity import (
    TopicWatch,
    identified,
    known_identities,
    refresh_seconds,
    topic_identities,
)
from stream_masker.service.kafka.transactional_producer import TransactionalProducer
from stream_masker.service.masking import Masking
from stream_masker.service.observability.health import Health
from stream_masker.service.observability.logs import RepeatFilter
from stream_masker.service.observability.metrics import Metrics
from stream_masker.service.worker.background import BackgroundRunner, Liveness
from stream_masker.service.worker.batch import BatchLimits, OutputTopics, never_hold
from stream_masker.service.worker.batcher import LoadBatcher, MicroWindowBatcher, MicroWindowLimits
from stream_masker.service.worker.client_properties import (
    consumer_properties,
    producer_properties,
    statistics_properties,
    transactional_ids,
)
from stream_masker.service.worker.commit_pipeline import CommitPipeline
from stream_masker.service.worker.input_topics import CLIENT_REFRESH_MS, InputTopics, TopicIds
from stream_masker.service.worker.loop import Worker, WorkerComponents
from stream_masker.service.worker.partition_source import PartitionSource
from stream_masker.service.worker.refusals import RefusedRecords
from stream_masker.service.worker.report import WorkerReport
from stream_masker.service.worker.starts import StartNotes
from stream_masker.service.worker.statistics_consumer import ActiveStatistics, StatisticsConsumer
from stream_masker.service.worker.topic_checks import (
    METADATA_TIMEOUT_SECONDS,
    RESET_PROPERTY,
    RESETS_TO_END,
    FoundTopics,
    check_committed_offsets,
    check_topic_settings,
    find_partitions,
    partition_counts,
)

log = logging.getLogger(__name__)
log.addFilter(RepeatFilter())

BROKER_RETRY_PAUSE = 2.0
"""Seconds between two attempts to reach a broker."""


def run_worker(
    configuration: Configuration, *, registry: CollectorRegistry, health: Health, stop: threading.Event
) -> None:
    """Run a mask worker until ``stop`` is set. Metrics go to ``registry``, liveness and readiness to ``health``.

    Waits for brokers that do not answer. Raises ConfigurationError if the configuration names a file that does not
    exist or cannot be used, and ServiceError if a topic is missing or has too few partitions, if the group's offsets
    are gone, or if Kafka refuses the worker.
    """
    liveness = Liveness(health, stop)
    masking = Masking(configuration, format_of=wire_format)
    warn_about_plain_topics(configuration)
    brokers = watched_brokers(configuration, health)
    with _input_consumer(configuration) as consumer:
        existing = find_partitions(
            consumer,
            configuration.topics,
            wait=_wait_for_broker(health, liveness),
            connect=lambda: require_broker(confluent_properties(configuration), seconds=METADATA_TIMEOUT_SECONDS),
            user=str(configuration.kafka.properties.get("sasl.username", "")),
        )
        if existing is None:
            return
        wait = _wait_for_broker(health, liveness)
        if not _identify(partial(identified, masking, [*existing.inputs]), wait=wait):
            return
        check_topic_settings(configuration, [*existing.inputs])
        if not answered(partial(_check_offsets, configuration, consumer, existing), "the group's offsets", wait=wait):
            return
        health.reason(BROKERS, None)
        report = WorkerReport(Metrics(registry, "worker"), health, rejected_share=configuration.limits.rejected_share)
        report.start()
        connect = partial(_connect, configuration)
        worker = Worker(_components(configuration, masking, existing, consumer, connect, liveness, health, report))
        with brokers:
            worker.run()


@contextmanager
def _input_consumer(configuration: Configuration) -> Iterator[Consumer]:
    consumer = _connect(configuration)
    try:
        yield consumer
    finally:
        consumer.close()


def _connect(configuration: Configuration) -> Consumer:
    return connect_consumer(consumer_properties(configuration))


def _check_offsets(configuration: Configuration, consumer: Consumer, existing: FoundTopics) -> None:
    for topic, counts in existing.inputs.items():
        check_committed_offsets(configuration, consumer, topic, range(counts.input))


def _identify(identify: Callable[[], object], *, wait: Callable[[str], bool]) -> bool:
    """Request and set the input topics' ids, until a broker answers; return False when stopping."""
    return answered(identify, "the ids of the input topics", wait=wait)


def answered(request: Callable[[], object], what: str, *, wait: Callable[[str], bool]) -> bool:
    """Make a request until a broker answers it; ``wait``: for the next attempt, with the reason. Return False when
    stopping. Raises KafkaException if the broker refuses access."""
    while True:
        try:
            request()
        except KafkaException as failure:
            if is_access_refusal(failure.args[0]):
                raise
            if not wait(f"{what} are not known: {failure.args[0].str()}"):
                return False
        else:
            return True


def _wait_for_broker(health: Health, liveness: Liveness) -> Callable[[str], bool]:
    def wait(reason: str) -> bool:
        log.warning("%s; trying again", reason)
        health.reason(BROKERS, reason)
        return liveness.pause(BROKER_RETRY_PAUSE)

    return wait


def _components(
    configuration: Configuration,
    masking: Masking,
    existing: FoundTopics,
    consumer: Consumer,
    connect: Callable[[], Consumer],
    liveness: Liveness,
    health: Health,
    report: WorkerReport,
) -> WorkerComponents:
    topics = configuration.topics
    active_statistics = ActiveStatistics(masking, own_secret_id(configuration))
    inputs = _inputs(configuration, existing, active_statistics)
    refused, ids = RefusedRecords.of(configuration.kafka.properties), transactional_ids(configuration)
    source, may_hold = _source(configuration, inputs, consumer, connect, active_statistics, liveness)
    return WorkerComponents(
        source=source,
        may_hold=may_hold,
        pipeline=CommitPipeline([partial(_producer, configuration, name, liveness, refused) for name in ids]),
        background=BackgroundRunner(poll=source.poll, beat=liveness.beat),
        statistics_consumer=StatisticsConsumer(
            client=connect_consumer(statistics_properties(configuration)),
            topic=topics.statistics,
            partitions=existing.statistics,
            opener=MessageOpener(topic_seal(configuration, topics.statistics)),
            on_refused=report.refused_message,
        ),
        statistics_topic=TopicWatch.of(configuration, configuration.topics.statistics),
        active_statistics=active_statistics,
        inputs=inputs,
        topic_ids=_topic_ids(configuration, active_statistics, liveness, health),
        outputs=partial(
            _outputs, configuration, active_statistics, inputs, topic_seal(configuration, topics.calibration)
        ),
        liveness=liveness,
        health=health,
        report=report,
        refused=refused,
    )


def _topic_ids(
    configuration: Configuration, statistics: ActiveStatistics, liveness: Liveness, health: Health
) -> TopicIds:
    """Return when the ids of topics are requested again; never if noise does not depend on them."""
    properties = {**confluent_properties(configuration), "log_level": 0}

    def identify(topics: Sequence[str]) -> None:
        admin = connect_admin(properties)
        for topic in topics:
            statistics.identify(known_identities(admin, topic))

    def request(topics: Sequence[str]) -> bool:
        if not _identify(partial(identify, topics), wait=_wait_for_broker(health, liveness)):
            return False
        health.reason(BROKERS, None)
        return True

    return TopicIds(request if statistics.masking.needs_identity else lambda _: True)


def _inputs(configuration: Configuration, existing: FoundTopics, statistics: ActiveStatistics) -> InputTopics:
    properties = {**confluent_properties(configuration), "log_level": 0}

    def admit(topic: str) -> None:
        check_topic_settings(configuration, [topic])
        if statistics.masking.needs_identity:
            statistics.identify(topic_identities(connect_admin(properties), [topic]))

    return InputTopics(
        configuration.topics,
        existing,
        partitions=lambda: partition_counts(connect_admin(properties)),
        admit=admit,
        every=refresh_seconds(properties),
        known_after=refresh_seconds(properties, CLIENT_REFRESH_MS),
    )


def _source(
    configuration: Configuration,
    inputs: InputTopics,
    consumer: Consumer,
    connect: Callable[[], Consumer],
    statistics: ActiveStatistics,
    liveness: Liveness,
) -> tuple[PartitionSource, Callable[[Sequence[KafkaMessage]], bool]]:
    """Return the source, with micro-windows if the mechanism masks groups, and whether small groups may be held."""
    limits = _window_limits(configuration)
    source = partial(
        PartitionSource,
        client=consumer,
        connect=connect,
        topics=inputs.names,
        beat=liveness.beat,
        has_place=inputs.has_place,
        notes=_start_notes(configuration),
        skips_retained=configuration.kafka.properties.get(RESET_PROPERTY) in RESETS_TO_END,
    )
    if not statistics.masking.mechanism.needs_group:
        return source(batcher=LoadBatcher(_batch_limits(configuration))), never_hold
    windows = MicroWindowBatcher(limits, minimum=lambda: statistics.masking.mechanism.group_minimum)
    return source(batcher=windows, put_back=windows.put_back), limits.may_hold


def _start_notes(configuration: Configuration) -> StartNotes:
    group = starts_group_id(configuration)
    properties = confluent_properties(configuration, group_id=group, enable_auto_commit=False)
    return StartNotes(lambda on_commit: connect_consumer({**properties, "on_commit": on_commit, "log_level": 0}))


def _window_limits(configuration: Configuration) -> MicroWindowLimits:
    groups, worker = configuration.groups, configuration.worker
    return MicroWindowLimits(
        records=groups.records,
        size=worker.batch_bytes,
        delay=groups.delay,
        short=groups.short,
        batch=worker.batch_records,
    )


def _producer(
    configuration: Configuration, transactional_id: str, liveness: Liveness, refused: RefusedRecords
) -> TransactionalProducer:
    properties = producer_properties(configuration, transactional_id)
    return TransactionalProducer(
        connect=lambda: connect_producer({**properties, **refused.properties}),
        transactional_id=transactional_id,
        running=liveness.running,
        expiry=float(properties["transaction.timeout.ms"]) / 1000,
        retry_delay=retry_delay(properties),
        on_refused=refused.on_refused,
        properties_version=lambda: refused.version,
    )


def _outputs(
    configuration: Configuration, statistics: ActiveStatistics, inputs: InputTopics, seal: TopicSeal, topic: str
) -> OutputTopics:
    topics, masking = configuration.topics.of(topic), statistics.masking
    return OutputTopics(
        input=topic,
        output=topics.output,
        rejected=topics.rejected,
        calibration=topics.calibration,
        rejected_partitions=inputs.counts(topic).rejected,
        seal=seal,
        taxonomies=masking.taxonomies,
        configuration=masking.configuration.hash,
        secret_id=own_secret_id(configuration),
        numeric=masking.mechanism.numeric_attributes,
        context=masking.mechanism.context.fingerprint,
    )


def _batch_limits(configuration: Configuration) -> BatchLimits:
    worker = configuration.worker
    return BatchLimits(records=worker.batch_records, size=worker.batch_bytes, delay=worker.batch_delay or 0.0)
