"""Certificates made for tests."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

PASSWORD = "the password of the key"


def certificate_pems() -> dict[str, str]:
    """A certificate for localhost that is its own authority, its key, and the key encrypted by ``PASSWORD``.

    ``revoked``: a list of revoked certificates, which is empty.
    """
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )

    revoked = x509.CertificateRevocationListBuilder(name, now, now + timedelta(days=1)).sign(key, hashes.SHA256())

    def written(encryption: serialization.KeySerializationEncryption) -> str:
        form = serialization.PrivateFormat.PKCS8
        return key.private_bytes(serialization.Encoding.PEM, form, encryption).decode()

    return {
        "certificate": certificate.public_bytes(serialization.Encoding.PEM).decode(),
        "revoked": revoked.public_bytes(serialization.Encoding.PEM).decode(),
        "key": written(serialization.NoEncryption()),
        "encrypted": written(serialization.BestAvailableEncryption(PASSWORD.encode())),
    }
