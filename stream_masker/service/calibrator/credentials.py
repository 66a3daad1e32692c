"""Faust's credentials, derived from librdkafka's properties."""

from __future__ import annotations

import ssl
from collections.abc import Mapping

from faust.auth import SASLCredentials, SSLCredentials
from faust.types.auth import CredentialsT

from stream_masker.errors import ConfigurationError
from stream_masker.service.kafka.clients import PropertyValue
from stream_masker.service.kafka.tls import ssl_context

SECURITY_PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
SASL_MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")

KafkaProperties = Mapping[str, PropertyValue]


def faust_credentials(properties: KafkaProperties) -> CredentialsT | None:
    """Return the credentials for ``security.protocol`` and its related properties; None for plaintext.

    Raises ConfigurationError for a protocol or mechanism that Faust does not support, or an unreadable certificate.
    """
    protocol = _one_of(
        "security.protocol", str(properties.get("security.protocol", "PLAINTEXT")).upper(), SECURITY_PROTOCOLS
    )
    context = ssl_context(properties) if protocol.endswith("SSL") else None
    if protocol.startswith("SASL"):
        return _sasl(properties, context)
    return None if context is None else SSLCredentials(context)


def _sasl(properties: KafkaProperties, context: ssl.SSLContext | None) -> CredentialsT:
    mechanism = properties.get("sasl.mechanism", properties.get("sasl.mechanisms", "PLAIN"))
    return SASLCredentials(
        username=str(properties.get("sasl.username", "")),
        password=str(properties.get("sasl.password", "")),
        ssl_context=context,
        mechanism=_one_of("sasl.mechanism", str(mechanism).upper(), SASL_MECHANISMS),
    )


def _one_of(name: str, value: str, allowed: tuple[str, ...]) -> str:
    if value not in allowed:
        raise ConfigurationError(
            f"kafka.properties.{name} is not supported by the calibrator: use one of {', '.join(allowed)}"
        )
    return value
