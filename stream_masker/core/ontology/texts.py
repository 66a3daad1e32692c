"""Tables of texts as UTF-8 in one array, decoded where they are read: 350,000 labels make no Python objects."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, SupportsIndex, overload

import numpy as np
from numpy.typing import NDArray

from stream_masker.core.arrays import frozen_array, offsets_from_lengths
from stream_masker.core.dtypes import Int64Array, UInt8Array

CACHED_TEXTS_MAX: Final = 65_536
"""How many decoded texts (or looked-up positions) of one table a process keeps."""

KEPT_WHOLE: Final = 1 << 19
"""The most texts of a table of which a process keeps every one that it read in an array of others."""

MANY_TEXTS: Final = 500
"""Texts to read at once that are worth an array of all."""

LONE_SURROGATES: Final = "surrogatepass"
"""Half of a surrogate pair, which UTF-8 forbids but a Python string may hold, is a text like any other."""


class Texts(Sequence[str]):
    """An immutable sequence of n texts: text k is the UTF-8 ``blob[starts[k]:ends[k]]``.

    The arrays may be mapped from a file. A text that was read before is kept, so reading it again costs what a
    dictionary does; at most ``CACHED_TEXTS_MAX`` are. Equal to any sequence of equal texts.
    """

    __slots__ = ("_decoded", "_whole", "blob", "ends", "starts")

    def __init__(self, blob: UInt8Array, starts: Int64Array, ends: Int64Array) -> None:
        """blob: (b,) uint8; starts, ends: (n,) int64."""
        self.blob, self.starts, self.ends = frozen_array(blob), frozen_array(starts), frozen_array(ends)
        self._decoded = _Decoded(self)
        self._whole: _Whole | None = None

    @classmethod
    def of(cls, texts: Iterable[str]) -> Texts:
        """A table of these texts; the same object if they are one."""
        return texts if isinstance(texts, Texts) else cls.packed([encoded(text) for text in texts])

    @classmethod
    def packed(cls, parts: Sequence[bytes]) -> Texts:
        """A table of texts that are UTF-8 already."""
        offsets = offsets_from_lengths(np.fromiter(map(len, parts), np.int64, len(parts)))
        return cls(np.frombuffer(b"".join(parts), np.uint8), offsets[:-1], offsets[1:])

    def take(self, indices: Int64Array) -> Texts:
        """The texts at these indices; the new table shares this one's bytes."""
        return Texts(self.blob, self.starts[indices], self.ends[indices])

    def compact(self) -> Texts:
        """An equal table whose bytes stand one after another, and no others."""
        data = self.blob.data
        places = zip(self.starts.tolist(), self.ends.tolist(), strict=True)
        return Texts.packed([bytes(data[start:end]) for start, end in places])

    def __len__(self) -> int:
        return self.starts.size

    @overload
    def __getitem__(self, index: SupportsIndex) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[str, ...]: ...
    def __getitem__(self, index: SupportsIndex | slice) -> str | tuple[str, ...]:
        """The text at an index; of a slice, a tuple. Raises IndexError."""
        try:
            return self._decoded[index]  # type: ignore[index]
        except TypeError:
            if not isinstance(index, slice):
                raise
        return tuple(Texts(self.blob, self.starts[index], self.ends[index]))

    def __iter__(self) -> Iterator[str]:
        """Every text, decoded one after another; none is kept."""
        data = self.blob.data
        for start, end in zip(self.starts.tolist(), self.ends.tolist(), strict=True):
            yield str(data[start:end], "utf-8", LONE_SURROGATES)

    def pick(self, indices: Iterable[int]) -> list[str]:
        """The texts at these indices."""
        return list(map(self._decoded.__getitem__, indices))

    def pick_all(self, indices: NDArray[np.integer]) -> list[str]:
        """The texts at these indices: as ``pick``, fast for many."""
        if self._whole is None and indices.size >= MANY_TEXTS and len(self) <= KEPT_WHOLE:
            self._whole = _Whole(self)
        return self.pick(indices.tolist()) if self._whole is None else self._whole.pick(indices)

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        alike = isinstance(other, Sequence) and not isinstance(other, str) and len(other) == len(self)
        return alike and all(map(operator.eq, self, other))  # type: ignore[call-overload]

    def __hash__(self) -> int:
        return hash(tuple(self))

    def __repr__(self) -> str:
        return f"Texts({len(self)} texts, {self.blob.size} bytes)"

    def __reduce__(self) -> tuple[Any, ...]:
        return Texts, (self.blob, self.starts, self.ends)


class _Decoded(dict[SupportsIndex, str]):
    """Texts by index, decoded on first use."""

    __slots__ = ("_blob", "_ends", "_starts")

    def __init__(self, texts: Texts) -> None:
        super().__init__()
        self._blob, self._starts, self._ends = texts.blob.data, texts.starts.data, texts.ends.data

    def __missing__(self, index: SupportsIndex) -> str:
        place = operator.index(index)
        text = str(self._blob[self._starts[place] : self._ends[place]], "utf-8", LONE_SURROGATES)
        if len(self) >= CACHED_TEXTS_MAX:
            self.clear()
        self[place] = text
        return text


class _Whole:
    """Texts in an array, decoded on first use."""

    __slots__ = ("_known", "_table", "_texts")

    def __init__(self, texts: Texts) -> None:
        self._table = np.empty(len(texts), np.object_)
        self._known = np.zeros(len(texts), np.bool_)
        self._texts = texts

    def pick(self, indices: NDArray[np.integer]) -> list[str]:
        known = self._known.take(indices)
        if not known.all():
            new = np.unique(indices[~known])
            self._table[new] = list(self._texts.take(new))
            self._known[new] = True
        picked: list[str] = self._table.take(indices).tolist()
        return picked


def encoded(text: str) -> bytes:
    """The text in UTF-8."""
    return text.encode("utf-8", LONE_SURROGATES)
