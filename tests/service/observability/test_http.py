"""The HTTP endpoints, the health that they report, their token and TLS."""

from __future__ import annotations

import json
import logging
import socket
import ssl
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from certificates import certificate_pems
from prometheus_client import CollectorRegistry, Gauge
from support.small_configuration import small_configuration

from stream_masker.errors import ConfigurationError
from stream_masker.service.configuration import Configuration, parse_configuration
from stream_masker.service.observability import http
from stream_masker.service.observability.http import HttpServer
from stream_masker.service.observability.metrics import Health

TOKEN = "a token of the monitoring"


@pytest.fixture
def health() -> Health:
    return Health()


def configured(**section: Any) -> Configuration:
    return parse_configuration(small_configuration("code", http={"port": 0, **section}))


@contextmanager
def serving(health: Health, **section: Any) -> Iterator[HttpServer]:
    registry = CollectorRegistry()
    Gauge("stream_masker_window_records", "help", registry=registry).set(1)
    with HttpServer(configured(**section), health, registry) as running:
        yield running


@pytest.fixture
def server(health: Health) -> Iterator[HttpServer]:
    with serving(health) as running:
        yield running


def get(
    server: HttpServer, path: str, authorization: str | None = None, context: ssl.SSLContext | None = None
) -> tuple[int, bytes]:
    """Return the status and the body of an answer."""
    url = f"{'http' if context is None else 'https'}://localhost:{server.port}{path}"
    request = urllib.request.Request(url, headers={"Authorization": authorization} if authorization else {})
    try:
        with urllib.request.urlopen(request, timeout=10, context=context) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as error:
        return error.code, error.read()


def test_readiness_lists_all_reasons_and_notes(server: HttpServer, health: Health) -> None:
    assert json.loads(get(server, "/readyz")[1])["reasons"] == ["starting"]
    health.reason("start", None)
    assert get(server, "/readyz") == (200, b'{"ready":true,"reasons":[],"notes":[]}')
    health.reason("statistics", "no statistics yet")
    health.reason("statistics", "no statistics yet: version 2 is of another mechanism")
    health.reason("brokers", "no broker answers")
    health.note("risk", "beyond a limit")
    status, body = get(server, "/readyz")
    reasons = ["no statistics yet: version 2 is of another mechanism", "no broker answers"]
    assert (status, json.loads(body)) == (503, {"ready": False, "reasons": reasons, "notes": ["beyond a limit"]})
    health.reason("statistics", None)
    health.reason("brokers", None)
    assert get(server, "/readyz")[0] == 200, "a note does not affect readiness"


def test_a_stale_loop_is_neither_alive_nor_ready() -> None:
    now = [0.0]
    health = Health(stale_after=10, clock=lambda: now[0])
    with serving(health) as server:
        now[0] = 600.0
        assert (get(server, "/healthz")[0], get(server, "/readyz")[0]) == (200, 503), "a long start is alive"
        health.reason("start", None)
        assert get(server, "/healthz")[0] == get(server, "/readyz")[0] == 503
        health.beat()
        assert get(server, "/healthz")[0] == get(server, "/readyz")[0] == 200


def test_the_page_says_version_reasons_notes_and_what_the_statistics_mean(server: HttpServer, health: Health) -> None:
    health.note("role", "standing by")
    health.statements = ("statistics version 3:", "  Right guesses: 45 %.")
    text = get(server, "/")[1].decode()
    assert text.startswith("stream-masker ")
    assert text.splitlines()[1:] == ["not ready:", "  starting", "notes:", "  standing by", *health.statements]
    health.reason("start", None)
    assert get(server, "/")[1].decode().splitlines()[1] == "ready"


def test_metrics_come_from_the_registry_and_other_requests_are_refused(server: HttpServer) -> None:
    status, body = get(server, "/metrics?debug=1")
    assert (status, b"stream_masker_window_records 1.0" in body) == (200, True)
    assert get(server, "/unknown") == (404, b"use /, /metrics, /healthz or /readyz\n")


def test_a_port_in_use_is_an_error_with_a_remedy_and_a_stopped_server_frees_its_port(health: Health) -> None:
    with serving(health) as first:
        port = first.port
        with pytest.raises(ConfigurationError, match=rf"127\.0\.0\.1:{port} .*http\.port"):
            HttpServer(configured(), health, CollectorRegistry(), port=port)
    with serving(health, port=port) as second:
        assert get(second, "/healthz")[0] == 200


def send_slowly(client: socket.socket) -> None:
    """Send a byte every 50 ms for 10 s."""
    for _ in range(200):
        client.sendall(b"G")
        time.sleep(0.05)


def test_silent_and_slow_clients_are_disconnected_and_do_not_starve_the_probes(
    health: Health, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http, "REQUEST_SECONDS", 0.5)
    with serving(health) as server:
        silent = [socket.create_connection(("127.0.0.1", server.port), timeout=10) for _ in range(20)]
        silent[0].sendall(b"GET / HTTP/1.0\r\n")
        assert [get(server, path)[0] for path in ("/healthz", "/readyz", "/metrics")] == [200, 503, 200]
        with pytest.raises(OSError, match=r"Broken pipe|reset"):
            send_slowly(silent[1])
        assert [one.recv(1) for one in (silent[0], *silent[2:])] == [b""] * (len(silent) - 1)
        for one in silent:
            one.close()


@pytest.fixture
def files(tmp_path: Path) -> dict[str, str]:
    """The paths of a certificate, keys, and tokens."""
    texts = {**certificate_pems(), "token": f"{TOKEN}\n", "short": "short", "other": certificate_pems()["key"]}
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o600)
    return {name: str(tmp_path / name) for name in (*texts, "missing")}


def test_all_but_the_probes_need_the_token(
    health: Health, files: dict[str, str], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    wrong = (None, "Bearer", "Bearer wrong", f"Bearer {TOKEN}x", TOKEN, f"Basic {TOKEN}")
    with serving(health, token={"file": files["token"]}) as server:
        for path, status in {"/metrics": 200, "/": 200, "/unknown": 404}.items():
            assert [get(server, path, one)[0] for one in wrong] == [401] * len(wrong)
            assert [get(server, path, f"{scheme} {TOKEN}")[0] for scheme in ("Bearer", "bearer")] == [status] * 2
        assert (get(server, "/healthz")[0], get(server, "/readyz")[0]) == (200, 503)
    assert "/metrics" in caplog.text
    assert TOKEN not in caplog.text


def test_https_is_verified_and_plain_requests_get_nothing(health: Health, files: dict[str, str]) -> None:
    with serving(health, tls={"certificate": files["certificate"], "key": files["key"]}) as server:
        trusting = ssl.create_default_context(cafile=files["certificate"])
        assert get(server, "/metrics", context=trusting)[0] == 200
        with pytest.raises(urllib.error.URLError, match="certificate verify failed"):
            get(server, "/readyz", context=ssl.create_default_context())
        with pytest.raises((urllib.error.URLError, ConnectionError)):
            get(server, "/metrics")


def test_unusable_certificates_and_short_tokens_are_errors(files: dict[str, str], health: Health) -> None:
    pairs = [("certificate", "other"), ("certificate", "encrypted"), ("token", "key"), ("missing", "key")]
    for certificate, key in pairs:
        unusable = configured(tls={"certificate": files[certificate], "key": files[key]})
        with pytest.raises(ConfigurationError, match=r"^http\.tls: cannot load .*without a password"):
            HttpServer(unusable, health, CollectorRegistry())
    with pytest.raises(ConfigurationError, match=r"^http\.token"):
        HttpServer(configured(token={"file": files["short"]}), health, CollectorRegistry())
