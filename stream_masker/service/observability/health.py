"""The HTTP endpoints /metrics, /healthz and /readyz, further pages, and the health state that they report."""

from __future__ import annotations

import errno
import logging
import socket
import socketserver
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, TypeAlias

import orjson
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest

from stream_masker.errors import ConfigurationError
from stream_masker.service.observability.http_access import (
    CONNECTION_SECONDS,
    OPEN_ACCESS,
    PROBED_PATHS,
    HttpAccess,
    OpenConnections,
)
from stream_masker.service.observability.logs import RepeatFilter

log = logging.getLogger(__name__)
log.addFilter(RepeatFilter())

JSON_TYPE = "application/json"

SAFE_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}
"""Headers of every response. A browser runs no script, and loads nothing else from anywhere."""

MAX_RENDERINGS = 4
"""The maximum number of responses, except those to probes, that are computed at a time."""

ACCEPT_PAUSE = 1.0
"""Seconds without an attempt to accept a connection after one failed for lack of descriptors or memory."""

RESOURCE_ERRORS = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)

STARTING = "start"
"""The component whose reason is set from the beginning, until everything is loaded and connected."""


class Health:
    """The liveness and readiness of a process, written by its loops in any thread and read by the HTTP server.

    Alive: starting, or the loop recorded a heartbeat within the last ``stale_after`` seconds. Ready: alive, and no
    component has a reason against it. Notes report problems that do not affect readiness.
    """

    def __init__(self, *, stale_after: float = 60.0, clock: Callable[[], float] = time.monotonic) -> None:
        self._stale_after = stale_after
        self._clock = clock
        self._beat = clock()
        self._lock = threading.Lock()
        self._reasons: dict[str, str] = {STARTING: "starting"}
        self._components = {STARTING}
        self._notes: dict[str, str] = {}
        self._computing_since: float | None = None

    def beat(self) -> None:
        """Record a heartbeat of the main loop."""
        self._beat = self._clock()

    @contextmanager
    def computing(self) -> Iterator[None]:
        """Report how long a computation has been running, which may record heartbeats."""
        self._computing_since = self._clock()
        try:
            yield
        finally:
            self._computing_since = None

    def reason(self, component: str, text: str | None) -> None:
        """Set the reason why a component is not ready; None if it is ready."""
        with self._lock:
            self._reasons = _with_text(self._reasons, component, text)
            self._components = self._components | {component}

    def note(self, component: str, text: str | None) -> None:
        """Set a note about a problem of a component that is ready; None if there is no problem."""
        with self._lock:
            self._notes = _with_text(self._notes, component, text)

    @property
    def seconds_since_beat(self) -> float:
        return self._clock() - self._beat

    @property
    def seconds_computing(self) -> float:
        """The time since the present computation began; 0 without one."""
        since = self._computing_since
        return 0.0 if since is None else self._clock() - since

    @property
    def alive(self) -> bool:
        return STARTING in self._reasons or self.seconds_since_beat < self._stale_after

    @property
    def reasons(self) -> tuple[str, ...]:
        """The reasons why the process is not ready; empty if it is ready."""
        stale = () if self.alive else ("the main loop is not running",)
        return stale + tuple(self._reasons.values())

    @property
    def blocking(self) -> Mapping[str, bool]:
        """Each component that has reported, and whether it is a reason why the process is not ready."""
        return {component: component in self._reasons for component in sorted(self._components)}

    @property
    def notes(self) -> tuple[str, ...]:
        return tuple(self._notes.values())


def _with_text(texts: dict[str, str], component: str, text: str | None) -> dict[str, str]:
    others = {p: t for p, t in texts.items() if p != component}
    return others if text is None else {**others, component: text}


HttpResponse = tuple[HTTPStatus, str, bytes]


Page: TypeAlias = Callable[[str], str]
"""Returns the HTML of a page for the query of its URL."""


def respond(
    path: str, health: Health, registry: CollectorRegistry, pages: Mapping[str, Page] | None = None
) -> HttpResponse:
    """Return the status, content type and body of the response for a path; ``pages``: further pages by path."""
    path, _, query = path.partition("?")
    responses: dict[str, Callable[[], HttpResponse]] = {
        "/metrics": lambda: (HTTPStatus.OK, CONTENT_TYPE_LATEST, generate_latest(registry)),
        "/healthz": lambda: _healthz(health),
        "/readyz": lambda: _readyz(health),
        **{known: partial(_html, page, query) for known, page in (pages or {}).items()},
    }
    response = responses.get(path)
    return response() if response else _json(HTTPStatus.NOT_FOUND, {"paths": list(responses)})


def _healthz(health: Health) -> HttpResponse:
    body = {
        "alive": health.alive,
        "seconds_since_last_turn": round(health.seconds_since_beat, 3),
        "seconds_computing": round(health.seconds_computing, 3),
    }
    return _json(_status(health.alive), body)


def _readyz(health: Health) -> HttpResponse:
    reasons = health.reasons
    return _json(_status(not reasons), {"ready": not reasons, "reasons": reasons, "notes": health.notes})


def _html(page: Page, query: str) -> HttpResponse:
    return HTTPStatus.OK, "text/html; charset=utf-8", page(query).encode()


def _status(ok: bool) -> HTTPStatus:
    return HTTPStatus.OK if ok else HTTPStatus.SERVICE_UNAVAILABLE


def _json(status: HTTPStatus, body: dict[str, Any]) -> HttpResponse:
    return status, JSON_TYPE, orjson.dumps(body)


