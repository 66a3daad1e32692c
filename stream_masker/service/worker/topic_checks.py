"""Checks of the worker's topics: they exist, and the output has at least the input's partitions."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from confluent_kafka import KafkaException

from stream_masker.errors import ServiceError
from stream_masker.service.configuration.sections import TopicsSection
from stream_masker.service.kafka.failures import NoBrokerError, check_topics, explained, missing_topics_text

log = logging.getLogger(__name__)

METADATA_TIMEOUT_SECONDS = 5.0


class MetadataClient(Protocol):
    """The method of confluent-kafka's clients that is used here."""

    def list_topics(self, topic: str | None = None, *, timeout: float) -> Any: ...


@dataclass(frozen=True, slots=True)
class PartitionCounts:
    """The numbers of partitions of the worker's topics."""

    input: int
    output: int
    rejected: int
    statistics: int


def check_partitions(counts: Mapping[str, int], topics: TopicsSection) -> PartitionCounts:
    """Select the partition counts of the worker's topics from those of all topics.

    Raises ServiceError if a topic is missing, or if the output has fewer partitions than the input: a masked record
    keeps its partition number.
    """
    missing = [name for name in required_names(topics) if not counts.get(name)]
    if missing:
        raise ServiceError(missing_topics_text(missing))
    outputs, inputs = counts[topics.output], counts[topics.input]
    if outputs < inputs:
        raise ServiceError(
            f"topic {topics.output} has {outputs} partitions and {topics.input} has {inputs}: "
            f"a masked record keeps its partition number, so {topics.output} needs at least {inputs}"
        )
    return PartitionCounts(inputs, outputs, counts[topics.rejected], counts[topics.statistics])


def find_partitions(
    client: MetadataClient,
    topics: TopicsSection,
    *,
    wait: Callable[[str], bool],
    connect: Callable[[], None] = lambda: None,
    user: str = "",
) -> PartitionCounts | None:
    """Request the topics' metadata until a broker answers; return None when stopping.

    ``connect`` raises ServiceError, as NoBrokerError while no broker is there. ``wait`` is called with the reason
    after each failed request; it returns False when the process stops. ``user``: the name to allow topics to. Raises
    ServiceError as ``check_partitions`` does, and for topics that the user may not describe.
    """
    while True:
        try:
            connect()
            found = client.list_topics(timeout=METADATA_TIMEOUT_SECONDS).topics
            hidden = {
                name: client.list_topics(name, timeout=METADATA_TIMEOUT_SECONDS).topics[name].error
                for name in required_names(topics)
                if name not in found
            }
        except NoBrokerError as error:
            if not wait(str(error)):
                return None
        except KafkaException as failure:
            if not wait(f"no broker answers: {explained(failure.args[0])}"):
                return None
        else:
            check_topics(hidden, user)
            return check_partitions({name: len(topic.partitions) for name, topic in found.items()}, topics)


def required_names(topics: TopicsSection) -> tuple[str, ...]:
    """The names of the topics that a worker needs."""
    return (topics.input, topics.output, topics.rejected, topics.calibration, topics.statistics)
