"""Encryption and authentication of the internal topics, a layer around the bytes of a message.

An envelope is ``SEAL_MAGIC``, the id of the secret (8 bytes), a random salt (32 bytes), and the content encrypted with
AES-256-GCM, which ends with a tag of 16 bytes. The key derives from the secret and the salt, and encrypts this message
alone. The associated data are the topic and the message's key: a message is valid in its own topic
and under its own key only. The content is the message, compressed because encrypted bytes cannot be.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from typing import Final

import cramjam
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from stream_masker.core.validation import checked_seed
from stream_masker.errors import StatisticsError

SEAL_MAGIC: Final = b"\x00SM\x01"
"""The first bytes of an envelope: no JSON text starts with them. The last byte is the version of the format."""

KEY_ID_BYTES: Final = 8
HEADER_BYTES: Final = len(SEAL_MAGIC) + KEY_ID_BYTES
SALT_BYTES: Final = 32
CIPHER_KEY_BYTES: Final = 32
NONCE: Final = bytes(12)
COMPRESSION_LEVEL: Final = 1


REFUSAL_CAUSES: Final = {
    "plain": "not encrypted. Check who may write to the topic",
    "unknown_key": "encrypted with an unknown secret. Name it in previous_secrets, or give all processes the same one",
    "forged": "not authentic: it was changed, or written for another topic or key. Check who may write to the topic",
}
"""Why a message of an internal topic is refused: the label of a metric, and the sentence for an operator."""


class SealError(StatisticsError):
    """A message that is not authentic. The error's text never contains the message."""

    def __init__(self, cause: str) -> None:
        """cause: one of ``REFUSAL_CAUSES``."""
        super().__init__(REFUSAL_CAUSES[cause])
        self.cause = cause


def key_id(secret: bytes) -> bytes:
    """Return the public id of a secret (8 bytes). It does not reveal the secret, but confirms a guess of it."""
    return hashlib.blake2b(digest_size=KEY_ID_BYTES, key=checked_seed(secret), person=b"masker-key-id").digest()


class TopicSeal:
    """Seals and opens the messages of one topic.

    ``secrets``: the current one, then those that are accepted for reading.
    """

    def __init__(self, topic: str, secrets: Sequence[bytes]) -> None:
        self.topic = topic
        self._secrets = {key_id(secret): secret for secret in secrets}

    @property
    def key_ids(self) -> list[str]:
        """The ids of all secrets in hexadecimal, that of the current one first."""
        return [identity.hex() for identity in self._secrets]

    def seal(self, key: bytes, message: bytes) -> bytes:
        """Return the envelope of a message for its key."""
        (identity, secret), salt = next(iter(self._secrets.items())), os.urandom(SALT_BYTES)
        header, content = SEAL_MAGIC + identity, bytes(cramjam.zstd.compress(message, COMPRESSION_LEVEL))
        return header + salt + _cipher(secret, salt).encrypt(NONCE, content, self._associated(header, key))

    def open(self, key: bytes | None, sealed: bytes) -> bytes:
        """Open what ``seal`` returns. Raises SealError for a message that is not authentic."""
        if not sealed.startswith(SEAL_MAGIC):
            raise SealError("plain")
        header, rest = sealed[:HEADER_BYTES], sealed[HEADER_BYTES:]
        secret = self._secrets.get(header[len(SEAL_MAGIC) :])
        if secret is None:
            raise SealError("unknown_key")
        salt, encrypted = rest[:SALT_BYTES], rest[SALT_BYTES:]
        try:
            content = _cipher(secret, salt).decrypt(NONCE, encrypted, self._associated(header, key or b""))
        except InvalidTag:
            raise SealError("forged") from None
        return bytes(cramjam.zstd.decompress(content))

    def _associated(self, header: bytes, key: bytes) -> bytes:
        """Return the associated data of a message; no topic's name has a zero byte."""
        return header + self.topic.encode() + b"\0" + key


def _cipher(secret: bytes, salt: bytes) -> AESGCM:
    """Return the cipher of one message."""
    key, size = checked_seed(secret), CIPHER_KEY_BYTES
    return AESGCM(hashlib.blake2b(salt, digest_size=size, key=key, person=b"masker-message").digest())
