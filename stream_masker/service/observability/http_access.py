"""Who may read the HTTP endpoints: TLS, the number of connections, tokens of requests, and the names of the pages."""

from __future__ import annotations

import base64
import binascii
import hmac
import ipaddress
import socket
import ssl
from collections import Counter
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Generic, TypeVar

from stream_masker.errors import ConfigurationError, ParameterError
from stream_masker.service.configuration.model import Configuration
from stream_masker.service.configuration.secret import read_http_token

MAX_CONNECTIONS = 16
"""The maximum number of connections that are answered, each with a thread."""

CONNECTION_SECONDS = 10.0
"""The maximum duration of a connection, and of one read from it."""

C = TypeVar("C", bound=Hashable)


@dataclass(slots=True)
class OpenConnection:
    """``address``: of the client; ``deadline``: in seconds of a monotonic clock; ``evicted``: told to end."""

    address: str
    deadline: float
    evicted: bool = False


class OpenConnections(Generic[C]):
    """At most ``limit`` connections, and as many that are told to end and have not ended yet.

    A new connection is always accepted while fewer than ``2 * limit`` are open. If ``limit`` are in use, it takes the
    place of the oldest one of the address that has most of them. Many slow connections therefore end each other, and
    not those of a probe, which has one at a time and from another address.
    """

    def __init__(self, limit: int = MAX_CONNECTIONS) -> None:
        if limit < 1:
            raise ParameterError(f"limit must be at least 1, not {limit}")
        self._limit = limit
        self._open: dict[C, OpenConnection] = {}

    def add(self, connection: C, address: str, now: float) -> tuple[bool, list[C]]:
        """Return whether a connection is accepted, and the connections to end for it."""
        if len(self._open) >= 2 * self._limit:
            return False, []
        used = {client: state for client, state in self._open.items() if not state.evicted}
        victims = [self._evicted(used)] if len(used) >= self._limit else []
        self._open[connection] = OpenConnection(address, now + CONNECTION_SECONDS)
        return True, victims

    def remove(self, connection: C) -> None:
        """Forget a connection that has ended."""
        self._open.pop(connection, None)

    def overdue(self, now: float) -> list[C]:
        """Return the connections whose time is over."""
        return [connection for connection, state in self._open.items() if state.deadline <= now]

    def _evicted(self, used: dict[C, OpenConnection]) -> C:
        [(greediest, _)] = Counter(state.address for state in used.values()).most_common(1)
        victim = next(connection for connection, state in used.items() if state.address == greediest)
        self._open[victim].evicted = True
        return victim


PROBED_PATHS = ("/healthz", "/readyz")
"""The paths that need no token: Kubernetes sends none with its probes."""


LOCAL_NAMES = frozenset({"localhost"})


@dataclass(frozen=True, slots=True)
class HttpAccess:
    """The token that requests need, and the TLS settings of connections; None: no token, plain HTTP.

    names: the host names, in lower case, that pages are requested by; IP addresses are always allowed.
    """

    token: bytes | None = None
    tls: ssl.SSLContext | None = None
    names: frozenset[str] = LOCAL_NAMES

    def allows(self, path: str, authorization: str | None) -> bool:
        """Return whether a request may be answered. ``authorization``: its header, ``Bearer TOKEN``, or ``Basic`` with
        the token as the password of any user, which browsers ask for. The comparison takes the same time for all tokens
        of one length."""
        if self.token is None or path.partition("?")[0] in PROBED_PATHS:
            return True
        return hmac.compare_digest(_sent_token(authorization or ""), self.token)

    def answers_to(self, host: str | None) -> bool:
        """Return whether a page may be requested by this ``Host`` header.

        A web site whose name resolves to this server's address could otherwise read the page in a visitor's browser.
        """
        name = _host_name(host or "")
        return name in self.names or _is_address(name)


OPEN_ACCESS = HttpAccess()
"""Plain HTTP without a token."""


def http_access(configuration: Configuration) -> HttpAccess:
    """Read the token and the certificate of the section ``http``.

    Raises ConfigurationError if one of them cannot be read, or if the token is shorter than 16 bytes.
    """
    section = configuration.http
    names = LOCAL_NAMES | {name.lower() for name in (section.host, socket.gethostname(), *section.names)}
    token = None if section.token is None else read_http_token(configuration, section.token)
    if section.tls is None:
        return HttpAccess(token, names=names)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    certificate, key = configuration.resolve(section.tls.certificate), configuration.resolve(section.tls.key)
    try:
        context.load_cert_chain(certificate, key, password=_no_password)
    except (OSError, ValueError) as error:
        reason = "the key does not match the certificate" if _is_mismatch(error) else _reason(error)
        raise ConfigurationError(f"http.tls: cannot load {certificate} and {key}: {reason}") from None
    return HttpAccess(token, context, names)


def _sent_token(authorization: str) -> bytes:
    """Return the token of an Authorization header; empty if there is none."""
    scheme, _, credentials = authorization.partition(" ")
    sent = credentials.strip().encode("utf-8", "surrogateescape")
    if scheme.lower() == "bearer":
        return sent
    if scheme.lower() != "basic":
        return b""
    try:
        return base64.b64decode(sent, validate=True).partition(b":")[2]
    except binascii.Error:
        return b""


def _host_name(host: str) -> str:
    """Return the name or address of a ``Host`` header, without its port, in lower case."""
    address, bracket, _ = host.removeprefix("[").partition("]")
    return address if bracket else host.partition(":")[0].rstrip(".").lower()


def _is_address(name: str) -> bool:
    try:
        return bool(ipaddress.ip_address(name))
    except ValueError:
        return False


def _no_password() -> str:
    """Refuse a key with a password: OpenSSL would otherwise ask for it on the terminal."""
    raise ValueError("the key has a password: use one without")


def _is_mismatch(error: Exception) -> bool:
    return isinstance(error, ssl.SSLError) and error.reason == "KEY_VALUES_MISMATCH"


def _reason(error: Exception) -> str:
    if isinstance(error, ssl.SSLError):
        return "they are not a certificate and a key in the PEM format"
    return error.strerror or type(error).__name__ if isinstance(error, OSError) else str(error)
