"""Sealed messages: encryption and authentication of the internal topics, a layer around the bytes of a message.

An envelope is ``SEAL_MAGIC``, the id of the secret (8 bytes), a random salt (32 bytes), and the message encrypted with
AES-256-GCM, which ends with the tag of 16 bytes. Every message has a cipher key and a nonce of its own, derived from
the topic's key and the salt, so no nonce is ever used twice with one key: two messages would need equal salts of 256
random bits. The associated data are the topic and the message's key. A message is therefore valid under its own key
only. Large messages are compressed first, because a client's compression cannot shrink encrypted bytes; the first byte
of the plain text is a flag for compression. Padded messages are compressed too: the padding is a skippable frame after
the compressed one, which every reader of Zstandard ignores.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from enum import StrEnum
from typing import Final

import cramjam
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from stream_masker.core.validation import checked_secret
from stream_masker.errors import StatisticsError

SEAL_MAGIC: Final = b"\x00SM\x01"
"""The first bytes of an envelope: no JSON text starts with them. The last byte is the version of the format."""

KEY_ID_BYTES: Final = 8
SALT_BYTES: Final = 32
TAG_BYTES: Final = 16

SEAL_BYTES: Final = len(SEAL_MAGIC) + KEY_ID_BYTES + SALT_BYTES + TAG_BYTES + 1
"""The largest number of bytes that an envelope adds to a message."""

COMPRESSED_FROM_BYTES: Final = 1_024
"""The size from which messages are compressed."""

_STORED, _COMPRESSED = b"\x00", b"\x01"
_COMPRESSION_LEVEL: Final = 1

_SKIPPABLE: Final = b"\x50\x2a\x4d\x18"
"""The first bytes of a skippable frame of Zstandard (RFC 8878, section 3.1.2); the size of its content follows."""
_FRAME_SIZE_BYTES: Final = 4
_STEPS_LOG2: Final = 3
"""The logarithm of the number of size classes between two powers of two."""

_HEADER_BYTES: Final = len(SEAL_MAGIC) + KEY_ID_BYTES
_CIPHER_KEY_BYTES: Final = 32
_NONCE_BYTES: Final = 12


class RefusalCause(StrEnum):
    """Why a message of an internal topic was refused; the values are labels of a metric."""

    PLAIN = "plain"
    """It is not encrypted."""
    UNKNOWN_KEY = "unknown_key"
    """It was encrypted with a secret that the configuration does not name."""
    FORGED = "forged"
    """It was changed, cut, or written for another topic or key."""


_EXPLANATIONS: Final = {
    RefusalCause.PLAIN: "not encrypted. Messages of an earlier release are accepted once with "
    "internal_topics.accept_plaintext: true; otherwise recalibrate with `stream-masker calibrate FILE --publish`",
    RefusalCause.UNKNOWN_KEY: "encrypted with an unknown secret. Name it in internal_topics.previous_secrets, or give "
    "all processes the same secret",
    RefusalCause.FORGED: "not authentic: it was changed, or written for another topic or key. Check who may write to "
    "the topic",
}


class SealError(StatisticsError):
    """A message that is not authentic. Its text never contains the message."""

    def __init__(self, cause: RefusalCause) -> None:
        super().__init__(_EXPLANATIONS[cause])
        self.cause = cause


def key_id(secret: bytes) -> bytes:
    """Return the public id of a secret (8 bytes). It does not reveal the secret, but confirms a guess of it."""
    return hashlib.blake2b(digest_size=KEY_ID_BYTES, key=checked_secret(secret), person=b"masker-key-id").digest()


class TopicSeal:
    """Seals and opens the messages of one topic.

    secrets: the current one, then those that are accepted for reading; none if the topic is not encrypted.
    accept_plain: whether messages that are not encrypted are accepted.
    """

    def __init__(self, topic: str, secrets: Sequence[bytes] = (), *, accept_plain: bool = False) -> None:
        self.topic = topic
        self.accept_plain = accept_plain or not secrets
        self._bound = len(topic.encode()).to_bytes(4, "little") + topic.encode()
        self._keys = {key_id(secret): _topic_key(secret, topic) for secret in secrets}
        self._header = SEAL_MAGIC + key_id(secrets[0]) if secrets else b""

    @property
    def key_ids(self) -> list[str]:
        """The ids of all secrets in hexadecimal, that of the current one first."""
        return [identity.hex() for identity in self._keys]

    @property
    def added_bytes(self) -> int:
        """The largest number of bytes that ``seal`` adds."""
        return SEAL_BYTES if self._header else 0

    def seal(self, key: bytes, message: bytes, *, padded: int = 0) -> bytes:
        """Return the envelope of a message for its key; the message itself if the topic is not encrypted.

        padded: the size in bytes up to which all messages have envelopes of the same size, and above which they have
        one of a few sizes (``size_class``); 0: the size is that of the message.
        """
        if not self._header:
            return message
        packed = _padded(message, padded) if padded else _packed(message)
        salt = os.urandom(SALT_BYTES)
        cipher, nonce = _cipher(self._keys[self._header[len(SEAL_MAGIC) :]], salt)
        return self._header + salt + cipher.encrypt(nonce, packed, self._associated(self._header, key))

    def open(self, key: bytes | None, sealed: bytes) -> bytes:
        """Open what ``seal`` returns. Raises SealError for a message that is not authentic."""
        if not sealed.startswith(SEAL_MAGIC):
            return self._plain(sealed)
        header, rest = sealed[:_HEADER_BYTES], sealed[_HEADER_BYTES:]
        topic_key = self._keys.get(header[len(SEAL_MAGIC) :])
        if topic_key is None:
            raise SealError(RefusalCause.UNKNOWN_KEY)
        cipher, nonce = _cipher(topic_key, rest[:SALT_BYTES])
        try:
            packed = cipher.decrypt(nonce, rest[SALT_BYTES:], self._associated(header, key or b""))
        except InvalidTag:
            raise SealError(RefusalCause.FORGED) from None
        return bytes(cramjam.zstd.decompress(packed[1:])) if packed[:1] == _COMPRESSED else packed[1:]

    def _plain(self, message: bytes) -> bytes:
        if not self.accept_plain:
            raise SealError(RefusalCause.PLAIN)
        return message

    def _associated(self, header: bytes, key: bytes) -> bytes:
        return header + self._bound + key


def _topic_key(secret: bytes, topic: str) -> bytes:
    key = checked_secret(secret)
    return hashlib.blake2b(topic.encode(), digest_size=32, key=key, person=b"masker-topic").digest()


def _packed(message: bytes) -> bytes:
    """Return a byte for the form (plain or compressed), and the message in the shorter form."""
    if len(message) < COMPRESSED_FROM_BYTES:
        return _STORED + message
    compressed = bytes(cramjam.zstd.compress(message, _COMPRESSION_LEVEL))
    return _COMPRESSED + compressed if len(compressed) < len(message) else _STORED + message


def _padded(message: bytes, least: int) -> bytes:
    """Return a compressed message with a skippable frame after it: ``least`` bytes, or a larger ``size_class``."""
    compressed = _COMPRESSED + bytes(cramjam.zstd.compress(message, _COMPRESSION_LEVEL))
    needed = len(compressed) + len(_SKIPPABLE) + _FRAME_SIZE_BYTES
    padding = max(least, size_class(needed)) - needed
    return compressed + _SKIPPABLE + padding.to_bytes(_FRAME_SIZE_BYTES, "little") + bytes(padding)


def size_class(size: int) -> int:
    """Return the least size of a class that is not below ``size``: a multiple of an eighth of a power of two.

    The powers are those between ``size`` and its half, so padding adds less than an eighth.
    """
    step = 1 << max(size.bit_length() - 1 - _STEPS_LOG2, 0)
    return -(-size // step) * step


def _cipher(topic_key: bytes, salt: bytes) -> tuple[AESGCM, bytes]:
    """Return the cipher of one message and its nonce."""
    size = _CIPHER_KEY_BYTES + _NONCE_BYTES
    derived = hashlib.blake2b(salt, digest_size=size, key=topic_key, person=b"masker-message").digest()
    return AESGCM(derived[:_CIPHER_KEY_BYTES]), derived[_CIPHER_KEY_BYTES:]
