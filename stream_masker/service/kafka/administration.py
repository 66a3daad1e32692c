"""kafka-python's client for the administration of topics.

The properties of the configuration are librdkafka's. Those of addresses, credentials and TLS are translated, and no
others: the client is open for the few requests of one command.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from kafka import KafkaAdminClient
from kafka.errors import KafkaConfigurationError, KafkaError
from kafka.sasl.oauth import AbstractTokenProvider

from stream_masker.errors import ConfigurationError, ServiceError
from stream_masker.service.configuration.model import Configuration
from stream_masker.service.kafka.clients import PropertyValue, confluent_properties
from stream_masker.service.kafka.credentials import ClientTokens, ssl_context
from stream_masker.service.kafka.failures import require_broker

BROKER_PROBE_MS = 10_000
"""The time that the client looks for a broker, in milliseconds."""


def connect_administration(configuration: Configuration) -> KafkaAdminClient:
    """Connect a client.

    Raises ServiceError if no broker is reachable, ConfigurationError for properties that cannot be used.
    """
    properties, servers = configuration.kafka.properties, configuration.kafka.bootstrap_servers
    require_broker(confluent_properties(configuration))
    try:
        with _silenced("kafka"):  # kafka-python logs every failed attempt as an error, even if a later one succeeds
            return KafkaAdminClient(
                bootstrap_servers=servers.split(","),
                client_id=str(properties.get("client.id", "stream-masker")),
                api_version_auto_timeout_ms=BROKER_PROBE_MS,
                **credentials(properties),
            )
    except (AssertionError, KafkaConfigurationError, ValueError, OSError) as error:
        raise ConfigurationError(f"kafka.properties cannot be used: {error}") from error
    except KafkaError as error:
        raise ServiceError(f"cannot connect to Kafka at {servers}: {type(error).__name__}") from error


@contextmanager
def _silenced(name: str) -> Iterator[None]:
    logger = logging.getLogger(name)
    level = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        logger.setLevel(level)


def credentials(properties: Mapping[str, PropertyValue]) -> dict[str, Any]:
    """Return the arguments of kafka-python for ``security.protocol`` and its related properties.

    Raises ConfigurationError for a certificate or a property of OAUTHBEARER that cannot be used.
    """
    protocol = str(properties.get("security.protocol", "PLAINTEXT")).upper()
    context = {"ssl_context": ssl_context(properties)} if protocol.endswith("SSL") else {}
    return {"security_protocol": protocol, **context, **(_sasl(properties) if protocol.startswith("SASL") else {})}


def _sasl(properties: Mapping[str, PropertyValue]) -> dict[str, Any]:
    mechanism = str(properties.get("sasl.mechanism", properties.get("sasl.mechanisms", "GSSAPI"))).upper()
    if mechanism == "OAUTHBEARER":
        return {"sasl_mechanism": mechanism, "sasl_oauth_token_provider": _Tokens(properties)}
    return {
        "sasl_mechanism": mechanism,
        "sasl_plain_username": properties.get("sasl.username"),
        "sasl_plain_password": properties.get("sasl.password"),
        "sasl_kerberos_service_name": properties.get("sasl.kerberos.service.name", "kafka"),
    }


class _Tokens(AbstractTokenProvider):  # type: ignore[misc]
    """The tokens of OAUTHBEARER in the form that kafka-python takes."""

    def __init__(self, properties: Mapping[str, PropertyValue]) -> None:
        self._tokens = ClientTokens(properties)

    def token(self) -> str:
        return self._tokens.token()

    def extensions(self) -> dict[str, str]:
        return self._tokens.extensions
