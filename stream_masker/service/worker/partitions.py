"""What the worker needs of the topics: that they are there, and that the output has the input's partitions."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from confluent_kafka import KafkaException

from stream_masker.errors import ServiceError
from stream_masker.service.configuration.model import TopicsSection

log = logging.getLogger(__name__)

METADATA_SECONDS = 5.0


class MetadataClient(Protocol):
    """What is used of any client of confluent-kafka."""

    def list_topics(self, *, timeout: float) -> Any: ...


@dataclass(frozen=True, slots=True)
class PartitionCounts:
    """How many partitions the worker's topics have."""

    input: int
    output: int
    rejected: int
    statistics: int


def checked(counts: Mapping[str, int], topics: TopicsSection) -> PartitionCounts:
    """The partitions of the worker's topics, out of those of all topics.

    Raises ServiceError when a topic is missing, or the output has fewer partitions than the input: a masked record
    keeps its partition's number.
    """
    needed = (topics.input, topics.output, topics.rejected, topics.calibration, topics.statistics)
    missing = [name for name in needed if not counts.get(name)]
    if missing:
        raise ServiceError(f"no such topics: {', '.join(missing)}; stream-masker topics creates them")
    there, wanted = counts[topics.output], counts[topics.input]
    if there < wanted:
        raise ServiceError(
            f"topic {topics.output} has {there} partitions and {topics.input} has {wanted}: a masked record keeps its "
            f"partition's number, so give {topics.output} at least {wanted}"
        )
    return PartitionCounts(wanted, there, counts[topics.rejected], counts[topics.statistics])


def find_partitions(
    client: MetadataClient, topics: TopicsSection, *, wait: Callable[[str], bool]
) -> PartitionCounts | None:
    """Asks the brokers until one answers; ``wait`` is told why none did and says whether to go on (None: stopping).

    Raises ServiceError like ``checked``.
    """
    while True:
        try:
            found = client.list_topics(timeout=METADATA_SECONDS).topics
        except KafkaException as failure:
            if not wait(f"no broker answers: {failure.args[0].str()}"):
                return None
        else:
            return checked({name: len(topic.partitions) for name, topic in found.items()}, topics)
