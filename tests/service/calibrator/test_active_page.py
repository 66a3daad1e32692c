"""The page of the active calibrator, as one that stands by fetches it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from certificates import certificate_pems
from prometheus_client import CollectorRegistry
from support.small_configuration import small_configuration

from stream_masker.service.calibrator.page import LivePage, fetched_page
from stream_masker.service.calibrator.page.live import FORWARDED
from stream_masker.service.configuration import Configuration, parse_configuration
from stream_masker.service.observability.health import Health, HttpServer
from stream_masker.service.observability.http_access import http_access

HERE = "127.0.0.1"
TOKEN = "ein Schlüssel der Überwachung"


def configured(port: int = 9464, **http: Any) -> Configuration:
    return parse_configuration(small_configuration("code", http={"port": port, **http}))


def protected(folder: Path) -> dict[str, Any]:
    """A section ``http`` with a certificate and a token of its own."""
    folder.mkdir()
    for name, text in {**certificate_pems(), "token": TOKEN}.items():
        (folder / name).write_text(text)
        (folder / name).chmod(0o600)
    files = {name: str(folder / name) for name in ("certificate", "key")}
    return {"token": {"file": str(folder / "token")}, "tls": files}


@contextmanager
def active(asked: list[str], **http: Any) -> Iterator[int]:
    """Serve a page that repeats its query, on a port; ``asked``: gets the queries."""

    def page(query: str) -> str:
        asked.append(query)
        return f"the page of {query}"

    access = http_access(configured(**http))
    with HttpServer(
        host=HERE, port=0, health=Health(), registry=CollectorRegistry(), pages={"/": page}, access=access
    ) as server:
        yield server.port


def fetched(port: int, query: str = "refresh=30", **http: Any) -> str | None:
    own = configured(port, **http)
    return fetched_page(own, http_access(own), HERE, query)


def test_the_page_is_that_of_the_other_calibrator() -> None:
    with active([]) as port:
        assert fetched(port) == f"the page of refresh=30&{FORWARDED}"


def test_the_other_calibrator_has_the_same_certificate_and_token(tmp_path: Path) -> None:
    http = protected(tmp_path / "one")
    with active([], **http) as port:
        assert fetched(port, **http) == f"the page of refresh=30&{FORWARDED}"


def test_no_token_is_sent_to_a_server_with_another_certificate(tmp_path: Path) -> None:
    asked: list[str] = []
    other = protected(tmp_path / "other")
    with active(asked, tls=other["tls"]) as port:
        assert fetched(port, **other) is not None
        assert fetched(port, **protected(tmp_path / "one")) is None
    assert len(asked) == 1


@pytest.mark.parametrize("query", ["a b", "ü", "\n"])
def test_a_query_that_is_none_is_not_sent(query: str) -> None:
    asked: list[str] = []
    with active(asked) as port:
        assert fetched(port, query) is None
    assert asked == []


def test_there_is_no_page_if_nobody_answers_or_access_is_refused(tmp_path: Path) -> None:
    with active([], token=protected(tmp_path / "one")["token"]) as port:
        assert fetched(port) is None
    assert fetched(port) is None


def test_a_calibrator_that_stands_by_shows_the_page_of_the_active_one() -> None:
    asked: list[str] = []

    def fetch(address: str, query: str) -> str | None:
        asked.append(f"{address}?{query}")
        return "the page" if "refresh" in query else None

    page = LivePage(configured(), find_active=lambda: "10.0.0.7", fetch=fetch)
    assert page.html("refresh=30") == "the page"
    assert "The active calibrator is at 10.0.0.7." in page.html("")
    assert "The active calibrator is at 10.0.0.7." in page.html(f"refresh=30&{FORWARDED}")
    assert 'http-equiv="refresh" content="30"' in page.html(f"refresh=30&{FORWARDED}")
    assert asked == ["10.0.0.7?refresh=30", "10.0.0.7?"]
    assert "The active calibrator" not in LivePage(configured(), fetch=fetch).html("refresh=30")
