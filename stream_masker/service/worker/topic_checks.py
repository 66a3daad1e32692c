"""Checks of the worker's topics: their names, partitions and settings, and the committed offsets of its group.

An output has at least the partitions of its input, and no record may be refused or compacted away. Kafka deletes the
offsets of a group that has been empty for some days; without them a worker would mask the whole input again.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from confluent_kafka import Consumer, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, ResourceType

from stream_masker.errors import ServiceError
from stream_masker.service.configuration import Configuration
from stream_masker.service.configuration.topics import TopicsSection, input_problems
from stream_masker.service.kafka.clients import confluent_properties
from stream_masker.service.kafka.failures import (
    COMPRESSION_TYPE,
    UNCOMPRESSED,
    NoBrokerError,
    alter_command,
    check_topics,
    compression_advice,
    explained,
    missing_topics_text,
    require_controller,
)
from stream_masker.service.kafka.names import consumer_group_id
from stream_masker.service.kafka.topic_reader import POLL_TIMEOUT_SECONDS, connect_reader, read_to_end

RESET_PROPERTY = "auto.offset.reset"
RESETS_TO_END = ("latest", "largest", "end")
"""Its values with which a worker whose offset was deleted does not mask what is retained."""


def check_committed_offsets(
    configuration: Configuration, client: Consumer, topic: str, partitions: Iterable[int]
) -> None:
    """Raise ServiceError if records of an input topic would be masked again, because the group's offsets are gone.

    ``client``: of the group. ``partitions``: those of the topic. A configured ``auto.offset.reset`` is an explicit
    choice, with which nothing is checked. Raises KafkaException if no broker answers.
    """
    if RESET_PROPERTY in configuration.kafka.properties:
        return
    committed = client.committed([TopicPartition(topic, number) for number in partitions], POLL_TIMEOUT_SECONDS)
    for error in (p.error for p in committed if p.error is not None):
        raise KafkaException(error)
    unknown = [p.partition for p in committed if p.offset < 0 and _has_offsets(client, topic, p.partition)]
    output = configuration.topics.of(topic).output
    masked = [n for n in unknown if _has_offsets(client, output, n) and _has_records(configuration, output, n)]
    if masked:
        raise ServiceError(
            f"the group {consumer_group_id(configuration)} has no offsets of {topic}, partitions "
            f"{', '.join(map(str, masked))}, but {output} has records there, so that the input would be masked again: "
            f"set {RESET_PROPERTY} in kafka.properties to earliest to do so, or to latest to mask only new records"
        )


def _has_offsets(client: Consumer, topic: str, partition: int) -> bool:
    low, high = client.get_watermark_offsets(TopicPartition(topic, partition), POLL_TIMEOUT_SECONDS, False) or (0, 0)
    return low < high


def _has_records(configuration: Configuration, topic: str, partition: int) -> bool:
    """Return whether a partition has committed records; True for a user who may not read it."""
    try:
        with connect_reader(configuration) as reader:
            return any(True for _ in read_to_end(reader, topic, partition=partition, patience=POLL_TIMEOUT_SECONDS))
    except (KafkaException, ServiceError):
        return True


log = logging.getLogger(__name__)

METADATA_TIMEOUT_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class PartitionCounts:
    """The numbers of partitions of an input topic and of the topics of its records."""

    input: int
    output: int
    rejected: int


@dataclass(frozen=True, slots=True)
class FoundTopics:
    """The input topics by name, and the number of partitions of the statistics topic."""

    inputs: Mapping[str, PartitionCounts]
    statistics: int


def check_partitions(counts: Mapping[str, int], topics: TopicsSection) -> FoundTopics:
    """Select the partition counts of the worker's topics from those of all topics.

    Raises ServiceError if a topic is missing, if two roles have the same topic, or if an output has fewer partitions
    than its input: a masked record keeps its partition number.
    """
    names = input_names(counts, topics)
    check_names(topics, names)
    require_existing(counts, required_names(topics, names))
    return FoundTopics({name: check_input(counts, topics, name) for name in names}, counts[topics.statistics])


def check_names(topics: TopicsSection, inputs: Sequence[str]) -> None:
    """Raise ServiceError if a topic of these inputs has two roles."""
    for role, text in input_problems(topics, inputs):
        raise ServiceError(f"topics.{role}: {text}")


def check_input(counts: Mapping[str, int], topics: TopicsSection, name: str) -> PartitionCounts:
    """Return the partition counts of one input topic. Raises ServiceError like ``check_partitions``."""
    topic = topics.of(name)
    require_existing(counts, required_names(topics, [name]))
    outputs, inputs = counts[topic.output], counts[name]
    if outputs < inputs:
        raise ServiceError(
            f"topic {topic.output} has {outputs} partitions and {name} has {inputs}: "
            f"a masked record keeps its partition number, so {topic.output} needs at least {inputs}"
        )
    return PartitionCounts(inputs, outputs, counts[topic.rejected])


def input_names(counts: Mapping[str, int], topics: TopicsSection) -> list[str]:
    """Return the names of the input topics: those given, or those that exist and match the expression."""
    return [*topics.names] or sorted(filter(topics.is_input, counts))


def require_existing(counts: Mapping[str, int], names: Iterable[str]) -> None:
    """Raise ServiceError if a topic has no partitions."""
    missing = [name for name in names if not counts.get(name)]
    if missing:
        raise ServiceError(missing_topics_text(missing))


def find_partitions(
    client: Consumer,
    topics: TopicsSection,
    *,
    wait: Callable[[str], bool],
    connect: Callable[[], None] = lambda: None,
    user: str = "",
) -> FoundTopics | None:
    """Request the topics' metadata until a broker answers; return None when stopping.

    ``connect`` raises ServiceError, as NoBrokerError while no broker is there. ``wait`` is called with the reason
    after each failed request; it returns False when the process stops. ``user``: the name to allow topics to. Raises
    ServiceError as ``check_partitions`` does, and for topics that the user may not describe.
    """
    while True:
        try:
            connect()
            counts = partition_counts(client)
            check_names(topics, input_names(counts, topics))
            hidden = {
                name: client.list_topics(name, timeout=METADATA_TIMEOUT_SECONDS).topics[name].error
                for name in required_names(topics, input_names(counts, topics))
                if name not in counts
            }
        except NoBrokerError as error:
            if not wait(str(error)):
                return None
        except KafkaException as failure:
            if not wait(f"no broker answers: {explained(failure.args[0])}"):
                return None
        else:
            check_topics(hidden, user)
            return check_partitions(counts, topics)


def partition_counts(client: Consumer) -> dict[str, int]:
    """Return the number of partitions of every topic. Raises KafkaException."""
    topics = client.list_topics(timeout=METADATA_TIMEOUT_SECONDS).topics
    return {name: len(topic.partitions) for name, topic in topics.items()}


def required_names(topics: TopicsSection, inputs: Sequence[str]) -> list[str]:
    """Return the names of the topics that a worker needs for these input topics."""
    names = [name for topic in map(topics.of, inputs) for name in (topic.input, topic.output, topic.rejected)]
    provenance = [topics.provenance] if topics.provenance else []
    return [*dict.fromkeys(map(str, names)), topics.calibration, topics.statistics, *provenance]


PRODUCER_LIMIT_BYTES = 1_000_000
"""librdkafka's default of ``message.max.bytes``: the maximum size of a message, and of a batch of messages."""

