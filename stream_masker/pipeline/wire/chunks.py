"""Chunks: statistics messages that exceed the message size limit are split by the writer and assembled by readers.

A version that fits into one message is written under the key ``version``. A larger one is split into chunks, written
under the keys ``version:0``, ``version:1``, …, followed by a head under the key ``version``. The head has the number of
chunks, the size in bytes and the SHA-256 of the whole message. Readers thus accept a version completely or not at all,
and a tombstone for the key ``version`` revokes it, even if some of its chunks remain.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass, field
from typing import Final

import orjson

from stream_masker.errors import ParameterError, StatisticsError
from stream_masker.pipeline.wire.fields import MESSAGE_FORMAT, MessageReader

MAX_HEAD_BYTES: Final = 512
"""An upper bound on the size of a head."""

_KEY: Final = re.compile(rb"([0-9]{1,18})(?::([0-9]{1,9}))?")


@dataclass(frozen=True, slots=True)
class Chunk:
    """A message of the statistics topic. value: None for a tombstone."""

    key: bytes
    value: bytes | None


def split_message(version: int, message: bytes, limit: int) -> list[Chunk]:
    """Split a version into the messages to write, in this order: the message itself, or its chunks and their head.

    limit: the maximum size of the value of each message in bytes, without its key; at least ``MAX_HEAD_BYTES``. Raises
    ParameterError for a lower limit.
    """
    if limit < MAX_HEAD_BYTES:
        raise ParameterError(f"limit is {limit} bytes: use at least {MAX_HEAD_BYTES}")
    if len(message) <= limit:
        return [Chunk(b"%d" % version, message)]
    slices = [message[start : start + limit] for start in range(0, len(message), limit)]
    chunks = [Chunk(b"%d:%d" % (version, number), value) for number, value in enumerate(slices)]
    return [*chunks, Chunk(b"%d" % version, _head(version, len(chunks), message))]


def _head(version: int, chunks: int, message: bytes) -> bytes:
    digest = hashlib.sha256(message).hexdigest()
    return orjson.dumps(
        {"format": MESSAGE_FORMAT, "version": version, "parts": chunks, "bytes": len(message), "sha256": digest}
    )


def tombstones(version: int, chunks: int) -> list[Chunk]:
    """Return the messages that remove a version, its head first. chunks: their number, 0 for a version in one
    message."""
    return [Chunk(b"%d" % version, None), *(Chunk(b"%d:%d" % (version, number), None) for number in range(chunks))]


def chunk_position(key: bytes | None) -> tuple[int, int | None] | None:
    """Return the version and chunk number of a key; the number is None for the head or a whole message.

    None for a key of another form.
    """
    match = _KEY.fullmatch(key or b"")
    return None if match is None else (int(match[1]), None if match[2] is None else int(match[2]))


def count_chunks(head: bytes) -> int:
    """Return the number of chunks in the message under a version's key; 0 if that is not a head."""
    reader = _head_reader(head)
    chunks = 0 if reader is None else reader.get("parts")
    return chunks if type(chunks) is int and chunks > 0 else 0


def _head_reader(head: bytes) -> MessageReader | None:
    """Return a reader of a head; None for any other message."""
    if len(head) > MAX_HEAD_BYTES:
        return None
    try:
        reader = MessageReader.of(head, "statistics head")
    except StatisticsError:
        return None
    return None if reader.get("parts") is None else reader


@dataclass(slots=True)
class ChunkAssembler:
    """The messages of one version that have been read. head: the message under its key; chunks: by number."""

    head: bytes | None = None
    chunks: dict[int, bytes] = field(default_factory=dict)

    @property
    def size(self) -> int:
        """The size of all messages in bytes."""
        return len(self.head or b"") + sum(map(len, self.chunks.values()))

    @property
    def complete(self) -> bool:
        """Whether the head and all of its chunks are there."""
        return self.head is not None and all(number in self.chunks for number in range(count_chunks(self.head)))

    def put(self, number: int | None, value: bytes) -> None:
        """Add a chunk, or the head; it replaces an earlier one."""
        if number is None:
            self.head = value
        else:
            self.chunks[number] = value

    def message(self) -> bytes:
        """Return the version's message. Raises StatisticsError if the chunks do not match the head."""
        head = self.head or b""
        reader = _head_reader(head)
        if reader is None:
            return head
        numbers = range(reader.integer("parts", least=1))
        message = b"".join(self.chunks.get(number, b"") for number in numbers)
        if len(message) != reader.integer("bytes") or hashlib.sha256(message).hexdigest() != reader.text("sha256"):
            raise StatisticsError("a chunk is missing, or is not the one that was written")
        return message


class Versions(dict[int, ChunkAssembler]):
    """The messages of each version on the statistics topic, added in the topic's order."""

    def take(self, version: int, number: int | None, value: bytes | None) -> None:
        """Add a chunk, a head, or a tombstone of either; the tombstone of a head removes the whole version."""
        if value is not None:
            self.setdefault(version, ChunkAssembler()).put(number, value)
        elif number is None:
            self.pop(version, None)
        elif version in self:
            self[version].chunks.pop(number, None)