class HealthHandler(BaseHTTPRequestHandler):
    """Answers GET and HEAD requests with ``respond``."""

    server: HealthServer
    timeout = CONNECTION_SECONDS

    def do_GET(self) -> None:
        self._respond(with_body=True)

    def do_HEAD(self) -> None:
        self._respond(with_body=False)

    def _respond(self, *, with_body: bool) -> None:
        status, content_type, body = self._response()
        self.send_response(status)
        if status is HTTPStatus.UNAUTHORIZED:
            self.send_header("WWW-Authenticate", 'Basic realm="stream-masker", charset="UTF-8"')
        for name, value in SAFE_HEADERS.items():
            self.send_header(name, value)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if with_body:
            self.wfile.write(body)

    def _response(self) -> HttpResponse:
        """Return the response, or why there is none. Probes are answered also while other responses are computed."""
        server, path = self.server, self.path.partition("?")[0]
        if not server.access.allows(self.path, self.headers.get("Authorization")):
            return _json(HTTPStatus.UNAUTHORIZED, {"error": "send the token of http.token"})
        if path in server.pages and not server.access.answers_to(self.headers.get("Host")):
            return _json(HTTPStatus.MISDIRECTED_REQUEST, {"error": "this name is not in http.names"})
        if path in PROBED_PATHS:
            return respond(self.path, server.health, server.registry, server.pages)
        if not server.renderings.acquire(blocking=False):
            return _json(HTTPStatus.SERVICE_UNAVAILABLE, {"error": "too many requests at a time"})
        try:
            return respond(self.path, server.health, server.registry, server.pages)
        finally:
            server.renderings.release()

    def log_message(self, format: str, *args: Any) -> None:
        """Log requests at debug level."""
        log.debug("http " + format, *args)


class HealthServer(ThreadingHTTPServer):
    """A threaded HTTP server that holds the state its handlers report.

    The number of connections and threads is bounded by ``OpenConnections``, and each one ends after
    ``CONNECTION_SECONDS``.
    """

    daemon_threads = True
    allow_reuse_address = True

    def __init__(
        self,
        address: tuple[str, int],
        health: Health,
        registry: CollectorRegistry,
        pages: Mapping[str, Page],
        access: HttpAccess,
    ) -> None:
        self.health = health
        self.registry = registry
        self.pages = pages
        self.access = access
        self.address_family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
        self._lock = threading.Lock()
        self._connections: OpenConnections[socket.socket] = OpenConnections()
        self.renderings = threading.BoundedSemaphore(MAX_RENDERINGS)
        super().__init__(address, HealthHandler)
        if access.tls is not None:
            # The thread of each connection does the handshake, when it reads for the first time.
            self.socket = access.tls.wrap_socket(self.socket, server_side=True, do_handshake_on_connect=False)

    def server_bind(self) -> None:
        """Bind without the reverse DNS lookup of the base class, which can take seconds."""
        socketserver.TCPServer.server_bind(self)
        self.server_name, self.server_port = "stream-masker", int(self.server_address[1])

    def get_request(self) -> tuple[socket.socket, Any]:
        """Accept a connection. Waits if the process has no descriptor for it: the listening socket stays readable, and
        the accept loop would otherwise take a whole core."""
        try:
            return super().get_request()
        except OSError as error:
            if error.errno in RESOURCE_ERRORS:
                log.warning("cannot accept a connection: %s", error.strerror)
                time.sleep(ACCEPT_PAUSE)
            raise

    def process_request(self, request: Any, client_address: Any) -> None:
        """Handle a request in a thread of its own, in place of another connection if there are too many."""
        with self._lock:
            accepted, victims = self._connections.add(request, str(client_address[0]), time.monotonic())
            _end_all(victims)
        if accepted:
            super().process_request(request, client_address)
        else:
            log.debug("http closed a connection: too many are open")
            self.shutdown_request(request)

    def shutdown_request(self, request: Any) -> None:
        with self._lock:
            self._connections.remove(request)
        super().shutdown_request(request)

    def service_actions(self) -> None:
        """End connections whose time is over. Called by ``serve_forever``."""
        with self._lock:
            _end_all(self._connections.overdue(time.monotonic()))

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Log a failed request at debug level: a disconnecting client is not an error of this process."""
        log.debug("http request failed", exc_info=True)


def _end_all(connections: Iterable[socket.socket]) -> None:
    """End connections; their threads then end too."""
    for connection in connections:
        with suppress(OSError):
            socket.socket.shutdown(connection, socket.SHUT_RDWR)  # that of TLS would let its thread go on in plain text


class HttpServer:
    """Serves ``health``, ``registry`` and ``pages`` by path, as ``access`` allows, while the ``with`` block runs.

    Port 0 selects any free port; ``port`` is the actual one. Raises ConfigurationError if the address cannot be used.
    """

    def __init__(
        self,
        *,
        host: str,
        port: int,
        health: Health,
        registry: CollectorRegistry,
        pages: Mapping[str, Page] | None = None,
        access: HttpAccess = OPEN_ACCESS,
    ) -> None:
        try:
            self._server = HealthServer((host, port), health, registry, pages or {}, access)
        except OSError as error:
            raise ConfigurationError(_cannot_listen(host, port, error)) from None
        self._thread = threading.Thread(target=self._server.serve_forever, name="http", daemon=True)

    @property
    def port(self) -> int:
        return int(self._server.server_address[1])

    def __enter__(self) -> HttpServer:
        self._thread.start()
        scheme = "http" if self._server.access.tls is None else "https"
        log.info("serving /metrics, /healthz and /readyz at %s://%s:%d", scheme, *self._server.server_address[:2])
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def _cannot_listen(host: str, port: int, error: OSError) -> str:
    return (
        f"http: cannot listen on {host}:{port} ({error.strerror or type(error).__name__}); "
        "set http.host and http.port to a free address (port 0 selects any free port)"
    )
