"""The messages of the service: calibration blocks, statistics versions and rejections, all JSON.

A block names concepts by their positions in the taxonomies, whose fingerprints it carries: a reader with another build
of an ontology refuses it. Errors never contain a field's value.

Blocks and versions are sealed, so a reader checks whether they fit its own configuration, and no more. An envelope is
``SEAL_MAGIC``, the id of the secret (8 bytes), a random salt (32 bytes), and the content encrypted with AES-256-GCM,
which ends with a tag of 16 bytes. The key derives from the secret and the salt, and encrypts this message alone. The
associated data are the topic and the message's key: a message is valid in its own topic and under its own key only. The
content is the message, compressed because encrypted bytes cannot be.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias

import cramjam
import numpy as np
import orjson
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from stream_masker.core.batch import Distortion
from stream_masker.core.context import NO_CONTEXT, Context
from stream_masker.core.mechanisms.base import Mechanism
from stream_masker.core.ontology import Taxonomy
from stream_masker.core.statistics.counts import Counts, SparseCounts
from stream_masker.core.statistics.statistics import Statistics
from stream_masker.core.validation import checked_seed
from stream_masker.errors import StatisticsError
from stream_masker.pipeline.records import Block, Rejected

Taxonomies: TypeAlias = Mapping[str, Taxonomy]
JsonObject: TypeAlias = dict[str, Any]

MESSAGE_FORMAT: Final = 1
"""The format of rejections and drift reports."""

SEALED_FORMAT: Final = 2
"""The format of blocks and statistics versions. Readers refuse any other."""

KEYED: Final = ("pairs", "events", "lacking")
"""The fields of ``Counts`` whose keys are tuples of attributes' numbers; as texts, these are separated by commas."""

NUMBER_DIGITS = 18
"""The digits of the greatest number of a key or a header, which may have any length."""

StatisticsSource: TypeAlias = Literal["bootstrap", "blocks", "file"]


def _identity(taxonomies: Taxonomies, context: Context) -> JsonObject:
    """Return the fingerprints by which readers check that positions and contexts are theirs."""
    own = {name: taxonomy.fingerprint for name, taxonomy in taxonomies.items()}
    return {"taxonomies": own, "context": context.fingerprint}


def block_key(block: Block) -> bytes:
    """Return the key of a block's message: ``topic:partition:first_offset``."""
    return f"{block.topic}:{block.partition}:{block.first_offset}".encode()


def encode_block(block: Block, taxonomies: Taxonomies, context: Context = NO_CONTEXT) -> bytes:
    """Return a calibration block as JSON; ``context``: that of the records.

    The attributes are those of ``taxonomies``, in that order. A pair's key is ``position of the first * size of the
    second's taxonomy + position of the second``.
    """
    own = _identity(taxonomies, context)
    return _dumps(block, original=_counts(block.original), masked=_counts(block.masked), **own)


def _counts(counts: Counts) -> JsonObject:
    """Return the fields of counts, with texts instead of tuples as keys."""
    message = _fields(counts) | {"contexts": {number: _counts(part) for number, part in counts.contexts.items()}}
    for name in KEYED:
        message[name] = {",".join(map(str, key)): each for key, each in message[name].items()}
    return message


def decode_block(raw: bytes, taxonomies: Taxonomies, context: Context = NO_CONTEXT) -> Block:
    """Decode what ``encode_block`` returns. Raises StatisticsError if it has other taxonomies or another context."""
    with _decoding(raw, "block") as data:
        for name, own in _identity(taxonomies, context).items():
            _require(data.pop(name) == own, name)
        data["original"], data["masked"] = _read_counts(data["original"]), _read_counts(data["masked"])
        data["distortions"] = tuple(Distortion(**each) for each in data["distortions"])
        return Block(**data)


def _read_counts(data: JsonObject) -> Counts:
    read: JsonObject = {"values": tuple(map(_read_sparse, data["values"]))}
    read["lengths"] = {int(j): _read_sparse(each) for j, each in data["lengths"].items()}
    read["contexts"] = {int(number): _read_counts(part) for number, part in data["contexts"].items()}
    for name in KEYED:
        read[name] = {tuple(map(int, key.split(","))): _read_sparse(each) for key, each in data[name].items()}
    return Counts(**{**data, **read})


def _read_sparse(data: JsonObject) -> SparseCounts:
    bits = None if data["key_bits"] is None else np.array(data["key_bits"], np.uint64)
    return SparseCounts(np.array(data["keys"], np.int64), np.array(data["counts"], np.int64), bits)


