"""The HTTP endpoints, the health state, and the log format."""

from __future__ import annotations

import errno
import json
import select
import socket
import socketserver
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from types import SimpleNamespace

import pytest
from prometheus_client import CollectorRegistry, Gauge

from stream_masker.errors import ConfigurationError
from stream_masker.service.observability import health as health_module
from stream_masker.service.observability import http_access
from stream_masker.service.observability.health import MAX_RENDERINGS, Health, HttpServer
from stream_masker.service.observability.http_access import MAX_CONNECTIONS


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def health(clock: Clock) -> Health:
    return Health(stale_after=10, clock=clock)


@pytest.fixture
def server(health: Health) -> Iterator[HttpServer]:
    registry = CollectorRegistry()
    Gauge("stream_masker_held", "help", registry=registry).set(1)
    with HttpServer(host="127.0.0.1", port=0, health=health, registry=registry) as running:
        yield running


def get(server: HttpServer, path: str) -> tuple[int, bytes]:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{server.port}{path}", timeout=10) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as error:
        return error.code, error.read()


def test_not_ready_before_start(server: HttpServer, health: Health) -> None:
    status, body = get(server, "/readyz")
    assert (status, json.loads(body)["reasons"]) == (503, ["starting"])
    health.reason("start", None)
    assert get(server, "/readyz") == (200, b'{"ready":true,"reasons":[],"notes":[]}')


def test_readyz_lists_all_reasons(server: HttpServer, health: Health) -> None:
    health.reason("start", None)
    health.reason("statistics", "no statistics yet")
    health.reason("statistics", "no statistics yet: version 2 is of another mechanism")
    health.reason("brokers", "no broker answers")
    status, body = get(server, "/readyz")
    assert status == 503
    assert json.loads(body) == {
        "ready": False,
        "reasons": ["no statistics yet: version 2 is of another mechanism", "no broker answers"],
        "notes": [],
    }
    health.reason("statistics", None)
    health.reason("brokers", None)
    assert get(server, "/readyz")[0] == 200


def test_notes_do_not_affect_readiness(server: HttpServer, health: Health) -> None:
    health.reason("start", None)
    health.note("statistics", "version 3 was refused")
    status, body = get(server, "/readyz")
    assert (status, json.loads(body)["notes"]) == (200, ["version 3 was refused"])


def test_stale_loop_is_neither_alive_nor_ready(server: HttpServer, health: Health, clock: Clock) -> None:
    health.reason("start", None)
    clock.now = 9.0
    assert get(server, "/healthz")[0] == get(server, "/readyz")[0] == 200
    clock.now = 11.0
    assert get(server, "/healthz")[0] == get(server, "/readyz")[0] == 503
    health.beat()
    assert get(server, "/healthz")[0] == 200


def test_long_start_is_alive_but_not_ready(server: HttpServer, clock: Clock) -> None:
    clock.now = 600.0
    assert (get(server, "/healthz")[0], get(server, "/readyz")[0]) == (200, 503)


def test_metrics_come_from_the_registry(server: HttpServer) -> None:
    status, body = get(server, "/metrics?debug=1")
    assert (status, b"stream_masker_held 1.0" in body) == (200, True)


def test_unknown_path_lists_the_known_ones(server: HttpServer) -> None:
    status, body = get(server, "/")
    assert (status, json.loads(body)["paths"]) == (404, ["/metrics", "/healthz", "/readyz"])


def test_port_in_use_is_a_configuration_error_with_a_remedy(server: HttpServer, health: Health) -> None:
    with pytest.raises(ConfigurationError, match=rf"127\.0\.0\.1:{server.port} .*http\.port"):
        HttpServer(host="127.0.0.1", port=server.port, health=health, registry=CollectorRegistry())


def test_stopped_server_frees_its_port(health: Health) -> None:
    with HttpServer(host="127.0.0.1", port=0, health=health, registry=CollectorRegistry()) as first:
        port = first.port
    with HttpServer(host="127.0.0.1", port=port, health=health, registry=CollectorRegistry()) as second:
        assert get(second, "/healthz")[0] == 200


