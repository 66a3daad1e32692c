"""Texts as arrays that can be mapped from files, and an index that finds them by a key."""

from __future__ import annotations

import operator
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Any, Final, SupportsIndex, overload
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from stream_masker.core.arrays import frozen_array, offsets_from_lengths
from stream_masker.core.dtypes import Int32Array, Int64Array, UInt8Array

KEPT_TEXTS: Final = 1 << 16
"""The most decoded texts that a sequence of texts keeps."""


class Texts(Sequence[str]):
    """n texts: text k is the UTF-8 ``utf8[starts[k]:ends[k]]``, decoded on access. It equals any sequence of equal
    texts."""

    def __init__(self, utf8: UInt8Array, starts: Int64Array, ends: Int64Array) -> None:
        """utf8: (b,) uint8; starts, ends: (n,) int64."""
        self.utf8, self.starts, self.ends = frozen_array(utf8), frozen_array(starts), frozen_array(ends)
        data, first, last = self.utf8.data, self.starts.data, self.ends.data

        def decoded(index: SupportsIndex) -> str:
            return str(data[first[index] : last[index]], "utf-8", "surrogatepass")

        self._text: Callable[..., str] = lru_cache(KEPT_TEXTS)(decoded)

    @classmethod
    def of(cls, texts: Iterable[str]) -> Texts:
        """Return the given texts; ``Texts`` as they are."""
        if isinstance(texts, Texts):
            return texts
        parts = list(map(encoded, texts))
        offsets = offsets_from_lengths(np.fromiter(map(len, parts), np.int64, len(parts)))
        return cls(np.frombuffer(b"".join(parts), np.uint8), offsets[:-1], offsets[1:])

    def take(self, indices: NDArray[np.integer]) -> Texts:
        """Return the texts at the given indices, which share the bytes of these."""
        return Texts(self.utf8, self.starts[indices], self.ends[indices])

    def compact(self) -> tuple[UInt8Array, Int64Array]:
        """Return the bytes of the texts, one after another, and (n + 1,) int64 their offsets."""
        data = self.utf8.data
        parts = [data[start:end] for start, end in zip(self.starts.tolist(), self.ends.tolist(), strict=True)]
        return np.frombuffer(b"".join(parts), np.uint8), offsets_from_lengths(self.ends - self.starts)

    @classmethod
    def mapped(cls, utf8: UInt8Array, offsets: Int64Array) -> Texts:
        """Return the texts of which these are the ``compact`` arrays."""
        return cls(utf8, offsets[:-1], offsets[1:])

    def decode(self, indices: Iterable[int]) -> list[str]:
        """Return the texts at the given indices. Raises IndexError."""
        return list(map(self._text, indices))

    def __len__(self) -> int:
        return self.starts.size

    @overload
    def __getitem__(self, index: SupportsIndex) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[str, ...]: ...
    def __getitem__(self, index: SupportsIndex | slice) -> str | tuple[str, ...]:
        if isinstance(index, slice):
            return tuple(Texts(self.utf8, self.starts[index], self.ends[index]))
        return self._text(index)

    def __iter__(self) -> Iterator[str]:
        data = self.utf8.data
        for start, end in zip(self.starts.tolist(), self.ends.tolist(), strict=True):
            yield str(data[start:end], "utf-8", "surrogatepass")

    def __eq__(self, other: object) -> bool:
        comparable = isinstance(other, Sequence) and not isinstance(other, str) and len(other) == len(self)
        return comparable and all(map(operator.eq, self, other))  # type: ignore[call-overload]

    def __hash__(self) -> int:
        return hash(tuple(self))

    def __reduce__(self) -> tuple[Any, ...]:
        return Texts, (self.utf8, self.starts, self.ends)

    def __repr__(self) -> str:
        return f"Texts({len(self)} texts, {self.utf8.size} bytes)"


class TextIndex:
    """Finds the owners (positions of concepts) of keys: the CRC-32 of each key, sorted, beside its owner.

    checksums: (e,) uint32, ascending. owners: (e,) int32. Two keys may have the same checksum, so callers compare the
    texts of the owners that are found.
    """

    def __init__(self, checksums: NDArray[np.uint32], owners: Int32Array) -> None:
        self.checksums, self.owners = frozen_array(checksums), frozen_array(owners)
        self._sorted = self.checksums.data

    @classmethod
    def of(cls, keys: Sequence[str], owners: NDArray[np.integer]) -> TextIndex:
        """Index e keys, each with (e,) its owner."""
        checksums = np.fromiter(map(checksum, keys), np.uint32, len(keys))
        order = np.argsort(checksums, kind="stable")
        return cls(checksums[order], owners[order].astype(np.int32))

    def candidates(self, key: str) -> list[int]:
        """Return the owners of the keys with the checksum of a key, ascending where they were indexed so."""
        wanted = checksum(key)
        first = bisect_left(self._sorted, wanted)
        owners: list[int] = self.owners[first : bisect_right(self._sorted, wanted, first)].tolist()
        return owners


def checksum(text: str) -> int:
    """Return the CRC-32 of a text in UTF-8."""
    return crc32(encoded(text))


def encoded(text: str) -> bytes:
    """Return a text in UTF-8; lone surrogates, which Python's texts may contain, are encoded too."""
    return text.encode("utf-8", "surrogatepass")
