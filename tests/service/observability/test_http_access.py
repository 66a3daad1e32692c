"""TLS and the token of the HTTP endpoints."""

from __future__ import annotations

import base64
import logging
import socket
import ssl
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from certificates import certificate_pems
from prometheus_client import CollectorRegistry
from support.small_configuration import small_configuration

from stream_masker.errors import ConfigurationError
from stream_masker.service.configuration.loading import parse_configuration
from stream_masker.service.configuration.model import Configuration
from stream_masker.service.observability.health import STARTING, Health, HttpServer
from stream_masker.service.observability.http_access import http_access

TOKEN = "a token of the monitoring"
PAGE = "<p>the page</p>"


@pytest.fixture(scope="module")
def pems() -> dict[str, str]:
    return certificate_pems()


@pytest.fixture
def files(tmp_path: Path, pems: dict[str, str]) -> dict[str, str]:
    """The paths of the certificate and the keys, and of the token."""
    for name, text in {**pems, "token": f"{TOKEN}\n", "other key": certificate_pems()["key"]}.items():
        path = tmp_path / name
        path.write_text(text)
        path.chmod(0o600)
    return {name: str(tmp_path / name) for name in (*pems, "token", "other key")}


def configured(**http: Any) -> Configuration:
    return parse_configuration(small_configuration("code", http=http))


@contextmanager
def serving(configuration: Configuration) -> Iterator[HttpServer]:
    health = Health()
    health.reason(STARTING, None)
    access = http_access(configuration)
    registry = CollectorRegistry()
    with HttpServer(
        host="127.0.0.1", port=0, health=health, registry=registry, pages={"/": lambda _: PAGE}, access=access
    ) as server:
        yield server


def status(url: str, authorization: str | None = None, context: ssl.SSLContext | None = None) -> int:
    request = urllib.request.Request(url, headers={"Authorization": authorization} if authorization else {})
    return status_of(request, context)


def status_of(request: urllib.request.Request, context: ssl.SSLContext | None = None) -> int:
    try:
        with urllib.request.urlopen(request, timeout=10, context=context) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code


def basic(token: str) -> str:
    return "Basic " + base64.b64encode(f"anyone:{token}".encode()).decode()


@pytest.mark.parametrize("path", ["/metrics", "/", "/?page=2", "/unknown"])
def test_metrics_and_pages_need_the_token(path: str, files: dict[str, str]) -> None:
    with serving(configured(token={"file": files["token"]})) as server:
        url = f"http://127.0.0.1:{server.port}{path}"
        allowed = 404 if path == "/unknown" else 200
        for refused in (
            None,
            "Bearer",
            "Bearer wrong",
            f"Bearer {TOKEN}x",
            TOKEN,
            basic("wrong"),
            "Basic %",
            "Digest x",
        ):
            assert status(url, refused) == 401, refused
        for right in (f"Bearer {TOKEN}", f"bearer {TOKEN}", basic(TOKEN)):
            assert status(url, right) == allowed, right


@pytest.mark.parametrize("path", ["/healthz", "/readyz"])
def test_probes_need_no_token(path: str, files: dict[str, str]) -> None:
    with serving(configured(token={"file": files["token"]})) as server:
        assert status(f"http://127.0.0.1:{server.port}{path}") == 200


def test_browsers_are_asked_for_the_token(files: dict[str, str]) -> None:
    with serving(configured(token={"file": files["token"]})) as server:
        with pytest.raises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(f"http://127.0.0.1:{server.port}/", timeout=10)
        assert refused.value.headers["WWW-Authenticate"].startswith("Basic ")


def test_no_token_is_needed_by_default() -> None:
    with serving(configured()) as server:
        assert status(f"http://127.0.0.1:{server.port}/metrics") == 200


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("127.0.0.1:9464", 200),
        ("[::1]:9464", 200),
        ("localhost", 200),
        ("LOCALHOST.:80", 200),
        ("masking.example.org", 200),
        (socket.gethostname(), 200),
        ("attacker.example.org", 421),
        ("127.0.0.1.attacker.example.org", 421),
        ("", 421),
    ],
)
def test_pages_answer_only_to_their_own_names(host: str, expected: int) -> None:
    """A web site whose name resolves to the server's address could otherwise read the page by a visitor's browser."""
    with serving(configured(names=["Masking.example.org"])) as server:
        for path in ("/", "/?page=2"):
            request = urllib.request.Request(f"http://127.0.0.1:{server.port}{path}", headers={"Host": host})
            assert status_of(request) == expected
        scrape = urllib.request.Request(f"http://127.0.0.1:{server.port}/metrics", headers={"Host": host})
        assert status_of(scrape) == 200, "Prometheus uses any name of a target"


def test_the_token_is_in_no_log_line(files: dict[str, str], caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    with serving(configured(token={"file": files["token"]})) as server:
        assert status(f"http://127.0.0.1:{server.port}/metrics", f"Bearer {TOKEN}") == 200
        assert status(f"http://127.0.0.1:{server.port}/metrics", "Bearer another one") == 401
    assert "/metrics" in caplog.text
    assert TOKEN not in caplog.text
    assert "another one" not in caplog.text


def test_https_is_verified_with_the_certificate(files: dict[str, str]) -> None:
    tls = {"certificate": files["certificate"], "key": files["key"]}
    with serving(configured(tls=tls, token={"file": files["token"]})) as server:
        trusting = ssl.create_default_context(cafile=files["certificate"])
        url = f"https://localhost:{server.port}"
        assert status(f"{url}/readyz", context=trusting) == 200
        assert status(f"{url}/metrics", f"Bearer {TOKEN}", trusting) == 200
        assert status(f"{url}/metrics", context=trusting) == 401
        with pytest.raises(urllib.error.URLError, match="certificate verify failed"):
            status(f"{url}/readyz", context=ssl.create_default_context())


def test_plain_requests_get_nothing_from_an_https_port(files: dict[str, str]) -> None:
    tls = {"certificate": files["certificate"], "key": files["key"]}
    with serving(configured(tls=tls)) as server:
        with pytest.raises((urllib.error.URLError, ConnectionError)):
            status(f"http://127.0.0.1:{server.port}/metrics")
        trusting = ssl.create_default_context(cafile=files["certificate"])
        assert status(f"https://localhost:{server.port}/readyz", context=trusting) == 200


@pytest.mark.parametrize(
    ("certificate", "key", "reason"),
    [
        ("certificate", "other key", "the key does not match the certificate"),
        ("certificate", "encrypted", "the key has a password"),
        ("token", "key", "not a certificate and a key in the PEM format"),
        ("missing", "key", "No such file or directory"),
    ],
)
def test_unusable_certificates_are_an_error(certificate: str, key: str, reason: str, files: dict[str, str]) -> None:
    paths = {"missing": "/missing/certificate.pem", **files}
    with pytest.raises(ConfigurationError, match=rf"^http\.tls: cannot load .*{reason}") as refused:
        http_access(configured(tls={"certificate": paths[certificate], "key": paths[key]}))
    assert TOKEN not in str(refused.value)


def test_a_short_token_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text("short")
    path.chmod(0o600)
    with pytest.raises(ConfigurationError, match=r"^http\.token"):
        http_access(configured(token={"file": str(path)}))


def test_a_token_has_one_source() -> None:
    with pytest.raises(ConfigurationError, match=r"http\.token: use exactly one of file and env"):
        configured(token={"file": "token", "env": "TOKEN"})