@pytest.mark.exhaustive
def test_connections_and_threads_are_bounded(server: HttpServer) -> None:
    """The oldest of too many idle connections are closed at once."""
    idle = [socket.create_connection(("127.0.0.1", server.port), timeout=10) for _ in range(3 * MAX_CONNECTIONS)]
    try:
        assert eventually(lambda: len(select.select(idle, [], [], 0.1)[0]) == 2 * MAX_CONNECTIONS)
        assert eventually(lambda: connection_threads() <= MAX_CONNECTIONS)
    finally:
        for one in idle:
            one.close()
    assert get(server, "/healthz")[0] == 200


def connection_threads() -> int:
    return sum("process_request_thread" in thread.name for thread in threading.enumerate())


def test_slow_connections_do_not_starve_the_probes(server: HttpServer) -> None:
    """Sixteen of them took all threads for ten seconds, and pods were restarted."""
    with ExitStack() as stack:
        for _ in range(3):
            for _ in range(MAX_CONNECTIONS):
                slow = socket.create_connection(("127.0.0.1", server.port), timeout=10)
                stack.enter_context(slow).sendall(b"GET /healthz HTTP/1.0\r\n")
            assert [get(server, path)[0] for path in ("/healthz", "/readyz", "/metrics")] == [200, 503, 200]


def test_probes_are_answered_while_pages_are_computed(health: Health) -> None:
    entered, leave = threading.Semaphore(0), threading.Event()

    def page(_: str) -> str:
        entered.release()
        leave.wait(60)
        return "the page"

    with (
        HttpServer(host="127.0.0.1", port=0, health=health, registry=CollectorRegistry(), pages={"/": page}) as server,
        ThreadPoolExecutor(MAX_RENDERINGS) as clients,
    ):
        waiting = [clients.submit(get, server, "/") for _ in range(MAX_RENDERINGS)]
        assert all(entered.acquire(timeout=60) for _ in waiting)
        assert [get(server, path)[0] for path in ("/", "/metrics", "/healthz")] == [503, 503, 200]
        leave.set()
        assert [one.result() for one in waiting] == [(200, b"the page")] * MAX_RENDERINGS
        assert get(server, "/metrics")[0] == 200


def test_a_connection_that_sends_slowly_is_ended(server: HttpServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_access, "CONNECTION_SECONDS", 1.0)
    with socket.create_connection(("127.0.0.1", server.port), timeout=10) as slow:
        slow.sendall(b"GET /healthz HTTP/1.0\r\n")
        assert eventually(lambda: is_ended(slow))


def test_the_accept_loop_waits_when_descriptors_are_exhausted(
    server: HttpServer, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    calls: list[float | None] = []

    def no_descriptor(_: object) -> None:
        calls.append(None)
        raise OSError(errno.EMFILE, "Too many open files")

    monkeypatch.setattr(socketserver.TCPServer, "get_request", no_descriptor)
    monkeypatch.setattr(health_module, "time", SimpleNamespace(**vars(time) | {"sleep": calls.append}))
    with socket.create_connection(("127.0.0.1", server.port), timeout=10):
        assert eventually(lambda: len(calls) >= 6)
    monkeypatch.undo()
    assert calls[:6] == [None, health_module.ACCEPT_PAUSE] * 3, "a pause after each attempt"
    refused = [line.getMessage() for line in caplog.records if line.levelname == "WARNING"]
    assert refused == ["cannot accept a connection: Too many open files"], "one line a minute"


def is_ended(connection: socket.socket) -> bool:
    """Send a byte of a header; whether the server has closed the connection."""
    with suppress(OSError):
        connection.sendall(b"a")
    return bool(select.select([connection], [], [], 0.1)[0])


def eventually(holds: Callable[[], bool], seconds: float = 20.0) -> bool:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if holds():
            return True
        time.sleep(0.05)
    return False
