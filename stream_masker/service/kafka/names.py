"""The names of consumer groups and transactional ids, and the access control lists that refer to them.

Kafka's authorizer implies Describe by Read and Write, and IdempotentWrite by Write on any topic.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Literal, TypeAlias

from stream_masker.service.configuration.model import Configuration
from stream_masker.service.configuration.topics import TopicsSection

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


class PrincipalRole(StrEnum):
    """Who accesses Kafka: the processes of the service, the producer of events, the reader of masked records, and the
    administrator who runs ``stream-masker topics``."""

    PRODUCER = "producer"
    WORKER = "worker"
    CALIBRATOR = "calibrator"
    READER = "reader"
    ADMINISTRATOR = "administrator"


DEFAULT_PRINCIPALS: Mapping[PrincipalRole, str] = {role: f"User:stream-masker-{role}" for role in PrincipalRole}

Resource: TypeAlias = Literal["topic", "group", "transactional-id"]
"""The kinds of resources, as kafka-acls.sh names their options."""


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
    """Return all rules of a configuration, each once.

    A reader of masked records also needs Read on its own consumer group.
    """
    topics, group = configuration.topics, consumer_group_id(configuration)
    worker, calibrator = PrincipalRole.WORKER, PrincipalRole.CALIBRATOR
    rules = [
        *_topic_rules(topics, "input", {PrincipalRole.PRODUCER: "Write", worker: "Read", calibrator: "Read"}),
        *_topic_rules(topics, "output", {worker: "Write", PrincipalRole.READER: "Read"}),
        *_topic_rules(topics, "rejected", {worker: "Write"}),
        *_topic_rules(topics, "calibration", {worker: "Write", calibrator: "Read"}),
        *_topic_rules(topics, "statistics", {worker: "Read", calibrator: "Read Write"}),
        *_topic_rules(topics, "drift", {calibrator: "Write"}),
        AccessRule(worker, "group", group, ("Read",)),
        AccessRule(worker, "group", READER_GROUP, ("Describe",)),
        AccessRule(worker, "transactional-id", transactional_id_prefix(configuration), ("Write",), prefixed=True),
        AccessRule(calibrator, "group", calibrator_group(configuration), ("Read",)),
        AccessRule(calibrator, "group", READER_GROUP, ("Describe",)),
        AccessRule(calibrator, "transactional-id", publisher_id(topics), ("Write",)),
    ]
    return list(dict.fromkeys(rules))


def _topic_rules(topics: TopicsSection, role: str, access: Mapping[PrincipalRole, str]) -> Iterator[AccessRule]:
    """Yield the rules of the topic of a role; ``access``: operations of each principal, separated by spaces."""
    for principal, operations in {**access, PrincipalRole.ADMINISTRATOR: "Create Describe DescribeConfigs"}.items():
        yield AccessRule(principal, "topic", getattr(topics, role), tuple(operations.split()))
