"""The names of consumer groups and transactional ids, and the access control lists that refer to them.

Kafka's authorizer implies Describe by Read and Write, and IdempotentWrite by Write on any topic.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias

from stream_masker.service.configuration.model import Configuration
from stream_masker.service.configuration.topics import TOPIC_PLACEHOLDER, TopicsSection, literal_prefix

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


def transactional_id_prefix(configuration: Configuration) -> str:
    """Return the beginning of the transactional ids of all workers of one input."""
    return f"{consumer_group_id(configuration)}."


def calibrator_group(configuration: Configuration) -> str:
    """Return the consumer group of all calibrators of a calibration topic; one member is active."""
    return f"{configuration.topics.calibration}.calibrator"


def publisher_id(topics: TopicsSection) -> str:
    """Return the transactional id that all publishers of a statistics topic share."""
    return f"{topics.statistics}.publisher"


class PrincipalRole(StrEnum):
    """Who accesses Kafka: the processes of the service, the producer of events, the reader of masked records, and the
    administrator who runs ``stream-masker topics``."""

    PRODUCER = "producer"
    WORKER = "worker"
    CALIBRATOR = "calibrator"
    READER = "reader"
    ADMINISTRATOR = "administrator"


DEFAULT_PRINCIPALS: Mapping[PrincipalRole, str] = {role: f"User:stream-masker-{role}" for role in PrincipalRole}


EVERY_TOPIC = "*"
"""The name that stands for all topics in an access control list."""

TopicPattern: TypeAlias = tuple[str, bool]
"""The name of a topic, or the beginning of names, and whether it is one."""


class Resource(StrEnum):
    """The kinds of resources, as kafka-acls.sh names their options."""

    TOPIC = "topic"
    GROUP = "group"
    TRANSACTIONAL_ID = "transactional-id"


@dataclass(frozen=True, slots=True)
class AccessRule:
    """Operations that a role may perform on a resource, or with ``prefixed`` on all whose names begin with ``name``."""

    role: PrincipalRole
    resource: Resource
    name: str
    operations: tuple[str, ...]
    prefixed: bool = False

    def command(self, bootstrap_servers: str, principal: str) -> str:
        """Return the command that adds the rule, for a shell."""
        operations = [word for operation in self.operations for word in ("--operation", operation)]
        pattern = ["--resource-pattern-type", "prefixed"] if self.prefixed else []
        target = [f"--{self.resource}", self.name, *pattern]
        server = ["--bootstrap-server", bootstrap_servers]
        return shlex.join(["kafka-acls.sh", *server, "--add", "--allow-principal", principal, *operations, *target])


def required_access(configuration: Configuration) -> list[AccessRule]:
    """Return all rules of a configuration.

    A reader of masked records also needs Read on its own consumer group.
    """
    return list(_rules(configuration))


def _rules(configuration: Configuration) -> Iterator[AccessRule]:
    topics = configuration.topics
    group, prefix = consumer_group_id(configuration), transactional_id_prefix(configuration)
    inputs, outputs, rejected = (_patterns(topics, role) for role in ("input", "output", "rejected"))
    yield from _topics(PrincipalRole.PRODUCER, inputs, "Write")
    yield from _topics(PrincipalRole.WORKER, inputs, "Read", "DescribeConfigs")
    yield from _topics(PrincipalRole.WORKER, [*outputs, *rejected], "Write", "DescribeConfigs")
    yield _topic(PrincipalRole.WORKER, topics.calibration, "Write", "DescribeConfigs")
    yield _topic(PrincipalRole.WORKER, topics.statistics, "Read")
    yield AccessRule(PrincipalRole.WORKER, Resource.GROUP, group, ("Read",))
    yield AccessRule(PrincipalRole.WORKER, Resource.GROUP, statistics_group_id(configuration), ("Describe",))
    yield AccessRule(PrincipalRole.WORKER, Resource.TRANSACTIONAL_ID, prefix, ("Write",), prefixed=True)
    yield from _topics(PrincipalRole.CALIBRATOR, inputs, "Read")
    yield _topic(PrincipalRole.CALIBRATOR, topics.calibration, "Read")
    yield _topic(PrincipalRole.CALIBRATOR, topics.statistics, "Read", "Write", "DescribeConfigs")
    yield _topic(PrincipalRole.CALIBRATOR, topics.drift, "Write")
    yield AccessRule(PrincipalRole.CALIBRATOR, Resource.GROUP, calibrator_group(configuration), ("Read",))
    yield AccessRule(PrincipalRole.CALIBRATOR, Resource.GROUP, READER_GROUP, ("Describe",))
    yield AccessRule(PrincipalRole.CALIBRATOR, Resource.TRANSACTIONAL_ID, publisher_id(topics), ("Write",))
    yield from _topics(PrincipalRole.READER, outputs, "Read")
    internal = [(name, False) for name in topics.internal.values()]
    everything = [*inputs, *outputs, *rejected, *internal]
    yield from _topics(PrincipalRole.ADMINISTRATOR, everything, "Create", "Describe", "DescribeConfigs")


def _patterns(topics: TopicsSection, role: str) -> list[TopicPattern]:
    """Return the names of the topics of a role; for a regular expression, the text that they begin with.

    Without such a text, the name is that of all topics.
    """
    if topics.expression is None:
        return [(name, False) for name in dict.fromkeys(getattr(topics.of(name), role) for name in topics.names)]
    template = TOPIC_PLACEHOLDER if role == "input" else getattr(topics, role)
    before, placeholder, _ = template.partition(TOPIC_PLACEHOLDER)
    prefix = before + literal_prefix(topics.expression) if placeholder else before
    return [(prefix or EVERY_TOPIC, bool(placeholder and prefix))]


def _topics(role: PrincipalRole, patterns: Iterable[TopicPattern], *operations: str) -> Iterator[AccessRule]:
    for name, prefixed in dict.fromkeys(patterns):
        yield AccessRule(role, Resource.TOPIC, name, operations, prefixed)


def _topic(role: PrincipalRole, name: str, *operations: str) -> AccessRule:
    return AccessRule(role, Resource.TOPIC, name, operations)
