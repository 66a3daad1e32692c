"""The names of consumer groups and transactional ids, and the access to Kafka that each process needs.

Kafka's authorizer implies Describe by Read and Write, and IdempotentWrite by Write on any topic.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

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


class AccessRule(NamedTuple):
    """Operations that a role needs on a resource; a name that ends with ``*`` is that of all with this beginning.

    ``role``: a process of the service, the producer of events, the reader of masked records, or the administrator who
    runs ``stream-masker topics``. ``resource``: as kafka-acls.sh names its options. ``operations``: with spaces.
    """

    role: str
    resource: str
    name: str
    operations: str

    def __str__(self) -> str:
        return f"{self.role:14}{self.resource:17}{self.name:40} {self.operations}"


TOPIC_ACCESS: Final[Mapping[str, Mapping[str, str]]] = {
    "producer": {"input": "Write"},
    "worker": {"input": "Read", "output": "Write", "rejected": "Write", "calibration": "Write", "statistics": "Read"},
    "calibrator": {"input": "Read", "calibration": "Read", "statistics": "Read Write", "drift": "Write"},
    "reader": {"output": "Read"},
    "administrator": dict.fromkeys(TopicsSection.model_fields, "Create Describe DescribeConfigs"),
}
"""The operations that each role needs on the topics of the configuration."""


def required_access(configuration: Configuration) -> Iterator[AccessRule]:
    """Yield all rules of a configuration. A reader of masked records also needs Read on its own consumer group."""
    topics = configuration.topics
    for role, access in TOPIC_ACCESS.items():
        for name, operations in access.items():
            yield AccessRule(role, "topic", getattr(topics, name), operations)
    worker = "worker", consumer_group_id(configuration), f"{transactional_id_prefix(configuration)}*"
    calibrator = "calibrator", calibrator_group(configuration), publisher_id(topics)
    for role, group, transactional_id in (worker, calibrator):
        yield AccessRule(role, "group", group, "Read")
        yield AccessRule(role, "group", READER_GROUP, "Describe")
        yield AccessRule(role, "transactional-id", transactional_id, "Write")
