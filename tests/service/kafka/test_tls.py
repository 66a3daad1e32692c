"""TLS contexts from certificates in files and in the configuration."""

from __future__ import annotations

import socket
import ssl
import tempfile
import threading
from pathlib import Path

import pytest
from certificates import PASSWORD, certificate_pems

from stream_masker.errors import ConfigurationError
from stream_masker.service.calibrator.application import faust_credentials
from stream_masker.service.kafka.administration import credentials
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
def test_inline_certificates_are_used(pems, tmp_path, monkeypatch, kind):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    texts = {"ssl.ca.pem": pems["certificate"], "ssl.certificate.pem": pems["certificate"], "ssl.key.pem": pems[kind]}
    context = ssl_context({**texts, "ssl.key.password": PASSWORD})
    assert list(tmp_path.iterdir()) == []
    files = {"certificate": pems["certificate"], "key": pems["key"]}
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    server = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cadata=pems["certificate"])
    server.verify_mode = ssl.CERT_REQUIRED
    server.load_cert_chain(tmp_path / "certificate", tmp_path / "key")
    assert handshake(context, server)
    assert not handshake(ssl.create_default_context(), server)


def test_faust_and_kafka_python_take_inline_certificates(pems):
    properties = {
        "security.protocol": "ssl",
        "ssl.ca.pem": pems["certificate"],
        "ssl.certificate.pem": pems["certificate"],
        "ssl.key.pem": pems["key"],
    }
    for context in (faust_credentials(properties).context, credentials(properties)["ssl_context"]):
        assert context.cert_store_stats()["x509_ca"] == 1


@pytest.mark.parametrize(
    "given",
    [
        {"ssl.ca.pem": "SECRET"},
        {"ssl.ca.pem": "SECRÉT"},
        {"ssl.certificate.pem": "SECRET", "ssl.key.pem": "SECRET"},
        {"ssl.certificate.location": "/no/such/SECRET"},
    ],
)
def test_unusable_certificates_are_configuration_errors_without_their_text(given):
    with pytest.raises(ConfigurationError, match="a certificate or key of ssl") as raised:
        ssl_context(given)
    assert "SECR" not in str(raised.value)


def test_ciphers_and_revoked_certificates_are_those_of_the_properties(pems, tmp_path):
    context = ssl_context({"ssl.cipher.suites": "ECDHE-RSA-AES256-GCM-SHA384"})
    assert [c["name"] for c in context.get_ciphers() if c["protocol"] == "TLSv1.2"] == ["ECDHE-RSA-AES256-GCM-SHA384"]
    (tmp_path / "revoked.pem").write_text(pems["revoked"])
    context = ssl_context({"ssl.crl.location": str(tmp_path / "revoked.pem")})
    assert context.cert_store_stats()["crl"] == 1
    assert context.verify_flags & ssl.VERIFY_CRL_CHECK_LEAF


def test_wrong_password_of_a_key_is_an_error(pems):
    given = {"ssl.certificate.pem": pems["certificate"], "ssl.key.pem": pems["encrypted"]}
    for password in ({}, {"ssl.key.password": "wrong"}):
        with pytest.raises(ConfigurationError, match="cannot be used"):
            ssl_context({**given, **password})


def test_keys_are_never_readable_by_others(pems, monkeypatch):
    modes = []
    load = ssl.SSLContext.load_cert_chain

    def checked(context: ssl.SSLContext, certificate: str, key: str, password: str) -> None:
        modes.extend(Path(name).stat().st_mode & 0o077 for name in (certificate, key))
        load(context, certificate, key, password)

    monkeypatch.setattr(ssl.SSLContext, "load_cert_chain", checked)
    ssl_context({"ssl.certificate.pem": pems["certificate"], "ssl.key.pem": pems["key"]})
    assert modes == [0, 0]
