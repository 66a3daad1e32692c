"""Faust's credentials, derived from librdkafka's properties."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Mapping

from aiokafka.abc import AbstractTokenProvider
from faust.auth import OAuthCredentials, SASLCredentials, SSLCredentials
from faust.types.auth import CredentialsT

from stream_masker.errors import ConfigurationError, ServiceError
from stream_masker.service.kafka.clients import PropertyValue
from stream_masker.service.kafka.oauth import ClientTokens
from stream_masker.service.kafka.tls import ssl_context

SECURITY_PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
SASL_MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")

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
    given = properties.get("sasl.mechanism", properties.get("sasl.mechanisms", "PLAIN"))
    mechanism = _one_of("sasl.mechanism", str(given).upper(), SASL_MECHANISMS)
    if mechanism == "OAUTHBEARER":
        return OAuthCredentials(oauth_cb=_Tokens(properties), ssl_context=context)
    return SASLCredentials(
        username=str(properties.get("sasl.username", "")),
        password=str(properties.get("sasl.password", "")),
        ssl_context=context,
        mechanism=mechanism,
    )


class _Tokens(AbstractTokenProvider):  # type: ignore[misc]
    """The tokens of OAUTHBEARER in the form that aiokafka takes.

    Its client tries to connect again after an OSError.
    """

    def __init__(self, properties: KafkaProperties) -> None:
        self._tokens = ClientTokens(properties)

    async def token(self) -> str:
        try:
            return await asyncio.to_thread(self._tokens.token)
        except ServiceError as error:
            raise ConnectionError(str(error)) from None

    def extensions(self) -> dict[str, str]:
        return self._tokens.extensions


def _one_of(name: str, value: str, allowed: tuple[str, ...]) -> str:
    if value not in allowed:
        raise ConfigurationError(
            f"kafka.properties.{name} is not supported by the calibrator: use one of {', '.join(allowed)}"
        )
    return value
