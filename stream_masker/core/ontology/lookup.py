"""From texts back to their indices, by hash tables that can be mapped from a file."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice

import numpy as np

from stream_masker.core.arrays import frozen_array, offsets_from_lengths
from stream_masker.core.dtypes import Int32Array, Int64Array, UInt8Array, UInt64Array
from stream_masker.core.ontology import text_hash
from stream_masker.core.ontology.texts import CACHED_TEXTS_MAX, Texts, encoded

LOOKUP_CHUNK = 65_536
NAME_SEPARATOR = "\0"
END = NAME_SEPARATOR * (1 + text_hash.SHORT)
"""After the last of joined texts: what ends it, and room to read words of bytes."""

MANY_MATCHES = 500
"""Texts to find at once that are worth a table of short ones."""

NO_TEXT = b"\xff"
"""What stands for a value that is no text: no UTF-8, so never found."""


class Lookup:
    """Finds the index of a text in a table of unique texts."""

    def __init__(self, texts: Texts, slots: Int32Array | None = None) -> None:
        """slots: (s,) int32 as another ``Lookup`` over equal texts made them; made anew without."""
        self.texts = texts
        self.slots = frozen_array(_slots(texts) if slots is None else slots)
        self._known: dict[object, int] = {}
        self._short: UInt64Array | None = None

    def find(self, text: object) -> int:
        """The text's index, or -1."""
        known = self._known.get(text)
        return self._search(text) if known is None else known

    def find_all(self, texts: Sequence[object]) -> Int32Array:
        """(n,) int32: each text's index, or -1."""
        if len(texts) < MANY_MATCHES:
            return self._find_pieces(texts)
        try:
            return self.find_texts(texts)  # type: ignore[arg-type]
        except TypeError:
            return self._find_pieces(texts)

    def find_texts(self, texts: Sequence[str]) -> Int32Array:
        """As ``find_all``, fast for many texts. Raises TypeError for what is no text."""
        joined = np.frombuffer(encoded(NAME_SEPARATOR.join(texts) + END), np.uint8)
        if self._short is None:
            self._short = self._table_of_short()
        table = self.texts
        known = (self._short, self.slots, table.blob, table.starts, table.ends)
        found: Int32Array
        found, end = text_hash.find_joined(joined, len(texts), *known)
        return found if end == joined.size - text_hash.SHORT else self._find_pieces(texts)

    def _table_of_short(self) -> UInt64Array:
        table = self.texts
        short: UInt64Array = text_hash.fill_short(self.slots.size, table.blob, table.starts, table.ends)
        return short

    def _find_pieces(self, texts: Sequence[object]) -> Int32Array:
        data, offsets, gap = _pieces(texts)
        table = self.texts
        found: Int32Array = text_hash.find_text_indices(
            data, offsets, gap, self.slots, table.blob, table.starts, table.ends
        )
        return found

    def _search(self, text: object) -> int:
        index = int(self.find_all([text])[0])
        if index >= 0:
            if len(self._known) >= CACHED_TEXTS_MAX:
                self._known.clear()
            self._known[text] = index
        return index


def _slots(texts: Texts) -> Int32Array:
    slots: Int32Array = text_hash.fill_slots(2 << len(texts).bit_length(), texts.blob, texts.starts, texts.ends)
    return slots


def _pieces(texts: Sequence[object]) -> tuple[UInt8Array, Int64Array, int]:
    """The texts as one array, where they begin, and how many bytes lie between two of them.

    Joined by zero bytes, which is fast; one by one where a text holds such a byte, or a value is none.
    """
    data = _joined(texts)
    offsets, pieces = text_hash.piece_offsets(data, len(texts))
    if pieces == len(texts):
        return data, offsets, 1
    parts = [encoded(text) if isinstance(text, str) else NO_TEXT for text in texts]
    lengths = np.fromiter(map(len, parts), np.int64, len(parts))
    return np.frombuffer(b"".join(parts), np.uint8), offsets_from_lengths(lengths), 0


def _joined(texts: Sequence[object]) -> UInt8Array:
    try:
        joined = NAME_SEPARATOR.join(texts) + NAME_SEPARATOR  # type: ignore[arg-type]
    except TypeError:
        joined = ""
    return np.frombuffer(encoded(joined), np.uint8)


class FoldedIndex:
    """Which concepts have a name, names being folded: hashes (e,) uint64, ascending, and owners (e,) int32."""

    def __init__(self, hashes: UInt64Array, owners: Int32Array) -> None:
        self.hashes, self.owners = frozen_array(hashes), frozen_array(owners)

    @classmethod
    def of(cls, named: Iterable[tuple[Texts, Int64Array]], fold: Callable[[str], str]) -> FoldedIndex:
        """Of tables of names, each with (n,) owners; empty names are left out.

        ``fold`` must change each character by itself, since it gets many names at once; zero bytes between them stay.
        """
        hashes, owners = zip(*(_entries(texts, owners, fold) for texts, owners in named), strict=True)
        joined = np.concatenate(hashes)
        order = np.argsort(joined, kind="stable")
        return cls(joined[order], np.concatenate(owners)[order])

    def candidates(self, name: str) -> set[int]:
        """The owners of names with the hash of this folded name: all that have it, and hardly ever another."""
        data = np.frombuffer(encoded(name), np.uint8)
        value = np.uint64(text_hash.text_hash(data, 0, data.size))
        first = int(self.hashes.searchsorted(value))
        last = first
        while last < self.hashes.size and self.hashes[last] == value:
            last += 1
        return set(self.owners[first:last].tolist())


def _entries(texts: Texts, owners: Int64Array, fold: Callable[[str], str]) -> tuple[UInt64Array, Int32Array]:
    there = np.flatnonzero(texts.ends > texts.starts)
    hashes = [_hashes(chunk, fold) for chunk in _chunks(texts.take(there))]
    return np.concatenate([np.empty(0, np.uint64), *hashes]), owners[there].astype(np.int32)


def _chunks(texts: Texts) -> Iterator[list[str]]:
    remaining = iter(texts)
    while chunk := list(islice(remaining, LOOKUP_CHUNK)):
        yield chunk


def _hashes(names: list[str], fold: Callable[[str], str]) -> UInt64Array:
    folded = fold(NAME_SEPARATOR.join(names)).split(NAME_SEPARATOR)
    data, offsets, gap = _pieces(folded if len(folded) == len(names) else list(map(fold, names)))
    hashes: UInt64Array = text_hash.text_hashes(data, offsets, gap)
    return hashes
