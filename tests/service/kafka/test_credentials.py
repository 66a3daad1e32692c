"""The credentials of kafka-python's client from the configuration."""

from __future__ import annotations

import ssl
from functools import partial

import pytest
from kafka import KafkaAdminClient
from support.small_configuration import small_configuration

from stream_masker.errors import ConfigurationError, ServiceError
from stream_masker.service.configuration import parse_configuration
from stream_masker.service.kafka import topics
from stream_masker.service.kafka.credentials import kafka_python_credentials as credentials
from stream_masker.service.kafka.failures import require_broker

PASSWORD = "do-not-tell"


def test_passwords_are_translated_with_their_transport() -> None:
    given = {"sasl.mechanisms": "scram-sha-512", "sasl.username": "clinic", "sasl.password": PASSWORD}
    arguments = credentials({"security.protocol": "sasl_ssl", **given})
    context = arguments.pop("ssl_context")
    assert (context.verify_mode, context.check_hostname) == (ssl.CERT_REQUIRED, True)
    assert arguments == {
        "security_protocol": "SASL_SSL",
        "sasl_mechanism": "SCRAM-SHA-512",
        "sasl_plain_username": "clinic",
        "sasl_plain_password": PASSWORD,
    }
    assert arguments.keys() <= KafkaAdminClient.DEFAULT_CONFIG.keys()


@pytest.mark.parametrize(
    ("properties", "message"),
    [
        (
            {"security.protocol": "SASL_SSL", "sasl.mechanism": "OAUTHBEARER"},
            "sasl.mechanism is OAUTHBEARER; supported",
        ),
        ({"security.protocol": "SASL_PLAINTEXT"}, "sasl.mechanism is GSSAPI; supported are PLAIN, SCRAM-SHA-256"),
        ({"security.protocol": "ssl3"}, "security.protocol is SSL3; supported are PLAINTEXT"),
        ({"security.protocol": "ssl", "ssl.key.pem": PASSWORD}, "ssl.key.pem is supported by librdkafka only"),
    ],
)
def test_what_kafka_python_does_not_have_is_named(properties: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message) as caught:
        credentials(properties)
    assert PASSWORD not in str(caught.value)


def test_plaintext_needs_no_arguments() -> None:
    assert credentials({}) == {"security_protocol": "PLAINTEXT"}


@pytest.mark.parametrize(
    ("properties", "kind", "said"),
    [
        ({}, ServiceError, r"127\.0\.0\.1:1\b"),
        ({"security.protocol": "no-such-protocol"}, ConfigurationError, r"kafka\.properties"),
    ],
)
def test_a_connection_that_fails_is_one_error_without_logs(
    properties: dict[str, str],
    kind: type[Exception],
    said: str,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr("stream_masker.service.kafka.failures.PROBE_STEP_SECONDS", 0.1)
    monkeypatch.setattr(topics, "require_broker", partial(require_broker, seconds=0.5))
    kafka = {"bootstrap_servers": "127.0.0.1:1", "properties": properties}
    configuration = parse_configuration(small_configuration("principal", kafka=kafka, mechanism={"reference": "mean"}))
    with pytest.raises(kind, match=said):
        topics.prepare_topics(configuration)
    assert not caplog.records
