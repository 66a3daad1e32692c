"""Keyed pseudonyms. A value has the same pseudonym in all fields, message keys and topics."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import orjson
from numpy.typing import NDArray

from stream_masker.core.dtypes import UInt8Array
from stream_masker.core.random.blake2b import keyed_state
from stream_masker.core.random.keys import checked_secret
from stream_masker.pipeline.codec.scanner.pseudonyms import DIGITS, pseudonyms_of
from stream_masker.pipeline.codec.scanner.tokens import PADDING

PSEUDONYM_BYTES: Final = 16
PERSON: Final = b"masker-pseudonym"
OFFSET_PERSON: Final = b"masker-offset"


class Pseudonyms:
    """32 hexadecimal digits for a value: the BLAKE2b hash, keyed with the secret, of the value's text in UTF-8.

    The text of a number or truth value is its JSON, so 42 and "42" have the same pseudonym. The pseudonym does not
    depend on the value's place, so joins on a patient's id still work. Without the secret, nobody can reverse a
    pseudonym or check it against a guess.
    """

    def __init__(self, secret: bytes) -> None:
        key = checked_secret(secret)
        self._start = hashlib.blake2b(digest_size=PSEUDONYM_BYTES, key=key, person=PERSON).copy
        self._offsets = hashlib.blake2b(digest_size=PSEUDONYM_BYTES, key=key, person=OFFSET_PERSON).copy
        self._state = keyed_state(key, PERSON, PSEUDONYM_BYTES)
        self._empty = np.frombuffer(self.of_bytes(b"").encode(), np.uint8)

    def of_bytes(self, value: bytes) -> str:
        """Return the pseudonym of a text in UTF-8."""
        state = self._start()
        state.update(value)
        return state.hexdigest()

    def offset_hash(self, key: bytes) -> bytes:
        """16 bytes for the key of a record's dates, independent of its pseudonym."""
        state = self._offsets()
        state.update(key)
        return state.digest()

    def of_all(self, values: Sequence[bytes | None]) -> list[bytes | None]:
        """Return the pseudonyms of texts in UTF-8, as ASCII. None stays None."""
        present = [value for value in values if value is not None]
        found = self._of_texts(present)
        if len(present) == len(values):
            return found
        rest = iter(found)
        return [None if value is None else next(rest) for value in values]

    def _of_texts(self, texts: Sequence[bytes]) -> list[bytes | None]:
        sizes = np.fromiter(map(len, texts), np.int64, len(texts))
        data = np.frombuffer(b"".join([*texts, bytes(PADDING)]), np.uint8)
        pseudonyms = self.of_slices(data, np.cumsum(sizes) - sizes, sizes)
        found: list[bytes | None] = pseudonyms.view(f"S{DIGITS}").tolist()
        return found

    def of_slices(self, data: UInt8Array, starts: NDArray[np.int64], sizes: NDArray[np.int64]) -> UInt8Array:
        """Return (32 · n,) uint8: the pseudonyms of n slices of ``data``. ``PADDING`` more bytes must follow the last
        one."""
        found: UInt8Array = pseudonyms_of(self._state, self._empty, data, starts, sizes)
        return found

    def of_value(self, value: Any) -> Any:
        """Return the pseudonym of a JSON value. In objects and lists, every name and value is replaced; null stays
        null."""
        kind = type(value)
        if kind is str:
            return self.of_bytes(value.encode())
        if value is None:
            return None
        if kind is dict:
            return {self.of_bytes(key.encode()): self.of_value(member) for key, member in value.items()}
        if kind is list:
            return [self.of_value(element) for element in value]
        return self.of_bytes(orjson.dumps(value))
