"""TLS contexts from certificates."""

from __future__ import annotations

import socket
import ssl
import threading

import pytest
from certificates import PASSWORD, certificate_pems

from stream_masker.errors import ConfigurationError
from stream_masker.service.kafka.credentials import ssl_context


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
        assert handshake(ssl_context({**own, **authority, "ssl.key.password": PASSWORD}), server)
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
