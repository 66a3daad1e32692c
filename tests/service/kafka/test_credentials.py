"""TLS and passwords of the clients that do not use librdkafka. Handshakes: ``tests/kafka/test_security.py``."""

from __future__ import annotations

import ssl
from functools import partial
from pathlib import Path

import pytest
from certificates import PASSWORD as KEY_PASSWORD
from certificates import certificate_pems
from support.small_configuration import small_configuration

from stream_masker.errors import ConfigurationError, ServiceError
from stream_masker.service.configuration import parse_configuration
from stream_masker.service.kafka import topics
from stream_masker.service.kafka.clients import credentials, require_broker

PASSWORD = "do-not-tell"
TLS = {"security.protocol": "ssl"}


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("pems")
    for name, text in certificate_pems().items():
        (folder / name).write_text(text)
    return folder


def test_passwords_are_translated_with_their_transport() -> None:
    given = {"sasl.mechanisms": "scram-sha-512", "sasl.username": "clinic", "sasl.password": PASSWORD}
    found = credentials({"security.protocol": "sasl_ssl", **given})
    context = found.pop("ssl_context")
    assert (context.verify_mode, context.check_hostname) == (ssl.CERT_REQUIRED, True)
    assert [*found.values()] == ["SASL_SSL", "SCRAM-SHA-512", "clinic", PASSWORD]
    assert credentials({}) == {"security_protocol": "PLAINTEXT", "ssl_context": None}


@pytest.mark.parametrize(("key", "password"), [("key", ""), ("encrypted", KEY_PASSWORD)])
def test_certificates_are_used(files: Path, key: str, password: str) -> None:
    own = {"ssl.certificate.location": str(files / "certificate"), "ssl.key.location": str(files / key)}
    for name, authority in (("location", str(files / "certificate")), ("pem", (files / "certificate").read_text())):
        found = credentials({**TLS, **own, f"ssl.ca.{name}": authority, "ssl.key.password": password})
        assert len(found["ssl_context"].get_ca_certs()) == 1


@pytest.mark.parametrize(
    ("properties", "said"),
    [
        ({"security.protocol": "SASL_SSL", "sasl.mechanism": "OAUTHBEARER"}, "is OAUTHBEARER; use PLAIN"),
        ({"security.protocol": "SASL_PLAINTEXT"}, "sasl.mechanism is GSSAPI; use PLAIN, SCRAM-SHA-256"),
        ({**TLS, "ssl.crl.location": PASSWORD}, "ssl.crl.location is supported by librdkafka only"),
        ({**TLS, "ssl.ca.pem": PASSWORD}, "a certificate or key of ssl.* cannot be used"),
        ({**TLS, "ssl.ca.pem": f"{PASSWORD}\u00c9"}, "a certificate or key of ssl.* cannot be used"),
        ({**TLS, "ssl.certificate.location": f"/no/such/{PASSWORD}"}, "a certificate or key of ssl.* cannot be used"),
        *(
            ({**TLS, "ssl.certificate.location": "certificate", "ssl.key.location": "encrypted", **password}, "cannot")
            for password in ({}, {"ssl.key.password": "wrong"})
        ),
    ],
)
def test_what_cannot_be_used_is_named_without_its_text(
    files: Path, monkeypatch: pytest.MonkeyPatch, properties: dict[str, str], said: str
) -> None:
    monkeypatch.chdir(files)
    with pytest.raises(ConfigurationError) as caught:
        credentials(properties)
    assert said in str(caught.value)
    assert PASSWORD not in str(caught.value)


def test_a_broker_that_does_not_answer_is_one_error_without_logs(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("stream_masker.service.kafka.clients.ANSWER_SECONDS", 0.1)
    monkeypatch.setattr(topics, "require_broker", partial(require_broker, seconds=0.5))
    nowhere = small_configuration("principal", "secondary", kafka={"bootstrap_servers": "127.0.0.1:1"})
    said = r"^no broker answers at 127\.0\.0\.1:1: check that the broker runs, kafka\.bootstrap"
    with pytest.raises(ServiceError, match=said):
        topics.prepare_topics(parse_configuration(nowhere))
    assert not caplog.records
