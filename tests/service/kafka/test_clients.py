"""Kafka clients from the configuration, and the translation of properties for kafka-python."""

from __future__ import annotations

import logging

import pytest
from kafka import KafkaAdminClient, KafkaProducer
from kafka_records import mock_broker

from stream_masker.errors import ConfigurationError, ServiceError
from stream_masker.service.configuration import parse_configuration
from stream_masker.service.configuration.model import Configuration
from stream_masker.service.configuration.sections import KafkaSection
from stream_masker.service.kafka.clients import (
    PROPERTY_TRANSLATIONS,
    confluent_properties,
    kafka_python_admin,
    kafka_python_arguments,
    kafka_python_producer,
)

PASSWORD = "do-not-tell"
SECURED = {
    "security.protocol": "sasl_ssl",
    "sasl.mechanisms": "scram-sha-512",
    "sasl.username": "clinic",
    "sasl.password": PASSWORD,
    "ssl.ca.location": "/ca.pem",
    "ssl.endpoint.identification.algorithm": "none",
    "socket.keepalive.enable": True,
}


def configured(**kafka: object) -> Configuration:
    return parse_configuration(
        {
            "kafka": kafka,
            "ontologies": {"icd": {"source": "icd10cm"}},
            "attributes": {"principal": {"path": "principal", "ontology": "icd"}},
            "mechanism": {"reference": "mean"},
            "fields": {"unlisted": "keep"},
            "noise_key": "position",
        }
    )


def test_caller_overrides_confluent_properties() -> None:
    configuration = configured(bootstrap_servers="a:1,b:2", properties={"acks": "1", "linger.ms": 7})
    assert confluent_properties(configuration, acks="all", **{"group.id": "g"}, isolation_level="read_committed") == {
        "bootstrap.servers": "a:1,b:2",
        "acks": "all",
        "linger.ms": 7,
        "group.id": "g",
        "isolation.level": "read_committed",
    }


def test_security_properties_are_translated() -> None:
    kafka = KafkaSection(bootstrap_servers="a:1,b:2", properties=SECURED)
    assert kafka_python_arguments(kafka, KafkaAdminClient.DEFAULT_CONFIG) == {
        "bootstrap_servers": ["a:1", "b:2"],
        "security_protocol": "SASL_SSL",
        "sasl_mechanism": "SCRAM-SHA-512",
        "sasl_plain_username": "clinic",
        "sasl_plain_password": PASSWORD,
        "ssl_cafile": "/ca.pem",
        "ssl_check_hostname": False,
    }


def test_ignored_properties_are_logged_by_name_only(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG, "stream_masker"):
        kafka_python_arguments(KafkaSection(properties=SECURED), KafkaAdminClient.DEFAULT_CONFIG)
    assert "socket.keepalive.enable" in caplog.text
    assert PASSWORD not in caplog.text


@pytest.mark.parametrize(
    ("name", "value", "argument", "read"),
    [
        ("linger.ms", "5.0", "linger_ms", 5),
        ("compression.type", "none", "compression_type", None),
        ("compression.codec", "GZIP", "compression_type", "gzip"),
        ("enable.idempotence", "false", "enable_idempotence", False),
        ("acks", -1, "acks", "all"),
        ("request.required.acks", "1", "acks", 1),
    ],
)
def test_producer_properties_are_parsed_like_librdkafka(name: str, value: object, argument: str, read: object) -> None:
    assert (
        kafka_python_arguments(KafkaSection(properties={name: value}), KafkaProducer.DEFAULT_CONFIG)[argument] == read
    )


def test_every_translation_is_a_kafka_python_argument() -> None:
    assert {argument for argument, _ in PROPERTY_TRANSLATIONS.values()} <= KafkaProducer.DEFAULT_CONFIG.keys()


def test_value_of_the_wrong_type_names_its_key() -> None:
    with pytest.raises(ConfigurationError, match=r"kafka\.properties\.linger\.ms"):
        kafka_python_arguments(KafkaSection(properties={"linger.ms": "soon"}), KafkaProducer.DEFAULT_CONFIG)


@pytest.mark.exhaustive
def test_unreachable_broker_is_one_error_without_logs(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("stream_masker.service.kafka.clients.BROKER_PROBE_MS", 200)
    with pytest.raises(ServiceError, match=r"127\.0\.0\.1:1\b"):
        kafka_python_admin(configured(bootstrap_servers="127.0.0.1:1"))
    assert not caplog.records


@pytest.mark.parametrize("properties", [{"compression.type": "no-such-codec"}, {"acks": 1}])
def test_invalid_properties_are_a_configuration_error(properties: dict[str, object]) -> None:
    with mock_broker() as bootstrap, pytest.raises(ConfigurationError, match=r"kafka\.properties"):
        kafka_python_producer(
            configured(bootstrap_servers=bootstrap, properties=properties), acks="all", enable_idempotence=True
        )
