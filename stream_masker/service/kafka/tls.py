"""TLS contexts of the clients that are not librdkafka's, from librdkafka's properties ``ssl.*``.

Certificates and keys are files (``ssl.ca.location``) or texts in the configuration (``ssl.ca.pem``).
"""

from __future__ import annotations

import os
import ssl
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from stream_masker.errors import ConfigurationError

TlsProperties = Mapping[str, str | bool | int | float]


def ssl_context(properties: TlsProperties) -> ssl.SSLContext:
    """Return the context for ``ssl.*``. Certificates and host names are verified unless the properties disable it.

    Raises ConfigurationError for a certificate or key that cannot be used; the message contains nothing of it.
    """
    password = _text(properties, "ssl.key.password")
    try:
        authorities = _text(properties, "ssl.ca.pem")
        context = ssl.create_default_context(cafile=_text(properties, "ssl.ca.location"), cadata=authorities)
        with _own_certificate(properties) as (certificate, key):
            if certificate is not None:
                # Without a password, OpenSSL would ask the terminal for that of an encrypted key.
                context.load_cert_chain(certificate, key, password or "")
        if "ssl.crl.location" in properties:
            context.load_verify_locations(_text(properties, "ssl.crl.location"))
            context.verify_flags |= ssl.VERIFY_CRL_CHECK_LEAF
        if "ssl.cipher.suites" in properties:
            context.set_ciphers(str(properties["ssl.cipher.suites"]))
    except (OSError, ValueError, TypeError) as error:
        reason = getattr(error, "strerror", None) or type(error).__name__
        raise ConfigurationError(f"kafka.properties: a certificate or key of ssl.* cannot be used: {reason}") from None
    _apply_verification(context, properties)
    return context


@contextmanager
def _own_certificate(properties: TlsProperties) -> Iterator[tuple[str | None, str | None]]:
    """Return the files of the client's certificate and key. Texts are written to files that only this user can read.

    OpenSSL's binding in Python reads certificates from files alone. The files exist while they are read.
    """
    with TemporaryDirectory() as folder:

        def file(kind: str) -> str | None:
            text = _text(properties, f"ssl.{kind}.pem")
            if text is None:
                return _text(properties, f"ssl.{kind}.location")
            path = Path(folder) / kind
            with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as opened:
                opened.write(text)
            return str(path)

        yield file("certificate"), file("key")


def _apply_verification(context: ssl.SSLContext, properties: TlsProperties) -> None:
    verify_certificates = str(properties.get("enable.ssl.certificate.verification", "true")).lower() == "true"
    verify_names = str(properties.get("ssl.endpoint.identification.algorithm", "https")).lower() == "https"
    context.check_hostname = verify_certificates and verify_names
    context.verify_mode = ssl.CERT_REQUIRED if verify_certificates else ssl.CERT_NONE


def _text(properties: TlsProperties, name: str) -> str | None:
    return None if (value := properties.get(name)) is None else str(value)
