"""TLS and passwords of the clients that do not use librdkafka."""

from __future__ import annotations

import socket
import ssl
import threading
from functools import partial

import pytest
from certificates import PASSWORD as KEY_PASSWORD
from certificates import certificate_pems
from support.small_configuration import small_configuration

from stream_masker.errors import ConfigurationError, ServiceError
from stream_masker.service.configuration import parse_configuration
from stream_masker.service.kafka import topics
from stream_masker.service.kafka.clients import require_broker
from stream_masker.service.kafka.credentials import Credentials, credentials, ssl_context

PASSWORD = "do-not-tell"


def test_passwords_are_translated_with_their_transport() -> None:
    given = {"sasl.mechanisms": "scram-sha-512", "sasl.username": "clinic", "sasl.password": PASSWORD}
    found = credentials({"security.protocol": "sasl_ssl", **given})
    assert found.context is not None
    assert (found.context.verify_mode, found.context.check_hostname) == (ssl.CERT_REQUIRED, True)
    assert (found.protocol, found.mechanism) == ("SASL_SSL", "SCRAM-SHA-512")
    assert (found.username, found.password) == ("clinic", PASSWORD)


@pytest.mark.parametrize(
    ("properties", "message"),
    [
        (
            {"security.protocol": "SASL_SSL", "sasl.mechanism": "OAUTHBEARER"},
            "sasl.mechanism is OAUTHBEARER; supported",
        ),
        ({"security.protocol": "SASL_PLAINTEXT"}, "sasl.mechanism is GSSAPI; supported are PLAIN, SCRAM-SHA-256"),
        ({"security.protocol": "ssl3"}, "security.protocol is SSL3; supported are PLAINTEXT"),
        ({"security.protocol": "ssl", "ssl.key.pem": PASSWORD}, "ssl.key.pem is supported by librdkafka only"),
    ],
)
def test_what_kafka_python_does_not_have_is_named(properties: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message) as caught:
        credentials(properties)
    assert PASSWORD not in str(caught.value)


def test_plaintext_needs_no_credentials() -> None:
    assert credentials({}) == Credentials("PLAINTEXT")


@pytest.mark.parametrize(
    ("properties", "kind", "said"),
    [
        ({}, ServiceError, r"127\.0\.0\.1:1\b"),
        ({"security.protocol": "no-such-protocol"}, ConfigurationError, r"kafka\.properties"),
    ],
)
def test_a_connection_that_fails_is_one_error_without_logs(
    properties: dict[str, str],
    kind: type[Exception],
    said: str,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr("stream_masker.service.kafka.clients.ANSWER_SECONDS", 0.1)
    monkeypatch.setattr(topics, "require_broker", partial(require_broker, seconds=0.5))
    kafka = {"bootstrap_servers": "127.0.0.1:1", "properties": properties}
    configuration = parse_configuration(small_configuration("principal", kafka=kafka, mechanism={"reference": "mean"}))
    with pytest.raises(kind, match=said):
        topics.prepare_topics(configuration)
    assert not caplog.records


@pytest.fixture(scope="module")
def pems() -> dict[str, str]:
    return certificate_pems()


def handshake(client: ssl.SSLContext, server: ssl.SSLContext) -> bool:
    """Whether two contexts agree on a connection in which both prove their identity."""
    ends = socket.socketpair()
    accepted = []

    def serve() -> None:
        try:
            with server.wrap_socket(ends[1], server_side=True) as connection:
                accepted.append(connection.recv(1) == b"x")
        except OSError:
            accepted.append(False)

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        with client.wrap_socket(ends[0], server_hostname="localhost") as connection:
            connection.sendall(b"x")
    except OSError:
        ends[0].close()
    thread.join(10)
    return accepted == [True]


@pytest.mark.parametrize("kind", ["key", "encrypted"])
def test_certificates_are_used(pems, tmp_path, kind):
    for name, text in pems.items():
        (tmp_path / name).write_text(text)
    own = {"ssl.certificate.location": str(tmp_path / "certificate"), "ssl.key.location": str(tmp_path / kind)}
    server = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cadata=pems["certificate"])
    server.verify_mode = ssl.CERT_REQUIRED
    server.load_cert_chain(tmp_path / "certificate", tmp_path / "key")
    for authority in ({"ssl.ca.pem": pems["certificate"]}, {"ssl.ca.location": str(tmp_path / "certificate")}):
        assert handshake(ssl_context({**own, **authority, "ssl.key.password": KEY_PASSWORD}), server)
    assert not handshake(ssl.create_default_context(), server)


@pytest.mark.parametrize(
    "given",
    [
        {"ssl.ca.pem": "SECRET"},
        {"ssl.ca.pem": "SECRÉT"},
        {"ssl.certificate.location": "/no/such/SECRET"},
    ],
)
def test_unusable_certificates_are_configuration_errors_without_their_text(given):
    with pytest.raises(ConfigurationError, match="a certificate or key of ssl") as raised:
        ssl_context(given)
    assert "SECR" not in str(raised.value)


@pytest.mark.parametrize("password", [{}, {"ssl.key.password": "wrong"}])
def test_wrong_password_of_a_key_is_an_error(pems, tmp_path, password):
    for name in ("certificate", "encrypted"):
        (tmp_path / name).write_text(pems[name])
    own = {"ssl.certificate.location": str(tmp_path / "certificate"), "ssl.key.location": str(tmp_path / "encrypted")}
    with pytest.raises(ConfigurationError, match="cannot be used"):
        ssl_context({**own, **password})
