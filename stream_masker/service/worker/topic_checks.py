"""Checks of the worker's topics: they exist, and the output has at least the input's partitions."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from confluent_kafka import KafkaException

from stream_masker.errors import ServiceError
from stream_masker.service.configuration.model import TopicsSection

log = logging.getLogger(__name__)

METADATA_TIMEOUT_SECONDS = 5.0


class MetadataClient(Protocol):
    """The method of confluent-kafka's clients that is used here."""

    def list_topics(self, *, timeout: float) -> Any: ...


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
    required = (topics.input, topics.output, topics.rejected, topics.calibration, topics.statistics)
    missing = [name for name in required if not counts.get(name)]
    if missing:
        raise ServiceError(f"topics do not exist: {', '.join(missing)}; stream-masker topics creates them")
    outputs, inputs = counts[topics.output], counts[topics.input]
    if outputs < inputs:
        raise ServiceError(
            f"topic {topics.output} has {outputs} partitions and {topics.input} has {inputs}: "
            f"a masked record keeps its partition number, so {topics.output} needs at least {inputs}"
        )
    return PartitionCounts(inputs, outputs, counts[topics.rejected], counts[topics.statistics])


def find_partitions(
    client: MetadataClient, topics: TopicsSection, *, wait: Callable[[str], bool]
) -> PartitionCounts | None:
    """Request the topics' metadata until a broker answers; return None when stopping.

    ``wait`` is called with the reason after each failed request; it returns False when the process stops. Raises
    ServiceError as ``check_partitions`` does.
    """
    while True:
        try:
            found = client.list_topics(timeout=METADATA_TIMEOUT_SECONDS).topics
        except KafkaException as failure:
            if not wait(f"no broker answers: {failure.args[0].str()}"):
                return None
        else:
            return check_partitions({name: len(topic.partitions) for name, topic in found.items()}, topics)
