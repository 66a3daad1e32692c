"""Tokens of OAUTHBEARER: requests, renewal, and errors without secrets."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest
from kafka_broker import LOOPBACK, free_ports
from secured_kafka import token_endpoint

from stream_masker.errors import ConfigurationError, ServiceError
from stream_masker.service.kafka.tokens import ClientTokens

SECRET = "a secret: with % and +"


@pytest.fixture
def endpoint() -> Iterator[str]:
    with token_endpoint({"masker": "plain"}) as address:
        yield address


@pytest.fixture
def answers(request: pytest.FixtureRequest) -> Iterator[str]:
    """The address of a server that answers with the parameter."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(request.param)

        def log_message(self, format: str, *args: object) -> None:
            """Write no log."""

    with HTTPServer((LOOPBACK, 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield f"http://{LOOPBACK}:{server.server_port}"
        server.shutdown()
        thread.join()


def properties(url: str, **more: str) -> dict[str, str]:
    given = {"client.id": "masker", "client.secret": "plain", "token.endpoint.url": url, "method": "oidc"}
    return {f"sasl.oauthbearer.{name.replace('_', '.')}": value for name, value in {**given, **more}.items()}


def test_a_token_is_used_until_most_of_its_lifetime_has_passed(endpoint: str) -> None:
    now = [0.0]
    tokens = ClientTokens(properties(endpoint), clock=lambda: now[0])
    first = tokens.token()
    now[0] = 239.0
    tokens_before = [tokens.token() for _ in range(3)]
    requested: list[str] = []
    tokens._request = lambda: (requested.append("request") or "next", 300.0)  # type: ignore[method-assign]
    assert {first, *tokens_before} == {first}
    assert tokens.token() == first
    now[0] = 241.0
    assert tokens.token() == tokens.token() == "next"
    assert requested == ["request"]


def test_extensions_are_name_value_pairs(endpoint: str) -> None:
    assert ClientTokens(properties(endpoint, extensions="logicalCluster=lkc-1, pool=p=2")).extensions == {
        "logicalCluster": "lkc-1",
        "pool": "p=2",
    }


def test_a_refused_client_is_told_what_to_check_without_its_secret(endpoint: str) -> None:
    with pytest.raises(
        ServiceError, match=r"status 401: check kafka\.properties\.sasl\.oauthbearer\.client\.id"
    ) as caught:
        ClientTokens(properties(endpoint, client_secret=SECRET)).token()
    assert SECRET not in str(caught.value)


def test_an_endpoint_that_does_not_answer_is_an_error() -> None:
    [port] = free_ports(1)
    with pytest.raises(ServiceError, match=r"does not answer: .*refused"):
        ClientTokens(properties(f"http://{LOOPBACK}:{port}")).token()


@pytest.mark.parametrize(
    "answers", [b"no json", b"[]", json.dumps({"expires_in": 3}).encode()], indirect=True, ids=["text", "list", "none"]
)
def test_an_answer_without_a_token_is_an_error(answers: str) -> None:
    with pytest.raises(ServiceError, match="contains no token"):
        ClientTokens(properties(answers)).token()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"method": "default"}, r"method must be oidc"),
        ({"client_secret": ""}, r"requires sasl\.oauthbearer\.client\.secret"),
        ({"token_endpoint_url": "file:///etc/passwd"}, "must begin with https"),
    ],
)
def test_missing_properties_are_configuration_errors(changes: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        ClientTokens(properties("http://127.0.0.1/", **changes))


def test_an_unreadable_authority_is_a_configuration_error() -> None:
    given = properties("https://127.0.0.1/") | {"https.ca.location": "/no/such/file"}
    with pytest.raises(ConfigurationError, match=r"https\.ca\.location cannot be used: No such file"):
        ClientTokens(given)
