"""Display of the configuration without secrets."""

from __future__ import annotations

import pytest

from stream_masker.service.configuration import load_configuration
from stream_masker.service.configuration.display import (
    REDACTED,
    SHOWN_PROPERTIES,
    redacted_configuration,
    redacted_yaml,
)

SECRET = "hunter2hunter2hunter2"


def test_displayed_configuration_is_equivalent(example, write):
    configuration = load_configuration(example, {})
    again = load_configuration(write(redacted_yaml(configuration)), {})
    assert again.model_dump() == configuration.model_dump()
    assert again.hash == configuration.hash


@pytest.mark.parametrize(
    "name",
    [
        "sasl.password",
        "sasl.jaas.config",
        "sasl.oauthbearer.client.secret",
        "sasl.oauthbearer.config",
        "ssl.key.password",
        "ssl.key.pem",
        "ssl.keystore.password",
        "sasl.oauthbearer.assertion.private.key.passphrase",
        "sasl.oauthbearer.assertion.private.key.pem",
        "sasl.oauthbearer.extensions",
        "sasl.kerberos.kinit.cmd",
        "ssl.engine.passphrase",
        "a.property.of.a.later.release",
    ],
)
def test_passwords_are_hidden(parse, name):
    text = redacted_yaml(parse(kafka={"properties": {name: SECRET, "client.id": "a"}}))
    assert SECRET not in text
    assert redacted_configuration(parse(kafka={"properties": {name: SECRET}}))["kafka"]["properties"] == {
        name: REDACTED
    }
    assert "client.id: a" in text


@pytest.mark.parametrize(
    "name",
    [
        "security.protocol",
        "sasl.mechanism",
        "sasl.username",
        "ssl.ca.location",
        "linger.ms",
        "queue.buffering.max.messages",
        "compression.type",
        "group.id",
        "enable.ssl.certificate.verification",
        "session.timeout.ms",
    ],
)
def test_properties_that_are_no_secrets_are_shown(parse, name):
    assert redacted_configuration(parse(kafka={"properties": {name: "value"}}))["kafka"]["properties"] == {
        name: "value"
    }


def test_no_property_that_a_client_calls_sensitive_is_shown():
    """The names are those of librdkafka's properties with the words of secrets."""
    words = ("password", "secret", "token", "credential", "passphrase", "pem", "jaas", "config", "cmd", "extensions")
    parts = ("ssl.key", "ssl.keystore", "sasl", "sasl.oauthbearer.client", "sasl.oauthbearer", "ssl.engine.callback")
    assert not [f"{part}.{word}" for part in parts for word in words if SHOWN_PROPERTIES.fullmatch(f"{part}.{word}")]


def test_defaults_are_shown(parse):
    data = redacted_configuration(parse())
    assert data["http"] == {"host": "127.0.0.1", "port": 9464, "names": []}
    assert data["attributes"]["principal"]["alpha"] == 0.3
