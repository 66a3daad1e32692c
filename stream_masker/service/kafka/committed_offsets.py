"""The committed offsets of the workers' group, which Kafka deletes when a group has been empty for some days.

Without them a worker would mask the whole input again, beside what the output already has.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from confluent_kafka import KafkaException, TopicPartition

from stream_masker.errors import ServiceError
from stream_masker.service.configuration import Configuration
from stream_masker.service.kafka.names import consumer_group_id
from stream_masker.service.kafka.topic_reader import POLL_TIMEOUT_SECONDS, connect_reader, read_to_end

RESET_PROPERTY = "auto.offset.reset"
RESETS_TO_END = ("latest", "largest", "end")
"""Its values with which a worker whose offset was deleted does not mask what is retained."""


class OffsetsClient(Protocol):
    """The methods of ``confluent_kafka.Consumer`` that are used here."""

    def committed(self, partitions: list[TopicPartition], timeout: float) -> list[TopicPartition]: ...
    def get_watermark_offsets(
        self, partition: TopicPartition, timeout: float, cached: bool
    ) -> tuple[int, int] | None: ...


def check_committed_offsets(
    configuration: Configuration, client: OffsetsClient, topic: str, partitions: Iterable[int]
) -> None:
    """Raise ServiceError if records of an input topic would be masked again, because the group's offsets are gone.

    ``client``: of the group. ``partitions``: those of the topic. A configured ``auto.offset.reset`` is an explicit
    choice, with which nothing is checked. Raises KafkaException if no broker answers.
    """
    if RESET_PROPERTY in configuration.kafka.properties:
        return
    found = client.committed([TopicPartition(topic, number) for number in partitions], POLL_TIMEOUT_SECONDS)
    for error in (one.error for one in found if one.error is not None):
        raise KafkaException(error)
    unknown = [one.partition for one in found if one.offset < 0 and _has_offsets(client, topic, one.partition)]
    output = configuration.topics.of(topic).output
    masked = [n for n in unknown if _has_offsets(client, output, n) and _has_records(configuration, output, n)]
    if masked:
        raise ServiceError(
            f"the group {consumer_group_id(configuration)} has no offsets of {topic}, partitions "
            f"{', '.join(map(str, masked))}, but {output} has records there, so that the input would be masked again: "
            f"set {RESET_PROPERTY} in kafka.properties to earliest to do so, or to latest to mask only new records"
        )


def _has_offsets(client: OffsetsClient, topic: str, partition: int) -> bool:
    low, high = client.get_watermark_offsets(TopicPartition(topic, partition), POLL_TIMEOUT_SECONDS, False) or (0, 0)
    return low < high


def _has_records(configuration: Configuration, topic: str, partition: int) -> bool:
    """Return whether a partition has committed records; True for a user who may not read it."""
    try:
        with connect_reader(configuration) as reader:
            return any(True for _ in read_to_end(reader, topic, partition=partition, patience=POLL_TIMEOUT_SECONDS))
    except (KafkaException, ServiceError):
        return True
