"""Tokens of OAUTHBEARER and TLS contexts for the clients that do not use librdkafka.

The client credentials grant of OAuth 2.0 (RFC 6749, section 4.4), configured by librdkafka's properties for
``sasl.oauthbearer.method: oidc``. Certificates and keys are files (``ssl.ca.location``) or texts (``ssl.ca.pem``).
"""

from __future__ import annotations

import base64
import json
import os
import ssl
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TypeAlias
from urllib.parse import quote_plus, urlencode, urlsplit

from stream_masker.errors import ConfigurationError, ServiceError

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


Properties: TypeAlias = Mapping[str, str | bool | int | float]

OAUTH_PREFIX = "sasl.oauthbearer."
REQUIRED = ("client.id", "client.secret", "token.endpoint.url")
TIMEOUT_SECONDS = 10.0
"""The time limit of a request for a token."""

RENEWED_SHARE = 0.8
"""The share of a token's lifetime after which a new one is requested."""

DEFAULT_LIFETIME_SECONDS = 60.0
"""The lifetime of a token for which the endpoint states none."""


class ClientTokens:
    """The access tokens of one client. A token is used again until ``RENEWED_SHARE`` of its lifetime has passed."""

    def __init__(self, properties: Properties, *, clock: Callable[[], float] = time.monotonic) -> None:
        """Raises ConfigurationError if a property is missing or unsupported."""
        self._given = _checked(properties)
        self._context = _context(properties) if self._given["token.endpoint.url"].startswith("https:") else None
        self._clock = clock
        self._lock = threading.Lock()
        self._token, self._renewal = "", -1.0

    @property
    def extensions(self) -> dict[str, str]:
        """The SASL extensions of ``sasl.oauthbearer.extensions``, a list of ``name=value`` separated by commas."""
        entries = filter(None, self._given["extensions"].split(","))
        return {name.strip(): value.strip() for name, _, value in (entry.partition("=") for entry in entries)}

    def token(self) -> str:
        """Return a token that is valid. Raises ServiceError if the endpoint refuses or does not answer."""
        with self._lock:
            if not self._token or self._clock() >= self._renewal:
                self._token, lifetime = self._request()
                self._renewal = self._clock() + RENEWED_SHARE * lifetime
            return self._token

    def _request(self) -> tuple[str, float]:
        """Request a token; return it and its lifetime in seconds."""
        given = self._given
        form = {"grant_type": "client_credentials"} | ({"scope": given["scope"]} if given["scope"] else {})
        credentials = f"{quote_plus(given['client.id'])}:{quote_plus(given['client.secret'])}"
        authorization = f"Basic {base64.b64encode(credentials.encode()).decode()}"
        request = urllib.request.Request(  # noqa: S310 - _checked allows http and https only
            given["token.endpoint.url"],
            data=urlencode(form).encode(),
            headers={"Authorization": authorization, "Accept": "application/json"},
        )
        try:
            with urllib.request.urlopen(request, timeout=TIMEOUT_SECONDS, context=self._context) as answer:  # noqa: S310
                content = json.load(answer)
            return str(content["access_token"]), float(content.get("expires_in", DEFAULT_LIFETIME_SECONDS))
        except urllib.error.HTTPError as error:
            raise ServiceError(
                f"the token endpoint answers with status {error.code}: check kafka.properties.{OAUTH_PREFIX}client.id, "
                "client.secret and scope"
            ) from None
        except OSError as error:
            reason = getattr(error, "reason", None) or error.strerror or type(error).__name__
            raise ServiceError(
                f"the token endpoint does not answer: {reason}; check kafka.properties.{OAUTH_PREFIX}token.endpoint.url"
            ) from None
        except (ValueError, KeyError, TypeError):
            raise ServiceError(
                "the answer of the token endpoint contains no token: check "
                f"kafka.properties.{OAUTH_PREFIX}token.endpoint.url"
            ) from None


def _checked(properties: Properties) -> dict[str, str]:
    """Return the properties of the grant, without their prefix."""
    method = str(properties.get(f"{OAUTH_PREFIX}method", "default")).lower()
    if method != "oidc":
        raise ConfigurationError(f"kafka.properties.{OAUTH_PREFIX}method must be oidc for sasl.mechanism OAUTHBEARER")
    names = (*REQUIRED, "scope", "extensions")
    given = {name: str(properties.get(f"{OAUTH_PREFIX}{name}", "")) for name in names}
    missing = [f"{OAUTH_PREFIX}{name}" for name in REQUIRED if not given[name]]
    if missing:
        raise ConfigurationError(f"kafka.properties: OAUTHBEARER requires {', '.join(missing)}")
    if urlsplit(given["token.endpoint.url"]).scheme not in {"http", "https"}:
        raise ConfigurationError(
            f"kafka.properties.{OAUTH_PREFIX}token.endpoint.url must begin with https:// or http://"
        )
    return given


def _context(properties: Properties) -> ssl.SSLContext:
    """Return the context for the endpoint, with the authorities of ``https.ca.location`` if it is set."""
    location = properties.get("https.ca.location")
    try:
        return ssl.create_default_context(cafile=None if location is None else str(location))
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise ConfigurationError(f"kafka.properties.https.ca.location cannot be used: {reason}") from None
