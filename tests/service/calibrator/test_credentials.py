"""Faust's credentials from librdkafka's properties."""

from __future__ import annotations

import ssl
from pathlib import Path

import pytest

from stream_masker.errors import ConfigurationError
from stream_masker.service.calibrator.faust_app import faust_credentials

SASL = {"sasl.username": "calibrator", "sasl.password": "hush"}


@pytest.mark.parametrize("properties", [{}, {"security.protocol": "plaintext"}, {"linger.ms": 5}])
def test_plaintext_needs_no_credentials(properties: dict[str, str | int]) -> None:
    assert faust_credentials(properties) is None


def test_tls_verifies_certificates_and_host_names() -> None:
    found = faust_credentials({"security.protocol": "SSL"})
    assert found.protocol.value == "SSL"
    assert found.context.verify_mode is ssl.CERT_REQUIRED
    assert found.context.check_hostname


@pytest.mark.parametrize(
    ("properties", "mode", "names"),
    [
        ({"ssl.endpoint.identification.algorithm": "none"}, ssl.CERT_REQUIRED, False),
        ({"enable.ssl.certificate.verification": "false"}, ssl.CERT_NONE, False),
        ({"enable.ssl.certificate.verification": False}, ssl.CERT_NONE, False),
    ],
)
def test_properties_disable_tls_verification(properties: dict[str, str], mode: ssl.VerifyMode, names: bool) -> None:
    found = faust_credentials({"security.protocol": "ssl", **properties})
    assert (found.context.verify_mode, found.context.check_hostname) == (mode, names)


@pytest.mark.parametrize(
    ("protocol", "given", "mechanism"),
    [
        ("SASL_PLAINTEXT", {}, "PLAIN"),
        ("SASL_PLAINTEXT", {"sasl.mechanisms": "SCRAM-SHA-256"}, "SCRAM-SHA-256"),
        ("sasl_ssl", {"sasl.mechanism": "scram-sha-512"}, "SCRAM-SHA-512"),
    ],
)
def test_sasl_properties_become_credentials(protocol: str, given: dict[str, str], mechanism: str) -> None:
    found = faust_credentials({"security.protocol": protocol, **SASL, **given})
    assert (found.username, found.password) == ("calibrator", "hush")
    assert (found.protocol.value, found.mechanism.value) == (protocol.upper(), mechanism)
    assert (found.ssl_context is not None) == protocol.endswith("ssl")


@pytest.mark.parametrize(
    ("properties", "message"),
    [
        ({"security.protocol": "TELNET"}, r"security\.protocol .* PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL"),
        ({"security.protocol": "SASL_SSL", "sasl.mechanism": "GSSAPI"}, r"sasl\.mechanism .* PLAIN, SCRAM-SHA-256"),
        ({"security.protocol": "SSL", "ssl.ca.location": "/no/such/file"}, r"ssl\.\* cannot be used: No such file"),
    ],
)
def test_unsupported_properties_are_configuration_errors(properties: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        faust_credentials(properties)


def test_invalid_certificate_file_is_a_configuration_error(tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_text("SECRET")
    with pytest.raises(ConfigurationError, match="cannot be used") as caught:
        faust_credentials({"security.protocol": "SSL", "ssl.ca.location": str(tmp_path / "ca.pem")})
    assert "SECRET" not in str(caught.value)
