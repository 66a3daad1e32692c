"""Texts as arrays that can be mapped from files, and an index that finds them by a key."""

from __future__ import annotations

import operator
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import Any, Final, NamedTuple, Self, SupportsIndex, overload
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from stream_masker.core.arrays import frozen_array, offsets_from_lengths
from stream_masker.core.dtypes import Int32Array, Int64Array, UInt8Array

KEPT_TEXTS: Final = 1 << 16
"""The most decoded texts that a sequence of texts keeps."""


class Texts(Sequence[str]):
    """n texts: text k is the UTF-8 ``utf8[offsets[k]:offsets[k + 1]]``, decoded on access. It equals any sequence of
    equal texts."""

    def __init__(self, utf8: UInt8Array, offsets: Int64Array) -> None:
        """utf8: (b,) uint8; offsets: (n + 1,) int64."""
        self.utf8, self.offsets = frozen_array(utf8), frozen_array(offsets)
        data, bounds = self.utf8.data, self.offsets.data

        def decoded(index: int) -> str:
            return str(data[bounds[index] : bounds[index + 1]], "utf-8", "surrogatepass")

        self._text: Callable[..., str] = lru_cache(KEPT_TEXTS)(decoded)

    @classmethod
    def of(cls, texts: Iterable[str]) -> Texts:
        """Return the given texts; ``Texts`` as they are."""
        if isinstance(texts, Texts):
            return texts
        parts = list(map(_encoded, texts))
        offsets = offsets_from_lengths(np.fromiter(map(len, parts), np.int64, len(parts)))
        return cls(np.frombuffer(b"".join(parts), np.uint8), offsets)

    def decode(self, indices: Iterable[int]) -> list[str]:
        """Return the texts at the given indices, 0 … n - 1. Raises IndexError."""
        return list(map(self._text, indices))

    def __len__(self) -> int:
        return self.offsets.size - 1

    @overload
    def __getitem__(self, index: SupportsIndex) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[str, ...]: ...
    def __getitem__(self, index: SupportsIndex | slice) -> str | tuple[str, ...]:
        found = range(len(self))[index]
        return tuple(self.decode(found)) if isinstance(found, range) else self._text(found)

    def __iter__(self) -> Iterator[str]:
        for start, end in pairwise(self.offsets.tolist()):
            yield str(self.utf8.data[start:end], "utf-8", "surrogatepass")

    def __eq__(self, other: object) -> bool:
        comparable = isinstance(other, Sequence) and not isinstance(other, str) and len(other) == len(self)
        return comparable and all(map(operator.eq, self, other))  # type: ignore[call-overload]

    __hash__ = None  # type: ignore[assignment]

    def __reduce__(self) -> tuple[Any, ...]:
        return Texts, (self.utf8, self.offsets)


class TextIndex(NamedTuple):
    """Finds the owners (positions of concepts) of keys: the CRC-32 of each key, sorted, beside its owner.

    checksums: (e,) uint32, ascending. owners: (e,) int32. Two keys may have the same checksum, so callers compare the
    texts of the owners that are found.
    """

    checksums: NDArray[np.uint32]
    owners: Int32Array

    @classmethod
    def of(cls, keys: Sequence[str], owners: NDArray[np.integer]) -> Self:
        """Index e keys, each with (e,) its owner."""
        checksums = np.fromiter(map(_checksum, keys), np.uint32, len(keys))
        order = np.argsort(checksums, kind="stable")
        return cls(checksums[order], owners[order].astype(np.int32))

    def candidates(self, key: str) -> list[int]:
        """Return the owners of the keys with the checksum of a key, ascending where they were indexed so."""
        wanted, checksums = _checksum(key), self.checksums.data
        first = bisect_left(checksums, wanted)
        owners: list[int] = self.owners[first : bisect_right(checksums, wanted, first)].tolist()
        return owners


def _checksum(text: str) -> int:
    return crc32(_encoded(text))


def _encoded(text: str) -> bytes:
    """Return a text in UTF-8; lone surrogates, which Python's texts may contain, are encoded too."""
    return text.encode("utf-8", "surrogatepass")
