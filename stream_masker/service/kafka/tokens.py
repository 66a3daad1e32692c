"""Tokens of OAUTHBEARER for the calibrator's client of Faust, which librdkafka does not serve.

The client credentials grant of OAuth 2.0 (RFC 6749, section 4.4), configured by librdkafka's properties for
``sasl.oauthbearer.method: oidc``.
"""

from __future__ import annotations

import base64
import json
import ssl
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from typing import TypeAlias
from urllib.parse import quote_plus, urlencode, urlsplit

from stream_masker.errors import ConfigurationError, ServiceError

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
