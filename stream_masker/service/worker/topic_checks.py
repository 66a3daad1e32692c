"""Checks of the worker's topics: they exist, differ, and an output has at least the partitions of its input."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from confluent_kafka import KafkaException

from stream_masker.errors import ServiceError
from stream_masker.service.configuration.topics.checks import input_problems
from stream_masker.service.configuration.topics.sections import TopicsSection
from stream_masker.service.kafka.failures import NoBrokerError, check_topics, explained, missing_topics_text

log = logging.getLogger(__name__)

METADATA_TIMEOUT_SECONDS = 5.0


class MetadataClient(Protocol):
    """The method of confluent-kafka's clients that is used here."""

    def list_topics(self, topic: str | None = None, *, timeout: float) -> Any: ...


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
    own = topics.of(name)
    require_existing(counts, required_names(topics, [name]))
    outputs, inputs = counts[own.output], counts[name]
    if outputs < inputs:
        raise ServiceError(
            f"topic {own.output} has {outputs} partitions and {name} has {inputs}: "
            f"a masked record keeps its partition number, so {own.output} needs at least {inputs}"
        )
    return PartitionCounts(inputs, outputs, counts[own.rejected])


def input_names(counts: Mapping[str, int], topics: TopicsSection) -> list[str]:
    """Return the names of the input topics: those given, or those that exist and match the expression."""
    return [*topics.names] or sorted(filter(topics.is_input, counts))


def require_existing(counts: Mapping[str, int], names: Iterable[str]) -> None:
    """Raise ServiceError if a topic has no partitions."""
    missing = [name for name in names if not counts.get(name)]
    if missing:
        raise ServiceError(missing_topics_text(missing))


def find_partitions(
    client: MetadataClient,
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


def partition_counts(client: MetadataClient) -> dict[str, int]:
    """Return the number of partitions of every topic. Raises KafkaException."""
    found = client.list_topics(timeout=METADATA_TIMEOUT_SECONDS).topics
    return {name: len(topic.partitions) for name, topic in found.items()}


def required_names(topics: TopicsSection, inputs: Sequence[str]) -> list[str]:
    """Return the names of the topics that a worker needs for these input topics."""
    own = [name for topic in map(topics.of, inputs) for name in (topic.input, topic.output, topic.rejected)]
    provenance = [topics.provenance] if topics.provenance else []
    return [*dict.fromkeys(map(str, own)), topics.calibration, topics.statistics, *provenance]
