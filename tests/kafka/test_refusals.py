"""Brokers that refuse: one message with cause and remedy in every command, on a real Kafka with SASL/SCRAM and ACLs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner
from confluent_kafka import KafkaError
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    NewTopic,
    ResourcePatternType,
    ResourceType,
)
from kafka_broker import free_ports
from secured_kafka import SecuredKafka, password
from support.small_configuration import write_secret

from stream_masker.cli import main

TOPICS = ("discharges", "discharges.masked", "discharges.rejected", "stream-masker.calibration")
TOPICS += ("stream-masker.statistics", "stream-masker.drift")


@pytest.fixture(scope="module")
def secured(secured_kafka: SecuredKafka) -> tuple[str, AdminClient]:
    """The address of a listener with SCRAM, and an administrator. The users are ada and eve; topics exist."""
    admin = AdminClient({"bootstrap.servers": secured_kafka.bootstrap, "log_level": 0})
    for future in admin.create_topics([NewTopic(name, 1, 1) for name in TOPICS]).values():
        if (error := future.exception(30)) is not None:  # the broker outlives a second setup
            assert error.args[0].code() == KafkaError.TOPIC_ALREADY_EXISTS
    return secured_kafka.sasl, admin


def _done(futures: object) -> None:
    for future in dict(futures).values():  # type: ignore[call-overload]
        future.result(60)


def configure(folder: Path, address: str, user: str = "eve", secret: str = "", **topics: str) -> Path:
    write_secret(folder)
    (folder / "events.jsonl").write_text('{"a": "x"}\n')
    sasl = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "SCRAM-SHA-512"}
    content = {
        "kafka": {
            "bootstrap_servers": address,
            "properties": {**sasl, "sasl.username": user, "sasl.password": secret or password(user)},
        },
        "topics": topics,
        "ontologies": {"one": {"values": ["x", "y", "z"]}},
        "attributes": {"a": {"path": "a", "ontology": "one"}, "b": {"path": "b", "ontology": "one"}},
        "fields": {"unlisted": "drop"},
        "noise_key": "position",
        "mechanism": {"name": "pram"},
        "secret": {"file": "secret"},
        "http": {"port": 0},
    }
    path = folder / "stream-masker.yaml"
    path.write_text(yaml.safe_dump(content))
    return path


COMMANDS = (
    ("topics",),
    ("produce", "events.jsonl"),
    ("worker", "--http-port", "0"),
    ("calibrator",),
    ("audit", "--offset", "0:1"),
)


def message_of(folder: Path, arguments: Sequence[str], config: Path) -> str:
    """The only line that a command writes before it ends with exit code 1."""
    given = [str(folder / one) if one == "events.jsonl" else one for one in arguments]
    done = CliRunner().invoke(main, [given[0], "-c", str(config), *given[1:]])
    assert done.exit_code == 1, done.output
    errors = [line for line in done.output.splitlines() if line.startswith("Error: ")]
    assert len(errors) == 1, done.output
    assert "Traceback" not in done.output
    return errors[0]


@pytest.mark.parametrize("arguments", COMMANDS, ids=lambda arguments: arguments[0])
def test_a_wrong_password_is_named_with_its_remedy(
    secured: tuple[str, AdminClient], tmp_path: Path, arguments: Sequence[str]
) -> None:
    config = configure(tmp_path, secured[0], secret="wrong-password")
    assert message_of(tmp_path, arguments, config) == (
        f"Error: the broker at {secured[0]} refuses the user 'eve': check sasl.username, sasl.password and "
        "sasl.mechanism in kafka.properties"
    )


def proposal(address: str, user: str, secret: str) -> str:
    """The only line that ``config init`` writes, which has no configuration yet."""
    sasl = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "SCRAM-SHA-512"}
    sasl |= {"sasl.username": user, "sasl.password": secret}
    properties = [part for name, value in sasl.items() for part in ("--property", f"{name}={value}")]
    given = ["config", "init", "--topic", TOPICS[0], "--bootstrap-servers", address, *properties]
    done = CliRunner().invoke(main, given)
    assert done.exit_code == 1, done.output
    [error] = [line for line in done.output.splitlines() if line.startswith("Error: ")]
    assert "Traceback" not in done.output
    return error


def test_a_proposal_from_a_topic_names_a_wrong_password_and_missing_acls(secured: tuple[str, AdminClient]) -> None:
    address, _ = secured
    assert proposal(address, "eve", "wrong-password") == (
        f"Error: the broker at {address} refuses the user 'eve': check sasl.username, sasl.password and "
        "sasl.mechanism in kafka.properties"
    )
    assert f"the user 'eve' may not use the topics {TOPICS[0]}" in proposal(address, "eve", password("eve"))


@pytest.mark.parametrize("arguments", COMMANDS[1:], ids=lambda arguments: arguments[0])
def test_missing_acls_are_named_with_their_remedy(
    secured: tuple[str, AdminClient], tmp_path: Path, arguments: Sequence[str]
) -> None:
    found = message_of(tmp_path, arguments, configure(tmp_path, secured[0]))
    assert "the user 'eve' may not use the topics " in found
    assert found.endswith("`stream-masker topics --acls` prints the access that each user needs")


@pytest.mark.parametrize("arguments", COMMANDS[1:], ids=lambda arguments: arguments[0])
def test_unknown_topics_are_named_with_the_command_that_creates_them(
    secured: tuple[str, AdminClient], tmp_path: Path, arguments: Sequence[str]
) -> None:
    address, admin = secured
    binding = AclBinding(
        ResourceType.TOPIC,
        "*",
        ResourcePatternType.LITERAL,
        "User:ada",
        "*",
        AclOperation.ALL,
        AclPermissionType.ALLOW,
    )
    _done(admin.create_acls([binding]))
    roles = ("input", "output", "rejected", "calibration", "statistics", "drift")
    config = configure(tmp_path, address, "ada", **{role: f"none.{role}" for role in roles})
    found = message_of(tmp_path, arguments, config)
    assert "topics do not exist: none." in found
    assert found.endswith("`stream-masker topics` creates them")


@pytest.mark.exhaustive
@pytest.mark.parametrize("arguments", [COMMANDS[0], COMMANDS[1], COMMANDS[4]], ids=lambda arguments: arguments[0])
def test_a_broker_that_is_down_is_one_message(tmp_path: Path, arguments: Sequence[str]) -> None:
    address = f"127.0.0.1:{free_ports(1)[0]}"
    found = message_of(tmp_path, arguments, configure(tmp_path, address))
    assert f"no broker answers at {address}: check that the broker runs, kafka.bootstrap_servers, and" in found