SETTINGS_TIMEOUT_SECONDS = 5.0

TIMESTAMP_BOUND = "message.timestamp.before.max.ms"

NO_TIMESTAMP_BOUND = str(2**63 - 1)
"""Kafka's default of ``TIMESTAMP_BOUND``: no bound."""


def check_topic_settings(configuration: Configuration, inputs: Sequence[str]) -> None:
    """Raise ServiceError if a topic's settings do not fit what the worker writes; each problem with its remedy.

    ``inputs``: the input topics. Settings for which single records will be rejected are only logged, and so is a broker
    that does not let the user read the settings.
    """
    topics = [configuration.topics.of(name) for name in inputs]
    written = [name for topic in topics for name in (topic.output, topic.rejected)]
    provenance = [configuration.topics.provenance] if configuration.topics.provenance else []
    names = [*dict.fromkeys(written), configuration.topics.calibration, *provenance]
    try:
        by_topic = topic_settings(configuration, names)
    except KafkaException as failure:
        log.warning("the settings of the topics cannot be read: %s", explained(failure.args[0]))
        return
    outputs = {topic.output for topic in topics}
    problems = [*setting_problems(configuration, by_topic, outputs)]
    if problems:
        raise ServiceError("; ".join(problems))
    for risk in rejection_risks(by_topic, outputs):
        log.warning("%s", risk)
    _check_inputs(configuration, inputs)


