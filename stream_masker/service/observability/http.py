"""The HTTP server of a process: /metrics, /healthz, /readyz and one page of text at /.

It is the standard library's WSGI server with a thread for each connection, which has one request.
With ``http.token``, all but the probes need a token; with ``http.tls``, it speaks HTTPS.
"""

from __future__ import annotations

import hmac
import logging
import socket
import socketserver
import ssl
import threading
from collections.abc import Iterable
from contextlib import suppress
from http import HTTPStatus
from pathlib import Path
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer
from wsgiref.types import StartResponse, WSGIEnvironment

import orjson
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest

from stream_masker.errors import ConfigurationError
from stream_masker.service.configuration import Configuration
from stream_masker.service.configuration.secret import read_source
from stream_masker.service.observability.metrics import Health

log = logging.getLogger(__name__)

REQUEST_SECONDS = 10.0
"""The longest time of a request, in seconds: a client that sends slowly, or nothing, holds no thread for longer."""

TEXT = "text/plain; charset=utf-8"
PROBES = ("/healthz", "/readyz")
"""The paths that need no token: Kubernetes sends none with its probes."""


class HttpServer:
    """Serves the state and the metrics of a process while the ``with`` block runs.

    Port 0 selects any free port; ``port`` is the actual one. Raises ConfigurationError if the address cannot be used,
    or if the token or the certificate cannot be read.
    """

    def __init__(
        self, configuration: Configuration, health: Health, registry: CollectorRegistry, *, port: int | None = None
    ) -> None:
        section, resolve = configuration.http, configuration.resolve
        self._health, self._registry = health, registry
        self._token = None if section.token is None else read_source(configuration, section.token, "http.token")
        tls = None if section.tls is None else _tls_context(resolve(section.tls.certificate), resolve(section.tls.key))
        address = (section.host, section.port if port is None else port)
        try:
            self._server = _Server(address, _Handler)
        except OSError as error:
            raise ConfigurationError(
                f"http: cannot listen on {address[0]}:{address[1]} ({error.strerror or type(error).__name__}); "
                "set http.host and http.port to a free address (port 0 selects any free port)"
            ) from None
        self._server.set_app(self._answer)
        if tls is not None:
            # The thread of each connection does the handshake, when it reads for the first time.
            self._server.socket = tls.wrap_socket(self._server.socket, server_side=True, do_handshake_on_connect=False)
        self._thread = threading.Thread(target=self._server.serve_forever, name="http", daemon=True)
        scheme = "http" if tls is None else "https"
        log.info("serving /metrics, /healthz and /readyz at %s://%s:%d", scheme, section.host, self.port)

    @property
    def port(self) -> int:
        """The port that the server listens on."""
        return self._server.server_port

    def __enter__(self) -> HttpServer:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def _answer(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        path = str(environ.get("PATH_INFO", "/"))
        if path not in PROBES and not self._allows(str(environ.get("HTTP_AUTHORIZATION", ""))):
            status, content = HTTPStatus.UNAUTHORIZED, b"send the token of http.token as Bearer\n"
        else:
            status, content = self._resource(path)
        kind = "application/json" if path in PROBES else CONTENT_TYPE_LATEST if path == "/metrics" else TEXT
        headers = [("Content-Type", kind), ("Content-Length", str(len(content))), ("Cache-Control", "no-store")]
        start_response(f"{status.value} {status.phrase}", headers)
        return [content]

    def _resource(self, path: str) -> tuple[HTTPStatus, bytes]:
        """Return the status and the content of a path."""
        match path:
            case "/metrics":
                return HTTPStatus.OK, generate_latest(self._registry)
            case "/":
                return HTTPStatus.OK, self._health.page().encode()
            case "/healthz":
                is_good = self._health.alive
                content: dict[str, Any] = {"alive": is_good}
            case "/readyz":
                reasons = self._health.reasons
                is_good = not reasons
                content = {"ready": is_good, "reasons": reasons, "notes": self._health.notes}
            case _:
                return HTTPStatus.NOT_FOUND, b"use /, /metrics, /healthz or /readyz\n"
        return HTTPStatus.OK if is_good else HTTPStatus.SERVICE_UNAVAILABLE, orjson.dumps(content)

    def _allows(self, authorization: str) -> bool:
        """Return whether a request has the token. The comparison takes the same time for all tokens of one length."""
        scheme, _, sent = authorization.partition(" ")
        given = sent.strip().encode("latin-1", "replace")
        return self._token is None or (scheme.lower() == "bearer" and hmac.compare_digest(given, self._token))


class _Server(socketserver.ThreadingMixIn, WSGIServer):
    daemon_threads = True
    request_queue_size = 64

    def __init__(self, address: tuple[str, int], handler: type[_Handler]) -> None:
        self.address_family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
        super().__init__(address, handler)

    def server_bind(self) -> None:
        """Bind without the reverse DNS lookup of the base class, which can take seconds."""
        socketserver.TCPServer.server_bind(self)
        self.server_name, self.server_port = "stream-masker", int(self.server_address[1])
        self.setup_environ()

    def finish_request(self, request: Any, client_address: Any) -> None:
        """Serve a request; its connection is shut down at the time limit."""
        limit = threading.Timer(REQUEST_SECONDS, _shut_down, [request])
        limit.daemon = True
        limit.start()
        try:
            super().finish_request(request, client_address)
        finally:
            limit.cancel()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Log a failed request at debug level: a disconnecting client is not an error of this process."""
        log.debug("http request failed", exc_info=True)


def _shut_down(connection: socket.socket) -> None:
    with suppress(OSError):  # it has ended meanwhile
        connection.shutdown(socket.SHUT_RDWR)


class _Handler(WSGIRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:
        """Log requests at debug level."""
        log.debug("http " + format, *args)


def _tls_context(certificate: Path, key: Path) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        # Without a password, OpenSSL would ask for one on the terminal.
        context.load_cert_chain(certificate, key, password="")
    except (OSError, ValueError):
        raise ConfigurationError(
            f"http.tls: cannot load {certificate} and {key}: use a certificate and its key (PEM) without a password"
        ) from None
    return context
