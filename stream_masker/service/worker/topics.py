"""The worker's topics: their names, partitions and settings, the group's offsets, and input topics that appear later.

An output has at least the partitions of its input, and no record may be refused or compacted away. Kafka deletes the
offsets of a group that has been empty for some days; without them a worker would mask the whole input again.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from confluent_kafka import Consumer, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, ResourceType

from stream_masker.errors import ServiceError
from stream_masker.service.configuration import Configuration
from stream_masker.service.configuration.topics import TopicsSection, input_problems
from stream_masker.service.kafka.clients import confluent_properties, connect_admin, refresh_seconds
from stream_masker.service.kafka.failures import (
    COMPRESSION_TYPE,
    UNCOMPRESSED,
    NoBrokerError,
    alter_command,
    check_topics,
    compression_advice,
    explained,
    is_access_refusal,
    missing_topics_text,
    require_broker,
    require_controller,
)
from stream_masker.service.kafka.messages import Partition
from stream_masker.service.kafka.names import consumer_group_id
from stream_masker.service.kafka.requirements import topic_rules
from stream_masker.service.kafka.topic_reader import POLL_TIMEOUT_SECONDS, connect_reader, read_to_end
from stream_masker.service.observability.logs import RepeatFilter

log = logging.getLogger(__name__)
log.addFilter(RepeatFilter())

RESET_PROPERTY = "auto.offset.reset"

REQUEST_SECONDS = 5.0

TIMESTAMP_BOUND = "message.timestamp.before.max.ms"

NO_TIMESTAMP_BOUND = str(2**63 - 1)
"""Kafka's default of ``TIMESTAMP_BOUND``: no bound."""

CLIENT_REFRESH_MS = 300_000
"""The default of librdkafka's clients, which learn of new partitions of an output after this time."""


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


def find_topics(configuration: Configuration, client: Consumer, wait: Callable[[str], bool]) -> FoundTopics | None:
    """Find and check the worker's topics, as soon as a broker answers; return None when stopping.

    ``client``: a consumer, whose requests create no topic. ``wait`` is called with the reason after each failed
    request; it returns False when the process stops. Raises ServiceError for topics that are missing, too small, may
    not be used, or do not fit what the worker writes.
    """
    properties, topics = confluent_properties(configuration), configuration.topics
    while True:
        try:
            require_broker(properties, seconds=REQUEST_SECONDS)
            counts = partition_counts(client)
            names = input_names(counts, topics)
            check_names(topics, names)
            hidden = {
                name: client.list_topics(name, timeout=REQUEST_SECONDS).topics[name].error
                for name in required_names(topics, names)
                if name not in counts
            }
            break
        except NoBrokerError as error:
            reason = str(error)
        except KafkaException as failure:
            reason = f"no broker answers: {explained(failure.args[0])}"
        if not wait(reason):
            return None
    check_topics(hidden, str(configuration.kafka.properties.get("sasl.username", "")))
    require_existing(counts, required_names(topics, names))
    found = FoundTopics({name: check_input(counts, topics, name) for name in names}, counts[topics.statistics])
    check_topic_settings(configuration, names)
    return found


def check_offsets(
    configuration: Configuration, client: Consumer, found: FoundTopics, wait: Callable[[str], bool]
) -> bool:
    """Check the group's committed offsets, as soon as a broker answers; return False when stopping.

    ``client``: of the group. Raises ServiceError like ``check_committed_offsets``, and KafkaException if the broker
    refuses access.
    """
    while True:
        try:
            for topic, counts in found.inputs.items():
                check_committed_offsets(configuration, client, topic, range(counts.input))
        except KafkaException as failure:
            if is_access_refusal(failure.args[0]):
                raise
            if not wait(f"the group's offsets are not known: {failure.args[0].str()}"):
                return False
        else:
            return True


