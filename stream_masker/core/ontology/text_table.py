"""Tables of texts, stored as UTF-8 in one array and decoded on access.

A table of 350,000 labels holds no Python object per label, and its arrays can be mapped from a file.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, SupportsIndex, overload

import numpy as np
from numpy.typing import NDArray

from stream_masker.core.arrays import frozen_array, offsets_from_lengths
from stream_masker.core.dtypes import Int64Array, UInt8Array

CACHED_TEXTS_MAX: Final = 65_536
"""The most decoded texts that a ``TextTable`` caches, and the most found indices that a ``TextLookup`` caches."""

DECODED_ARRAY_MAX: Final = 1 << 19
"""Larger tables have no array of decoded texts."""

MANY_TEXTS: Final = 500
"""The least texts to decode at once for which the array of decoded texts is created."""

LONE_SURROGATES: Final = "surrogatepass"
"""Encode and decode lone surrogates, which Python strings may contain although UTF-8 forbids them."""


class TextTable(Sequence[str]):
    """An immutable sequence of n texts: text k is the UTF-8 ``blob[starts[k]:ends[k]]``.

    The arrays may be mapped from a file. Decoded texts are cached, at most ``CACHED_TEXTS_MAX`` of them. A table equals
    every sequence of equal texts.
    """

    __slots__ = ("_cache", "_decoded", "blob", "ends", "starts")

    def __init__(self, blob: UInt8Array, starts: Int64Array, ends: Int64Array) -> None:
        """blob: (b,) uint8; starts, ends: (n,) int64."""
        self.blob, self.starts, self.ends = frozen_array(blob), frozen_array(starts), frozen_array(ends)
        self._cache = _DecodingCache(self)
        self._decoded: _DecodedArray | None = None

    @classmethod
    def of(cls, texts: Iterable[str]) -> TextTable:
        """Return a table of the given texts. A ``TextTable`` is returned as it is."""
        return texts if isinstance(texts, TextTable) else cls.packed([encoded(text) for text in texts])

    @classmethod
    def packed(cls, texts: Sequence[bytes]) -> TextTable:
        """Return a table of texts that are given in UTF-8."""
        offsets = offsets_from_lengths(np.fromiter(map(len, texts), np.int64, len(texts)))
        return cls(np.frombuffer(b"".join(texts), np.uint8), offsets[:-1], offsets[1:])

    def take(self, indices: Int64Array) -> TextTable:
        """Return a table of the texts at the given indices, which shares the bytes of this one."""
        return TextTable(self.blob, self.starts[indices], self.ends[indices])

    def compact(self) -> TextTable:
        """Return an equal table whose texts are adjacent and in order, without unused bytes."""
        data = self.blob.data
        slices = zip(self.starts.tolist(), self.ends.tolist(), strict=True)
        return TextTable.packed([bytes(data[start:end]) for start, end in slices])

    def __len__(self) -> int:
        return self.starts.size

    @overload
    def __getitem__(self, index: SupportsIndex) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[str, ...]: ...
    def __getitem__(self, index: SupportsIndex | slice) -> str | tuple[str, ...]:
        """Return the text at an index, or a tuple of the texts in a slice. Raises IndexError."""
        try:
            return self._cache[index]  # type: ignore[index]
        except TypeError:
            if not isinstance(index, slice):
                raise
        return tuple(TextTable(self.blob, self.starts[index], self.ends[index]))

    def __iter__(self) -> Iterator[str]:
        """Decode every text in order, without caching."""
        data = self.blob.data
        for start, end in zip(self.starts.tolist(), self.ends.tolist(), strict=True):
            yield str(data[start:end], "utf-8", LONE_SURROGATES)

    def decode(self, indices: Iterable[int]) -> list[str]:
        """Return the texts at the given indices. Raises IndexError."""
        return list(map(self._cache.__getitem__, indices))

    def decode_array(self, indices: NDArray[np.integer]) -> list[str]:
        """Like ``decode``, but fast for many indices."""
        if self._decoded is None and indices.size >= MANY_TEXTS and len(self) <= DECODED_ARRAY_MAX:
            self._decoded = _DecodedArray(self)
        return self.decode(indices.tolist()) if self._decoded is None else self._decoded.take(indices)

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        comparable = isinstance(other, Sequence) and not isinstance(other, str) and len(other) == len(self)
        return comparable and all(map(operator.eq, self, other))  # type: ignore[call-overload]

    def __hash__(self) -> int:
        return hash(tuple(self))

    def __repr__(self) -> str:
        return f"TextTable({len(self)} texts, {self.blob.size} bytes)"

    def __reduce__(self) -> tuple[Any, ...]:
        return TextTable, (self.blob, self.starts, self.ends)


class _DecodingCache(dict[SupportsIndex, str]):
    """Decoded texts by index. A missing text is decoded; a full cache is cleared."""

    __slots__ = ("_blob", "_ends", "_starts")

    def __init__(self, texts: TextTable) -> None:
        super().__init__()
        self._blob, self._starts, self._ends = texts.blob.data, texts.starts.data, texts.ends.data

    def __missing__(self, index: SupportsIndex) -> str:
        k = operator.index(index)
        text = str(self._blob[self._starts[k] : self._ends[k]], "utf-8", LONE_SURROGATES)
        if len(self) >= CACHED_TEXTS_MAX:
            self.clear()
        self[k] = text
        return text


class _DecodedArray:
    """An object array of texts, each decoded on first use and kept."""

    __slots__ = ("_is_decoded", "_source", "_texts")

    def __init__(self, source: TextTable) -> None:
        self._texts = np.empty(len(source), np.object_)
        self._is_decoded = np.zeros(len(source), np.bool_)
        self._source = source

    def take(self, indices: NDArray[np.integer]) -> list[str]:
        is_decoded = self._is_decoded.take(indices)
        if not is_decoded.all():
            new = np.unique(indices[~is_decoded])
            self._texts[new] = list(self._source.take(new))
            self._is_decoded[new] = True
        texts: list[str] = self._texts.take(indices).tolist()
        return texts


def encoded(text: str) -> bytes:
    """Return a text in UTF-8, lone surrogates included."""
    return text.encode("utf-8", LONE_SURROGATES)
