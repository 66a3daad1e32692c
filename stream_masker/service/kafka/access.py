"""The names of consumer groups and transactional ids. The section Access of ``docs/kafka.md`` lists who needs which."""

from __future__ import annotations

from stream_masker.service.configuration.model import Configuration
from stream_masker.service.configuration.service import TopicsSection

READER_GROUP = "stream-masker-reader"
"""The name that consumers of single partitions give as their group; they join none."""


def consumer_group_id(configuration: Configuration) -> str:
    """Return the consumer group of all workers of one input: ``group.id`` if configured, else a name of its own."""
    return str(configuration.kafka.properties.get("group.id", f"stream-masker.{configuration.topics.input}"))


def transactional_id_prefix(configuration: Configuration) -> str:
    """Return the beginning of the transactional ids of all workers of one input."""
    return f"{consumer_group_id(configuration)}."


def calibrator_group(configuration: Configuration) -> str:
    """Return the consumer group of all calibrators of a calibration topic; one member is active."""
    return f"{configuration.topics.calibration}.calibrator"


def publisher_id(topics: TopicsSection) -> str:
    """Return the transactional id that all publishers of a statistics topic share."""
    return f"{topics.statistics}.publisher"
