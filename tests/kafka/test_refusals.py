"""Brokers that refuse: one message with cause and remedy in every command, on a real Kafka with SASL/SCRAM and ACLs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from click.testing import Result
from confluent_kafka.admin import AclBinding, AclOperation, AclPermissionType, ResourcePatternType, ResourceType
from kafka_broker import LOOPBACK, free_ports
from secured_kafka import SecuredKafka
from service import Service, service, value

COMMANDS = (("topics",), ("produce", "events.jsonl"), ("worker",), ("calibrator",), ("audit", "--offset", "0:1"))

each = pytest.mark.parametrize("arguments", COMMANDS, ids=lambda arguments: arguments[0])
each_reader = pytest.mark.parametrize("arguments", COMMANDS[1:], ids=lambda arguments: arguments[0])


@pytest.fixture
def here(secured_kafka: SecuredKafka, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Service]:
    """The service on a broker on which nobody may use its topics, which do not exist."""
    monkeypatch.chdir(tmp_path)
    Path("events.jsonl").write_bytes(value(0))
    made = service(secured_kafka.bootstrap, tmp_path)
    yield made
    made.end()


def run(here: Service, arguments: Sequence[str], client: dict[str, str]) -> str:
    """Run a command with the properties of a client; return its message."""
    properties = {name: text for name, text in client.items() if name != "bootstrap.servers"}
    kafka = {"bootstrap_servers": client["bootstrap.servers"], "properties": properties}
    return message_of(here.command(*arguments, code=1, kafka=kafka))


def message_of(done: Result) -> str:
    [error] = [line for line in done.output.splitlines() if line.startswith("Error: ")]
    assert "Traceback" not in done.output
    return error


def wrong_password(address: str) -> str:
    remedy = "check sasl.username, sasl.password and sasl.mechanism in kafka.properties"
    return f"Error: the broker at {address} refuses the user 'eve': {remedy}"


@each
def test_a_wrong_password_is_named_with_its_remedy(
    secured_kafka: SecuredKafka, here: Service, arguments: Sequence[str]
) -> None:
    said = run(here, arguments, secured_kafka.scram("eve", "wrong-password"))
    assert said == wrong_password(secured_kafka.sasl)


@each_reader
def test_missing_acls_are_named_with_their_remedy(
    secured_kafka: SecuredKafka, here: Service, arguments: Sequence[str]
) -> None:
    here.create()
    said = run(here, arguments, secured_kafka.scram("eve"))
    assert "the user 'eve' may not use the topics " in said
    assert said.endswith("`stream-masker topics --acls` prints the access that each user needs")


@each_reader
def test_unknown_topics_are_named_with_the_command_that_creates_them(
    secured_kafka: SecuredKafka, here: Service, arguments: Sequence[str]
) -> None:
    every_topic = (ResourceType.TOPIC, "*", ResourcePatternType.LITERAL, "User:ada", "*")
    secured_kafka.add([AclBinding(*every_topic, AclOperation.ALL, AclPermissionType.ALLOW)])
    said = run(here, arguments, secured_kafka.scram("ada"))
    assert "topics do not exist: " in said
    assert here.unique in said
    assert said.endswith("`stream-masker topics` creates them")


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    "arguments",
    [COMMANDS[0], *(pytest.param(one, marks=pytest.mark.scheduled) for one in (COMMANDS[1], COMMANDS[4]))],
    ids=lambda arguments: arguments[0],
)
def test_a_broker_that_is_down_is_one_message(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: Sequence[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("events.jsonl").write_bytes(value(0))
    address = f"{LOOPBACK}:{free_ports(1)[0]}"
    said = message_of(service(address, tmp_path).command(*arguments, code=1))
    assert f"no broker answers at {address}: check that the broker runs, kafka.bootstrap_servers, and" in said
