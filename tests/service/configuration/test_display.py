"""Display of the configuration without secrets."""

from __future__ import annotations

import pytest

from stream_masker.service.configuration import load_configuration
from stream_masker.service.configuration.display import (
    REDACTED,
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
