"""Reversible encryption of field values: deterministic authenticated encryption, AES-SIV (RFC 5297).

Equal values have equal ciphertexts under one key, so that joins and counts still work. Without the key, a ciphertext
reveals only this and the length of the value. A ciphertext names its key by an id, so that keys can change.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
from collections.abc import Sequence
from typing import Final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESSIV

from stream_masker.core.random.keys import checked_secret

PREFIX: Final = "enc:"
CIPHERTEXT: Final = re.compile(rb'"enc:([0-9a-f]{8}):([A-Za-z0-9_-]+)"')
"""A ciphertext as a JSON text: the id of its key, and the data in base64."""

_KEY_PERSON: Final = b"masker-encrypt"
_ID_PERSON: Final = b"masker-encrypt-i"


class FieldCipher:
    """Encrypts and decrypts with the key that derives from a secret of at least 16 bytes."""

    def __init__(self, secret: bytes) -> None:
        key = hashlib.blake2b(key=checked_secret(secret), person=_KEY_PERSON).digest()
        self.id: Final = hashlib.blake2b(key, digest_size=4, person=_ID_PERSON).hexdigest()
        self._cipher = AESSIV(key)

    def encrypt(self, value: bytes) -> str:
        """``enc:``, the id of the key, and the ciphertext of a JSON value."""
        packed = base64.urlsafe_b64encode(self._cipher.encrypt(value, [self.id.encode()])).rstrip(b"=")
        return f"{PREFIX}{self.id}:{packed.decode()}"

    def decrypt(self, packed: bytes) -> bytes | None:
        """Return the JSON value of the last part of a ciphertext; None if it is not authentic."""
        try:
            data = base64.b64decode(packed + b"=" * (-len(packed) % 4), altchars=b"-_", validate=True)
            return self._cipher.decrypt(data, [self.id.encode()])
        except (InvalidTag, binascii.Error, ValueError):
            return None


class Revealer:
    """Replaces ciphertexts in lines of JSON by their values. ``revealed`` and ``unrevealed`` count ciphertexts."""

    def __init__(self, secrets: Sequence[bytes]) -> None:
        """``secrets``: those under which values were encrypted, the current and earlier ones."""
        self._ciphers = {cipher.id.encode(): cipher for cipher in map(FieldCipher, secrets)}
        self.revealed = 0
        self.unrevealed = 0

    def line(self, line: bytes) -> bytes:
        """Return the line with every ciphertext of a known key replaced; others stay as they are."""
        return CIPHERTEXT.sub(self._value, line)

    def _value(self, match: re.Match[bytes]) -> bytes:
        cipher = self._ciphers.get(match[1])
        value = cipher.decrypt(match[2]) if cipher else None
        self.revealed += value is not None
        self.unrevealed += value is None
        return match[0] if value is None else value
