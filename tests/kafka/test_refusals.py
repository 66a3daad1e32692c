"""Brokers that refuse: one message with cause and remedy in every command, on a real Kafka with SASL/SCRAM and ACLs."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from confluent_kafka.admin import AclBinding, AclOperation, AclPermissionType, ResourcePatternType, ResourceType
from secured_kafka import SecuredKafka, section
from service import Service

COMMANDS = (("topics",), ("produce", "--synthetic", "1"), ("worker",), ("calibrator",), ("audit", "--offset", "0:1"))

each = pytest.mark.parametrize("arguments", COMMANDS, ids=lambda arguments: arguments[0])
each_check = pytest.mark.parametrize("arguments", COMMANDS[1:3], ids=lambda arguments: arguments[0])
"""The producer checks its topic itself. All others check their topics as the worker does."""


def run(here: Service, arguments: Sequence[str], client: dict[str, str]) -> str:
    """Run a command with the properties of a client; return its message."""
    done = here.command(*arguments, code=1, kafka=section(client))
    [error] = [line for line in done.output.splitlines() if line.startswith("Error: ")]
    assert "Traceback" not in done.output
    return error


@each
def test_a_wrong_password_is_named_with_its_remedy(
    secured_kafka: SecuredKafka, here: Service, arguments: Sequence[str]
) -> None:
    said = run(here, arguments, secured_kafka.scram("eve", "wrong-password"))
    remedy = "check sasl.username, sasl.password and sasl.mechanism in kafka.properties"
    assert said.startswith(f"Error: no broker can be used at {secured_kafka.sasl}: {remedy} (")
    assert "wrong-password" not in said


@each_check
def test_missing_acls_are_named_with_their_remedy(
    secured_kafka: SecuredKafka, here: Service, arguments: Sequence[str]
) -> None:
    here.create()
    said = run(here, arguments, secured_kafka.scram("eve"))
    assert "the user 'eve' may not use the topics " in said
    assert said.endswith("docs/kafka.md lists the access that each user needs")


@each_check
def test_unknown_topics_are_named_with_the_command_that_creates_them(
    secured_kafka: SecuredKafka, here: Service, arguments: Sequence[str]
) -> None:
    every_topic = (ResourceType.TOPIC, "*", ResourcePatternType.LITERAL, "User:ada", "*")
    secured_kafka.add([AclBinding(*every_topic, AclOperation.ALL, AclPermissionType.ALLOW)])
    said = run(here, arguments, secured_kafka.scram("ada"))
    assert "topics do not exist: " in said
    assert here.unique in said
    assert said.endswith("`stream-masker topics` creates them")
