"""Addresses, TLS and passwords of the clients that do not use librdkafka, from librdkafka's properties."""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from typing import Any, Final

from stream_masker.errors import ConfigurationError
from stream_masker.service.kafka.clients import PropertyValue

MECHANISMS: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
PROTOCOLS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")

_UNSUPPORTED: Final = (
    *("ssl.certificate.pem", "ssl.key.pem", "ssl.keystore.location"),
    *("ssl.crl.location", "ssl.cipher.suites"),
)


def security(properties: Mapping[str, PropertyValue]) -> tuple[str, str | None]:
    """Return ``security.protocol``, and the mechanism of SASL, None without SASL.

    Raises ConfigurationError for a protocol or mechanism of librdkafka that other clients do not have.
    """
    protocol = str(properties.get("security.protocol", "PLAINTEXT")).upper()
    mechanism = str(properties.get("sasl.mechanism", properties.get("sasl.mechanisms", "GSSAPI"))).upper()
    for name, value, allowed in (("security.protocol", protocol, PROTOCOLS), ("sasl.mechanism", mechanism, MECHANISMS)):
        if value not in allowed and (name == "security.protocol" or protocol.startswith("SASL")):
            raise ConfigurationError(f"kafka.properties.{name} is {value}; supported are {', '.join(allowed)}")
    return protocol, mechanism if protocol.startswith("SASL") else None


def kafka_python_credentials(properties: Mapping[str, PropertyValue]) -> dict[str, Any]:
    """Return the arguments of kafka-python's clients for ``security.protocol``, ``sasl.*`` and ``ssl.*``.

    Raises ConfigurationError for a protocol, a mechanism or a certificate that cannot be used.
    """
    protocol, mechanism = security(properties)
    given: dict[str, Any] = {"security_protocol": protocol}
    if protocol.endswith("SSL"):
        given["ssl_context"] = ssl_context(properties)
    if mechanism is not None:
        user, password = properties.get("sasl.username"), properties.get("sasl.password")
        given |= {"sasl_mechanism": mechanism, "sasl_plain_username": user, "sasl_plain_password": password}
    return given


def ssl_context(properties: Mapping[str, PropertyValue]) -> ssl.SSLContext:
    """Return the context for ``ssl.*``. Certificates and host names are verified unless the properties disable it.

    Raises ConfigurationError for a certificate or key that cannot be used, without anything of it, and for properties
    that have no effect here.
    """
    if unsupported := [name for name in _UNSUPPORTED if name in properties]:
        raise ConfigurationError(f"kafka.properties.{unsupported[0]} is supported by librdkafka only: use files of PEM")
    text = {name: str(value) for name, value in properties.items()}
    try:
        context = ssl.create_default_context(cafile=text.get("ssl.ca.location"), cadata=text.get("ssl.ca.pem"))
        if (certificate := text.get("ssl.certificate.location")) is not None:
            # Without a password, OpenSSL would ask the terminal for that of an encrypted key.
            context.load_cert_chain(certificate, text.get("ssl.key.location"), text.get("ssl.key.password", ""))
    except (OSError, ValueError, TypeError) as error:
        reason = getattr(error, "strerror", None) or type(error).__name__
        raise ConfigurationError(f"kafka.properties: a certificate or key of ssl.* cannot be used: {reason}") from None
    is_verified = text.get("enable.ssl.certificate.verification", "true").lower() == "true"
    context.check_hostname = is_verified and text.get("ssl.endpoint.identification.algorithm", "https") == "https"
    context.verify_mode = ssl.CERT_REQUIRED if is_verified else ssl.CERT_NONE
    return context
