"""TLS and passwords of the clients that do not use librdkafka (kafka-python and Faust's), from its properties."""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from typing import Final, NamedTuple

from stream_masker.errors import ConfigurationError
from stream_masker.service.kafka.clients import PropertyValue

PROTOCOLS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
MECHANISMS: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
UNSUPPORTED: Final = {"ssl.certificate.pem", "ssl.key.pem", "ssl.keystore.location", "ssl.crl.location"}


class Credentials(NamedTuple):
    """``security.protocol``, the context of TLS, and the mechanism of SASL with user and password; None if unused."""

    protocol: str
    context: ssl.SSLContext | None = None
    mechanism: str | None = None
    username: str | None = None
    password: str | None = None


def credentials(properties: Mapping[str, PropertyValue]) -> Credentials:
    """Return the credentials of ``security.protocol``, ``sasl.*`` and ``ssl.*``.

    Raises ConfigurationError, without anything of a secret, for a protocol, a mechanism, a certificate or a key that
    cannot be used, and for properties that have no effect here.
    """
    protocol = _one_of("security.protocol", properties.get("security.protocol", "PLAINTEXT"), PROTOCOLS)
    context = _ssl_context(properties) if protocol.endswith("SSL") else None
    if not protocol.startswith("SASL"):
        return Credentials(protocol, context)
    given = properties.get("sasl.mechanism", properties.get("sasl.mechanisms", "GSSAPI"))
    user, password = (str(properties.get(f"sasl.{name}", "")) for name in ("username", "password"))
    return Credentials(protocol, context, _one_of("sasl.mechanism", given, MECHANISMS), user, password)


def _one_of(name: str, value: PropertyValue, allowed: tuple[str, ...]) -> str:
    if (text := str(value).upper()) not in allowed:
        raise ConfigurationError(f"kafka.properties.{name} is {text}; supported are {', '.join(allowed)}")
    return text


def _ssl_context(properties: Mapping[str, PropertyValue]) -> ssl.SSLContext:
    """Return the context for ``ssl.*``. Certificates and host names are verified unless the properties disable it."""
    for name in UNSUPPORTED & properties.keys():
        raise ConfigurationError(f"kafka.properties.{name} is supported by librdkafka only: use files of PEM")
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
