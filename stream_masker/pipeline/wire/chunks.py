"""Statistics messages larger than a message may be: cut into parts by the writer, put together by readers.

A version that fits into one message is that message, under the key ``version``. Any other is its bytes, one part after
another, under the keys ``version:0``, ``version:1``, …, and after them, under the key ``version``, a head that tells
how many parts and bytes there are and the SHA-256 of them all. So a version is taken up as a whole or not at all, and
a tombstone of the key ``version`` takes it back, whatever has become of its parts.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

import orjson

from stream_masker.errors import ParameterError, StatisticsError
from stream_masker.pipeline.wire.fields import MESSAGE_FORMAT, MessageReader

HEADER_BYTES: Final = 512
"""More than any head has."""

_KEY: Final = re.compile(rb"([0-9]{1,18})(?::([0-9]{1,9}))?")


@dataclass(frozen=True, slots=True)
class Chunk:
    """A message of the statistics topic; ``value`` None is a tombstone."""

    key: bytes
    value: bytes | None


def split_message(version: int, message: bytes, limit: int) -> list[Chunk]:
    """A version's messages in the order of writing, none of more than ``limit`` bytes: one, or parts and their head.

    Raises ParameterError for a limit below ``HEADER_BYTES``.
    """
    if limit < HEADER_BYTES:
        raise ParameterError(f"limit is {limit} bytes: use at least {HEADER_BYTES}")
    if len(message) <= limit:
        return [Chunk(b"%d" % version, message)]
    slices = [message[start : start + limit] for start in range(0, len(message), limit)]
    parts = [Chunk(b"%d:%d" % (version, number), value) for number, value in enumerate(slices)]
    return [*parts, Chunk(b"%d" % version, _head(version, len(parts), message))]


def _head(version: int, parts: int, message: bytes) -> bytes:
    digest = hashlib.sha256(message).hexdigest()
    return orjson.dumps(
        {"format": MESSAGE_FORMAT, "version": version, "parts": parts, "bytes": len(message), "sha256": digest}
    )


def tombstones(version: int, parts: int) -> list[Chunk]:
    """What removes a version of so many parts (0 when it is one message), its head first."""
    return [Chunk(b"%d" % version, None), *(Chunk(b"%d:%d" % (version, number), None) for number in range(parts))]


def chunk_position(key: bytes | None) -> tuple[int, int | None] | None:
    """The version and the part's number (None: the head, or the whole) that a key stands for; None for another key."""
    match = _KEY.fullmatch(key or b"")
    return None if match is None else (int(match[1]), None if match[2] is None else int(match[2]))


def count_chunks(head: bytes) -> int:
    """How many parts the message under a version's key speaks of; 0 when it is the version itself, or no head."""
    told = _told(head)
    parts = 0 if told is None else told.get("parts")
    return parts if type(parts) is int and parts > 0 else 0


def _told(head: bytes) -> MessageReader | None:
    """A head to read from; None for a message that is none."""
    if len(head) > HEADER_BYTES:
        return None
    try:
        reader = MessageReader.of(head, "statistics head")
    except StatisticsError:
        return None
    return None if reader.get("parts") is None else reader


@dataclass(slots=True)
class ChunkAssembler:
    """What has come of one version; ``head``: the message under its key."""

    head: bytes | None = None
    parts: dict[int, bytes] = field(default_factory=dict)

    @property
    def size(self) -> int:
        """Bytes."""
        return len(self.head or b"") + sum(map(len, self.parts.values()))

    @property
    def complete(self) -> bool:
        """Whether the head has come, and every part that it tells of."""
        return self.head is not None and all(number in self.parts for number in range(count_chunks(self.head)))

    def put(self, number: int | None, value: bytes) -> None:
        """Takes a part, or the head; of two the later one counts."""
        if number is None:
            self.head = value
        else:
            self.parts[number] = value

    def whole(self) -> bytes:
        """The version's message. Raises StatisticsError when its parts are not those that the head tells of."""
        head = self.head or b""
        told = _told(head)
        if told is None:
            return head
        message = _joined(self.parts, range(told.integer("parts", least=1)))
        if len(message) != told.integer("bytes") or hashlib.sha256(message).hexdigest() != told.text("sha256"):
            raise StatisticsError("its parts are not all there, or not those that were written")
        return message


class Versions(dict[int, ChunkAssembler]):
    """What has come of each version, by the messages of the statistics topic in their order."""

    def take(self, version: int, number: int | None, value: bytes | None) -> None:
        """Takes a part, a head, or a tombstone of either; that of a head takes all of its version back."""
        if value is not None:
            self.setdefault(version, ChunkAssembler()).put(number, value)
        elif number is None:
            self.pop(version, None)
        elif version in self:
            self[version].parts.pop(number, None)


def _joined(parts: dict[int, bytes], numbers: Iterable[int]) -> bytes:
    return b"".join(parts.get(number, b"") for number in numbers)
