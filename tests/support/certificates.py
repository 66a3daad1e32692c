"""Certificates made for tests, valid for a day, on this machine."""

from __future__ import annotations

import ipaddress
from datetime import UTC, datetime, timedelta

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

PASSWORD = "the password of the key"
DAY = timedelta(days=1)
HOSTS = x509.SubjectAlternativeName([x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])


class Identity:
    """A name with its key, and its certificate by ``issuer``, or by itself as an authority."""

    def __init__(self, name: str, issuer: Identity | None = None) -> None:
        self.name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        self.private = ec.generate_private_key(ec.SECP256R1())
        signer, now = issuer or self, datetime.now(UTC)
        public, number = self.private.public_key(), x509.random_serial_number()
        builder = x509.CertificateBuilder(signer.name, self.name, public, number, now - DAY, now + DAY)
        builder = builder.add_extension(x509.BasicConstraints(ca=issuer is None, path_length=None), critical=True)
        self.signed = builder.add_extension(HOSTS, critical=False).sign(signer.private, hashes.SHA256())

    @property
    def certificate(self) -> str:
        return self.signed.public_bytes(serialization.Encoding.PEM).decode()

    def key(self, password: str | None = None) -> str:
        """Return the key, encrypted if there is a password."""
        encryption: serialization.KeySerializationEncryption = serialization.NoEncryption()
        if password is not None:
            encryption = serialization.BestAvailableEncryption(password.encode())
        form = serialization.PrivateFormat.PKCS8
        return self.private.private_bytes(serialization.Encoding.PEM, form, encryption).decode()


def certificate_pems() -> dict[str, str]:
    """A certificate for localhost that is its own authority, its key, and the key encrypted by ``PASSWORD``."""
    own = Identity("localhost")
    return {"certificate": own.certificate, "key": own.key(), "encrypted": own.key(PASSWORD)}
