"""Brokers that refuse: one message with cause and remedy in every command, on a real Kafka with SASL/SCRAM and ACLs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    NewTopic,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)
from kafka_broker import KafkaUnavailableError, build, find, free_ports, jars

from stream_masker.cli import main

PASSWORD = "correct-password"
TOPICS = ("discharges", "discharges.masked", "discharges.rejected", "stream-masker.calibration")
TOPICS += ("stream-masker.statistics", "stream-masker.drift")


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, AdminClient]]:
    """The address of a listener with SCRAM, and an administrator. The users are ada and eve; topics exist."""
    try:
        find("java")
        jars()
    except KafkaUnavailableError as error:
        pytest.skip(str(error))
    cluster = build(tmp_path_factory.mktemp("secured"), brokers=1, heap="384m")
    (broker,) = cluster.brokers.values()
    behind = f"127.0.0.1:{broker.ports.behind}"
    broker.properties = {
        **broker.properties,
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,DETOUR:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT",
        "advertised.listeners": f"PLAINTEXT://{broker.address},DETOUR://{behind}",
        "sasl.enabled.mechanisms": "SCRAM-SHA-256",
        "listener.name.detour.scram-sha-256.sasl.jaas.config": (
            "org.apache.kafka.common.security.scram.ScramLoginModule required;"
        ),
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS",
    }
    try:
        cluster.create()
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap, "log_level": 0})
        for user in ("ada", "eve"):
            information = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 4096)
            change = UserScramCredentialUpsertion(user, information, PASSWORD.encode())
            _done(admin.alter_user_scram_credentials([change]))
        _done(admin.create_topics([NewTopic(name, 1, 1) for name in TOPICS]))
        yield behind, admin
    finally:
        cluster.destroy()


def _done(futures: object) -> None:
    for future in dict(futures).values():  # type: ignore[call-overload]
        future.result(30)


def configure(folder: Path, address: str, user: str = "eve", password: str = PASSWORD, **topics: str) -> Path:
    (folder / "secret").write_bytes(b"0123456789abcdef")
    (folder / "secret").chmod(0o600)
    (folder / "events.jsonl").write_text('{"a": "x"}\n')
    sasl = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "SCRAM-SHA-256"}
    content = {
        "kafka": {
            "bootstrap_servers": address,
            "properties": {**sasl, "sasl.username": user, "sasl.password": password},
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
    config = configure(tmp_path, secured[0], password="wrong-password")
    assert message_of(tmp_path, arguments, config) == (
        f"Error: the broker at {secured[0]} refuses the user 'eve': check sasl.username, sasl.password and "
        "sasl.mechanism in kafka.properties"
    )


@pytest.mark.parametrize("arguments", COMMANDS[1:], ids=lambda arguments: arguments[0])
def test_missing_acls_are_named_with_their_remedy(
    secured: tuple[str, AdminClient], tmp_path: Path, arguments: Sequence[str]
) -> None:
    found = message_of(tmp_path, arguments, configure(tmp_path, secured[0]))
    assert "the user 'eve' may not use the topics " in found
    assert "kafka-acls.sh --add --allow-principal User:eve --operation All --topic " in found


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


@pytest.mark.parametrize("arguments", [COMMANDS[0], COMMANDS[1], COMMANDS[4]], ids=lambda arguments: arguments[0])
def test_a_broker_that_is_down_is_one_message(tmp_path: Path, arguments: Sequence[str]) -> None:
    address = f"127.0.0.1:{free_ports(1)[0]}"
    found = message_of(tmp_path, arguments, configure(tmp_path, address))
    assert f"no broker answers at {address}: check that the broker runs, kafka.bootstrap_servers, and" in found