def check_committed_offsets(
    configuration: Configuration, client: Consumer, topic: str, partitions: Iterable[int]
) -> None:
    """Raise ServiceError if records of an input topic would be masked again, because the group's offsets are gone.

    A configured ``auto.offset.reset`` is an explicit choice, with which nothing is checked. Raises KafkaException if no
    broker answers.
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


def partition_counts(client: Consumer | AdminClient) -> dict[str, int]:
    """Return the number of partitions of every topic. Raises KafkaException."""
    topics = client.list_topics(timeout=REQUEST_SECONDS).topics
    return {name: len(topic.partitions) for name, topic in topics.items()}


def input_names(counts: Mapping[str, int], topics: TopicsSection) -> list[str]:
    """Return the names of the input topics: those given, or those that exist and match the expression."""
    return [*topics.names] or sorted(filter(topics.is_input, counts))


def required_names(topics: TopicsSection, inputs: Sequence[str]) -> list[str]:
    """Return the names of the topics that a worker needs for these input topics."""
    names = [name for topic in map(topics.of, inputs) for name in (topic.input, topic.output, topic.rejected)]
    return [*dict.fromkeys(map(str, names)), topics.calibration, topics.statistics]


def check_names(topics: TopicsSection, inputs: Sequence[str]) -> None:
    """Raise ServiceError if a topic of these inputs has two roles."""
    for role, text in input_problems(topics, inputs):
        raise ServiceError(f"topics.{role}: {text}")


def require_existing(counts: Mapping[str, int], names: Iterable[str]) -> None:
    """Raise ServiceError if a topic has no partitions."""
    missing = [name for name in names if not counts.get(name)]
    if missing:
        raise ServiceError(missing_topics_text(missing))


def check_input(counts: Mapping[str, int], topics: TopicsSection, name: str) -> PartitionCounts:
    """Return the partition counts of one input topic and its outputs.

    Raises ServiceError if a topic is missing, or if the output has fewer partitions than the input.
    """
    topic = topics.of(name)
    require_existing(counts, required_names(topics, [name]))
    outputs, inputs = counts[topic.output], counts[name]
    if outputs < inputs:
        raise ServiceError(
            f"topic {topic.output} has {outputs} partitions and {name} has {inputs}: "
            f"a masked record keeps its partition number, so {topic.output} needs at least {inputs}"
        )
    return PartitionCounts(inputs, outputs, counts[topic.rejected])


def check_topic_settings(configuration: Configuration, inputs: Sequence[str]) -> None:
    """Raise ServiceError if a topic's settings do not fit what the worker writes; each problem with its remedy.

    Settings for which single records will be rejected, or by which records of an input may become large when they are
    decompressed, are only logged, and so is a broker that does not let the user read the settings.
    """
    topics = [configuration.topics.of(name) for name in inputs]
    written = [name for topic in topics for name in (topic.output, topic.rejected)]
    outputs = {topic.output for topic in topics}
    by_topic = _settings(configuration, [*dict.fromkeys(written), configuration.topics.calibration])
    problems = [*setting_problems(configuration, by_topic, outputs)]
    if problems:
        raise ServiceError("; ".join(problems))
    for risk in rejection_risks(by_topic, outputs):
        log.warning("%s", risk)
    for topic, settings in _settings(configuration, inputs).items():
        if (compression := settings.get(COMPRESSION_TYPE, UNCOMPRESSED)) != UNCOMPRESSED:
            log.warning("topic %s has %s", topic, compression_advice(topic, compression))


def _settings(configuration: Configuration, topics: Sequence[str]) -> Mapping[str, Mapping[str, str]]:
    """Return the settings of topics; none, with a warning, if they cannot be read."""
    admin = connect_admin({**confluent_properties(configuration), "log_level": 0})
    resources = [ConfigResource(ResourceType.TOPIC, topic) for topic in topics]
    try:
        require_controller(admin, seconds=REQUEST_SECONDS)
        answers = admin.describe_configs(resources, request_timeout=REQUEST_SECONDS) if resources else {}
        return {
            resource.name: {name: entry.value for name, entry in answer.result().items()}
            for resource, answer in answers.items()
        }
    except KafkaException as failure:
        log.warning("the settings of %s cannot be read: %s", ", ".join(topics), explained(failure.args[0]))
        return {}


def setting_problems(
    configuration: Configuration, by_topic: Mapping[str, Mapping[str, str]], outputs: Collection[str]
) -> Iterator[str]:
    """Yield the problems of topics with these settings, by name; ``outputs``: the topics of masked records."""
    rules = topic_rules(configuration)
    for topic, settings in by_topic.items():
        role = "output" if topic in outputs else "rejected"
        rule = rules["calibration" if topic == configuration.topics.calibration else role]
        yield from (f"topic {topic} has {problem}" for problem in rule.problems(topic, settings))


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


class InputTopics:
    """The input topics that a worker reads. With a regular expression, new topics are looked for while it runs.

    ``names``: of the topics to read. ``refused``: which ones are left out, and why; None if there are none.
    """

    def __init__(
        self, configuration: Configuration, found: FoundTopics, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._configuration, self._topics, self._clock = configuration, configuration.topics, clock
        self._properties = {**confluent_properties(configuration), "log_level": 0}
        self._every = refresh_seconds(self._properties)
        self._known_after = refresh_seconds(self._properties, CLIENT_REFRESH_MS)
        self._counts = dict(found.inputs)
        self.names = [*found.inputs]
        self._grown: dict[Partition, float] = {}
        self._next, self._next_outputs = clock() + self._every, clock()
        self._outputs: Mapping[str, int] = {}
        self.refused: str | None = None

    def counts(self, topic: str) -> PartitionCounts:
        """Return the numbers of partitions of an input topic, also of one that is not read any more."""
        return self._counts[topic]

    def has_place(self, partition: Partition) -> bool:
        """Return whether the output has a partition of this number, and producers know it.

        The input may have got partitions since the start. Requests the numbers of partitions if it has, at intervals.
        """
        if partition.number < self._counts[partition.topic].output:
            return True
        if self._clock() >= self._next_outputs:
            self._next_outputs = self._clock() + self._every
            with suppress(KafkaException):
                self._outputs = partition_counts(connect_admin(self._properties))
        outputs = self._outputs.get(self._topics.of(partition.topic).output, 0)
        if partition.number >= outputs:
            return False
        since = self._grown.setdefault(Partition(partition.topic, outputs), self._clock())
        if self._clock() - since < self._known_after:
            return False
        self._counts[partition.topic] = replace(self._counts[partition.topic], output=outputs)
        return True

    def place_missing(self, waiting: Iterable[Partition]) -> str | None:
        """Return why partitions are not read because of their output; None if there are none."""
        missing: dict[str, list[int]] = {}
        for topic, number in sorted(waiting):
            missing.setdefault(topic, []).append(number)
        texts = (
            f"partitions {', '.join(map(str, numbers))} of {topic} wait: "
            f"{self._topics.of(topic).output} needs at least {max(numbers) + 1} partitions"
            for topic, numbers in missing.items()
        )
        return "; ".join(texts) or None

    def refresh(self) -> None:
        """Look for new topics, if the time has come and they are not all named."""
        if self._topics.expression is None or self._clock() < self._next:
            return
        self._next = self._clock() + self._every
        try:
            counts = partition_counts(connect_admin(self._properties))
        except KafkaException as failure:
            log.warning("new topics cannot be looked for: %s", explained(failure.args[0]))
            return
        found, problems = input_names(counts, self._topics), []
        self.names = [name for name in self.names if name in found]
        for name in found:
            if name not in self.names and (problem := self._add(name, counts)) is not None:
                problems.append(f"{name}: {problem}")
        self.refused = f"input topics are not read: {'; '.join(problems)}" if problems else None
        if self.refused is not None:
            log.error("%s", self.refused)

    def _add(self, name: str, counts: Mapping[str, int]) -> str | None:
        """Add a topic if it passes the checks, otherwise return why it does not."""
        try:
            check_names(self._topics, [*self.names, name])
            checked = check_input(counts, self._topics, name)
            check_topic_settings(self._configuration, [name])
        except ServiceError as error:
            return str(error)
        self._counts[name] = checked
        self.names.append(name)
        log.info("reading the new input topic %s", name)
        return None