def _check_inputs(configuration: Configuration, inputs: Sequence[str]) -> None:
    """Log inputs whose records may become large when they are decompressed."""
    try:
        by_topic = topic_settings(configuration, inputs)
    except KafkaException as failure:
        log.warning("the settings of the input topics cannot be read: %s", explained(failure.args[0]))
        return
    for topic, settings in by_topic.items():
        if (compression := settings.get(COMPRESSION_TYPE, UNCOMPRESSED)) != UNCOMPRESSED:
            log.warning("topic %s has %s", topic, compression_advice(topic, compression))


def topic_settings(configuration: Configuration, topics: Sequence[str]) -> Mapping[str, Mapping[str, str]]:
    """Read the settings of topics. Raises KafkaException."""
    admin = AdminClient({**confluent_properties(configuration), "log_level": 0})
    require_controller(admin, seconds=SETTINGS_TIMEOUT_SECONDS)
    resources = [ConfigResource(ResourceType.TOPIC, topic) for topic in topics]
    answers = admin.describe_configs(resources, request_timeout=SETTINGS_TIMEOUT_SECONDS)
    return {
        resource.name: {name: entry.value for name, entry in answer.result().items()}
        for resource, answer in answers.items()
    }


def setting_problems(
    configuration: Configuration, by_topic: Mapping[str, Mapping[str, str]], outputs: Collection[str]
) -> Iterator[str]:
    """Yield the problems of topics with these settings, by name; ``outputs``: the topics of masked records."""
    for output in by_topic.keys() & outputs:
        policy = by_topic[output].get("cleanup.policy", "delete")
        if configuration.message.key == "drop" and "compact" in policy:
            yield (
                f"topic {output} has cleanup.policy={policy}, which needs message keys, but message.key is drop: use "
                f"pseudonymize or keep, or {alter_command(output, 'cleanup.policy', 'delete')}"
            )
    provenance = configuration.topics.provenance
    policy = by_topic.get(provenance or "", {}).get("cleanup.policy", "delete")
    if provenance and "compact" in policy:
        yield (
            f"topic {provenance} has cleanup.policy={policy}, which deletes all events of a partition but the last: "
            f"{alter_command(provenance, 'cleanup.policy', 'delete')}"
        )
    limit = int(configuration.kafka.properties.get("message.max.bytes", PRODUCER_LIMIT_BYTES))
    for topic, settings in by_topic.items():
        largest = settings.get("max.message.bytes")
        if largest is not None and int(largest) < limit:
            yield (
                f"topic {topic} has max.message.bytes={largest}, less than the {limit} of the producer: "
                f"{alter_command(topic, 'max.message.bytes', limit)}, or set message.max.bytes in kafka.properties"
            )


def rejection_risks(by_topic: Mapping[str, Mapping[str, str]], outputs: Collection[str]) -> Iterator[str]:
    """Yield the settings of outputs for which records of the input may be rejected, each with its remedy."""
    for output in sorted(by_topic.keys() & outputs):
        settings = by_topic[output]
        policy = settings.get("cleanup.policy", "delete")
        if "compact" in policy:
            yield f"topic {output} has cleanup.policy={policy}: records without a key will be rejected"
        bound = settings.get(TIMESTAMP_BOUND)
        if settings.get("message.timestamp.type") == "CreateTime" and bound not in {None, NO_TIMESTAMP_BOUND}:
            yield (
                f"topic {output} has {TIMESTAMP_BOUND}={bound}: older records will be rejected; "
                f"{alter_command(output, TIMESTAMP_BOUND, NO_TIMESTAMP_BOUND)}"
            )