@dataclass(frozen=True, slots=True)
class BlockRange:
    """A range of offsets on the calibration topic, ``first`` to ``last``."""

    first: int
    last: int


@dataclass(frozen=True, slots=True)
class StatisticsMessage:
    """A published statistics version.

    configuration: the hash of the one that it was computed under; published: milliseconds since the epoch; blocks: the
    blocks that it was computed from, None for a bootstrap sample or a file; baseline: the version that drift is
    measured against; snapshot: of the mechanism, for ``Mechanism.restore``; secret_id: of the masking secret that
    workers must have, None if it is not known; guessed: the chance of the best guess of a code, by mechanism
    (``guess_chances``), None if it is not known yet.
    """

    version: int
    configuration: str
    published: int
    source: StatisticsSource
    blocks: BlockRange | None
    baseline: int
    snapshot: Mapping[str, Any]
    secret_id: str | None = None
    guessed: Mapping[str, float] | None = None

    @property
    def key(self) -> bytes:
        """The key of the message: the version in decimal."""
        return str(self.version).encode()

    @property
    def statistics(self) -> Statistics:
        """The statistics in the snapshot. Raises StatisticsError unless they are of this version."""
        statistics = Statistics.from_dict(self.snapshot.get("statistics", {}))
        if statistics.version != self.version:
            raise StatisticsError("statistics: the snapshot is of another version than its message")
        return statistics

    def fits(self, mechanism: Mechanism) -> bool:
        """Return whether the statistics are of this mechanism and over its taxonomies."""
        own = {name: taxonomy.fingerprint for name, taxonomy in mechanism.taxonomies.items()}
        return self.snapshot.get("mechanism") == mechanism.name and self.snapshot.get("taxonomies") == own


def encode_statistics(message: StatisticsMessage) -> bytes:
    """Return a statistics version as JSON. Floats keep all their bits."""
    return _dumps(message)


def decode_statistics(raw: bytes) -> StatisticsMessage:
    """Decode what ``encode_statistics`` returns. Raises StatisticsError for anything else."""
    with _decoding(raw, "statistics") as data:
        _require(isinstance(data["version"], int) and isinstance(data["snapshot"], dict), "version or snapshot")
        data["blocks"] = None if data["blocks"] is None else BlockRange(**data["blocks"])
        return StatisticsMessage(**data)


def number_of(text: bytes | None) -> int | None:
    """Return the number that a key or a header is in decimal, such as a version; None if it is none."""
    return int(text) if text and len(text) <= NUMBER_DIGITS and text.isdigit() else None


def encode_rejection(rejected: Rejected, *, topic: str, partition: int, offset: int) -> bytes:
    """Return a rejection as JSON: reason and place, never a value. It has a ``field`` only if a field is the cause."""
    place = {"reason": rejected.reason, "topic": topic, "partition": partition, "offset": offset}
    blamed = {} if rejected.field is None else {"field": rejected.field}
    return orjson.dumps({"format": MESSAGE_FORMAT, **place, **blamed})


def _fields(message: Any) -> JsonObject:
    return {name: getattr(message, name) for name in message.__slots__}


def _dumps(message: Any, **changed: Any) -> bytes:
    """Return the fields of a message as JSON, and those that are changed or added."""
    option = orjson.OPT_SERIALIZE_NUMPY | orjson.OPT_NON_STR_KEYS
    return orjson.dumps({"format": SEALED_FORMAT, **_fields(message), **changed}, option=option)


def _require(is_valid: bool, field: str) -> None:
    if not is_valid:
        raise StatisticsError(f"{field} is missing, invalid or not the configured one")


@contextmanager
def _decoding(raw: bytes, what: str) -> Iterator[JsonObject]:
    """Yield the fields of a message of this format. Raise StatisticsError if it has another one, or if the block fails.
    Its text never has a value of the message."""
    try:
        data = orjson.loads(raw)
        _require(data.pop("format") == SEALED_FORMAT, "format")
        yield data
    except StatisticsError as error:
        raise StatisticsError(f"{what}: {error}") from None
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        raise StatisticsError(f"{what}: not a message of this format ({type(error).__name__})") from None


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
        """Raises ParameterError for a secret that is too short."""
        self.topic = topic
        self._secrets = {key_id(secret): checked_seed(secret) for secret in secrets}

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
    purpose = b"masker-message"
    return AESGCM(hashlib.blake2b(salt, digest_size=CIPHER_KEY_BYTES, key=secret, person=purpose).digest())
