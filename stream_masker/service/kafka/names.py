"""The names of consumer groups and transactional ids, which access control lists refer to."""

from __future__ import annotations

from stream_masker.service.configuration.model import Configuration
from stream_masker.service.configuration.topics.sections import TopicsSection

READER_GROUP = "stream-masker-reader"
"""The name that consumers of single partitions give as their group; they join none."""


def consumer_group_id(configuration: Configuration) -> str:
    """Return the consumer group of all workers of one deployment: ``group.id`` if configured, else a derived name.

    It contains the name of the input topic. With several input topics it contains that of the calibration topic, so
    that the group and its offsets stay the same when topics are added.
    """
    topics, configured = configuration.topics, configuration.kafka.properties.get("group.id")
    if configured is not None:
        return str(configured)
    return f"{topics.calibration}.workers" if topics.several else f"stream-masker.{topics.single}"


def statistics_group_id(configuration: Configuration) -> str:
    """Return the name that the statistics topic's consumer gives as its group; it joins none."""
    return f"{consumer_group_id(configuration)}.statistics"


def starts_group_id(configuration: Configuration) -> str:
    """Return the group in which workers note the offsets at which they begin to read; nothing joins it."""
    return f"{consumer_group_id(configuration)}.starts"


def transactional_id_prefix(configuration: Configuration) -> str:
    """Return the beginning of the transactional ids of all workers of one input."""
    return f"{consumer_group_id(configuration)}."


def calibrator_group(configuration: Configuration) -> str:
    """Return the consumer group of all calibrators of a calibration topic; one member is active."""
    return f"{configuration.topics.calibration}.calibrator"


def publisher_id(topics: TopicsSection) -> str:
    """Return the transactional id that all publishers of a statistics topic share."""
    return f"{topics.statistics}.publisher"
