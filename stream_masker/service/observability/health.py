"""/metrics, /healthz and /readyz: what a process says of itself over HTTP."""

from __future__ import annotations

import logging
import socket
import socketserver
import threading
import time
from collections.abc import Callable
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any

import orjson
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest

from stream_masker.errors import ConfigurationError

log = logging.getLogger(__name__)

JSON_TYPE = "application/json"

STARTING_REASON = "start"
"""The part of a process that is not ready until all is loaded and connected."""


class Health:
    """Whether a process is alive and ready; written by its loops, in any thread, and read by the server's threads.

    Alive: starting, or the loop beat within the last ``stale_after`` seconds. Ready: alive, and no part of the process
    has a reason against it. Notes tell what is amiss without making the process unready.
    """

    def __init__(self, *, stale_after: float = 60.0, clock: Callable[[], float] = time.monotonic) -> None:
        self._stale_after = stale_after
        self._clock = clock
        self._beat = clock()
        self._lock = threading.Lock()
        self._reasons: dict[str, str] = {STARTING_REASON: "starting"}
        self._notes: dict[str, str] = {}

    def beat(self) -> None:
        """Says that the loop is turning."""
        self._beat = self._clock()

    def reason(self, part: str, text: str | None) -> None:
        """Sets why ``part`` is not ready; None: it is. The part ``start`` has a reason from the beginning."""
        with self._lock:
            self._reasons = _changed(self._reasons, part, text)

    def note(self, part: str, text: str | None) -> None:
        """Sets what is amiss with ``part`` though it is ready; None: nothing."""
        with self._lock:
            self._notes = _changed(self._notes, part, text)

    @property
    def seconds_since_beat(self) -> float:
        return self._clock() - self._beat

    @property
    def alive(self) -> bool:
        return STARTING_REASON in self._reasons or self.seconds_since_beat < self._stale_after

    @property
    def reasons(self) -> tuple[str, ...]:
        """Why the process is not ready; empty when it is."""
        stale = () if self.alive else ("the main loop does not turn",)
        return stale + tuple(self._reasons.values())

    @property
    def notes(self) -> tuple[str, ...]:
        return tuple(self._notes.values())


def _changed(texts: dict[str, str], part: str, text: str | None) -> dict[str, str]:
    others = {p: t for p, t in texts.items() if p != part}
    return others if text is None else {**others, part: text}


Response = tuple[HTTPStatus, str, bytes]


def respond(path: str, health: Health, registry: CollectorRegistry) -> Response:
    """The status, content type and body for a path."""
    answers: dict[str, Callable[[], Response]] = {
        "/metrics": lambda: (HTTPStatus.OK, CONTENT_TYPE_LATEST, generate_latest(registry)),
        "/healthz": lambda: _healthz(health),
        "/readyz": lambda: _readyz(health),
    }
    answer = answers.get(path.partition("?")[0])
    return answer() if answer else _json(HTTPStatus.NOT_FOUND, {"paths": list(answers)})


def _healthz(health: Health) -> Response:
    body = {"alive": health.alive, "seconds_since_last_turn": round(health.seconds_since_beat, 3)}
    return _json(_status(health.alive), body)


def _readyz(health: Health) -> Response:
    reasons = health.reasons
    return _json(_status(not reasons), {"ready": not reasons, "reasons": reasons, "notes": health.notes})


def _status(good: bool) -> HTTPStatus:
    return HTTPStatus.OK if good else HTTPStatus.SERVICE_UNAVAILABLE


def _json(status: HTTPStatus, body: dict[str, Any]) -> Response:
    return status, JSON_TYPE, orjson.dumps(body)


class Handler(BaseHTTPRequestHandler):
    """Answers GET and HEAD requests with ``respond``."""

    server: Server
    timeout = 10

    def do_GET(self) -> None:
        self._answer(with_body=True)

    def do_HEAD(self) -> None:
        self._answer(with_body=False)

    def _answer(self, *, with_body: bool) -> None:
        status, content_type, body = respond(self.path, self.server.health, self.server.registry)
        self.send_response(status)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if with_body:
            self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Tells requests at debug level only."""
        log.debug("http " + format, *args)


class Server(ThreadingHTTPServer):
    """A threaded HTTP server with what its handlers need."""

    daemon_threads = True
    allow_reuse_address = True

    def __init__(self, address: tuple[str, int], health: Health, registry: CollectorRegistry) -> None:
        self.health = health
        self.registry = registry
        self.address_family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
        super().__init__(address, Handler)

    def server_bind(self) -> None:
        """Binds without the base class's look-up of the host's name, which can take seconds."""
        socketserver.TCPServer.server_bind(self)
        self.server_name, self.server_port = "stream-masker", int(self.server_address[1])


class HttpServer:
    """Serves ``health`` and ``registry`` from a thread of its own, for as long as the ``with`` block runs.

    Port 0 takes any free port; ``port`` is the one taken. Raises ConfigurationError when the address cannot be used.
    """

    def __init__(self, *, host: str, port: int, health: Health, registry: CollectorRegistry) -> None:
        try:
            self._server = Server((host, port), health, registry)
        except OSError as error:
            raise ConfigurationError(_cannot_listen(host, port, error)) from None
        self._thread = threading.Thread(target=self._server.serve_forever, name="http", daemon=True)

    @property
    def port(self) -> int:
        return int(self._server.server_address[1])

    def __enter__(self) -> HttpServer:
        self._thread.start()
        log.info("serving /metrics, /healthz and /readyz at http://%s:%d", *self._server.server_address[:2])
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
        "set http.host and http.port to a free address (port 0 takes any free port)"
    )
