"""Lookup of texts: ``TextLookup`` finds exact texts, ``FoldedIndex`` finds texts regardless of spelling.

Both store arrays only, so that they can be mapped from a file. Hashes have 64 bits; a table has open addressing with
linear probing. Texts are slices of an array of UTF-8 bytes, as in ``TextTable``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice

import numpy as np

from stream_masker.core.arrays import frozen_array, offsets_from_lengths
from stream_masker.core.dtypes import Int32Array, Int64Array, UInt8Array, UInt64Array
from stream_masker.core.kernels.jit import int32, kernel
from stream_masker.core.ontology.text_table import CACHED_TEXTS_MAX, TextTable, encoded

LOOKUP_CHUNK = 65_536
TEXT_SEPARATOR = "\0"
FEW_TEXTS = 8
"""The greatest number of texts that are looked up one by one, in the cache."""

INVALID_UTF8 = b"\xff"
"""Replaces values that are not texts. It is not valid UTF-8, so it equals no text of a table."""


@kernel
def text_hash(data: UInt8Array, start: int, end: int) -> np.uint64:
    """FNV-1a of ``data[start:end]``, with its bits mixed so that the low bits can select a slot."""
    value = np.uint64(14695981039346656037)
    for k in range(start, end):
        value = (value ^ np.uint64(data[k])) * np.uint64(1099511628211)
    value = (value ^ (value >> np.uint64(32))) * np.uint64(0xD6E8FEB86659FD93)
    return value ^ (value >> np.uint64(32))


@kernel
def text_hashes(data: UInt8Array, offsets: Int64Array, gap: int) -> UInt64Array:
    """Return (n,) uint64: the hashes of the texts ``data[offsets[i]:offsets[i + 1] - gap]``."""
    hashes = np.empty(offsets.size - 1, np.uint64)
    for i in range(hashes.size):
        hashes[i] = text_hash(data, offsets[i], offsets[i + 1] - gap)
    return hashes


@kernel
def piece_offsets(data: UInt8Array, most: int) -> tuple[Int64Array, int]:
    """Split ``data`` at zero bytes: (most + 1,) int64 offsets of at most ``most`` pieces, and their total number."""
    offsets = np.zeros(most + 1, np.int64)
    pieces = 0
    for k in range(data.size):
        if data[k] == 0:
            pieces += 1
            if pieces <= most:
                offsets[pieces] = k + 1
    return offsets, pieces


@kernel
def fill_slots(size: int, data: UInt8Array, starts: Int64Array, ends: Int64Array) -> Int32Array:
    """Return (size,) int32: the index of the text in each slot, -1 for an empty slot. ``size``: a power of two
    above n."""
    slots = np.full(size, -1, np.int32)
    mask = np.uint64(size - 1)
    for i in range(starts.size):
        slot = text_hash(data, starts[i], ends[i]) & mask
        while slots[slot] >= 0:
            slot = (slot + np.uint64(1)) & mask
        slots[slot] = i
    return slots


@kernel
def same_text(data: UInt8Array, start: int, end: int, other: UInt8Array, first: int, last: int) -> bool:
    """Return whether ``data[start:end]`` and ``other[first:last]`` are equal."""
    if end - start != last - first:
        return False
    same = True
    for k in range(end - start):
        same &= data[start + k] == other[first + k]
    return same


@kernel
def find_text(
    wanted: UInt8Array, first: int, last: int, slots: Int32Array, data: UInt8Array, starts: Int64Array, ends: Int64Array
) -> int:
    """Return the index of the text that equals ``wanted[first:last]``, or -1."""
    mask = np.uint64(slots.size - 1)
    slot = text_hash(wanted, first, last) & mask
    while slots[slot] >= 0:
        index = slots[slot]
        if same_text(wanted, first, last, data, starts[index], ends[index]):
            return index
        slot = (slot + np.uint64(1)) & mask
    return int32(-1)


@kernel
def find_text_indices(
    wanted: UInt8Array,
    offsets: Int64Array,
    gap: int,
    slots: Int32Array,
    data: UInt8Array,
    starts: Int64Array,
    ends: Int64Array,
) -> Int32Array:
    """Return (k,) int32: the index of each of k texts ``wanted[offsets[i]:offsets[i + 1] - gap]``, or -1."""
    indices = np.empty(offsets.size - 1, np.int32)
    for i in range(indices.size):
        indices[i] = find_text(wanted, offsets[i], offsets[i + 1] - gap, slots, data, starts, ends)
    return indices


class TextLookup:
    """A hash table that finds the index of a text in a table of distinct texts.

    Found indices of single texts are cached, at most ``CACHED_TEXTS_MAX`` of them.
    """

    def __init__(self, texts: TextTable, slots: Int32Array | None = None) -> None:
        """``slots``: (s,) int32, those of another ``TextLookup`` over equal texts; computed if None."""
        self.texts = texts
        self.slots = frozen_array(_slots(texts) if slots is None else slots)
        self._cache: dict[object, int] = {}

    def find(self, text: object) -> int:
        """Return the index of a text, or -1."""
        index = self._cache.get(text)
        return self._search(text) if index is None else index

    def find_all(self, texts: Sequence[object]) -> Int32Array:
        """Return (n,) int32: the index of each text, or -1."""
        try:
            return self.find_texts(texts)  # type: ignore[arg-type]
        except TypeError:
            return self._find(*_concatenated(texts))

    def find_texts(self, texts: Sequence[str]) -> Int32Array:
        """Return the same as ``find_all``. Raises TypeError if a value is not a text."""
        joined = TEXT_SEPARATOR.join(texts)
        if len(texts) <= FEW_TEXTS:
            return np.array([self.find(text) for text in texts], np.int32)
        return self._find(*_split(joined, texts))

    def _find(self, data: UInt8Array, offsets: Int64Array, gap: int) -> Int32Array:
        table = self.texts
        return find_text_indices(data, offsets, gap, self.slots, table.blob, table.starts, table.ends)

    def _search(self, text: object) -> int:
        index = int(self._find(*_concatenated([text]))[0])
        if index >= 0:
            if len(self._cache) >= CACHED_TEXTS_MAX:
                self._cache.clear()
            self._cache[text] = index
        return index


def _slots(texts: TextTable) -> Int32Array:
    slots: Int32Array = fill_slots(2 << len(texts).bit_length(), texts.blob, texts.starts, texts.ends)
    return slots


def _concatenated(texts: Sequence[object]) -> tuple[UInt8Array, Int64Array, int]:
    """Return the bytes of all texts, the offset of each, and the number of bytes between two texts."""
    try:
        return _split(TEXT_SEPARATOR.join(texts), texts)  # type: ignore[arg-type]
    except TypeError:
        return _split("", texts)


def _split(joined: str, texts: Sequence[object]) -> tuple[UInt8Array, Int64Array, int]:
    """Return ``_concatenated`` of texts; ``joined``: with zero bytes between them, which is fast.

    If a text contains a zero byte, or a value is not a text, they are encoded one by one, without a gap.
    """
    data = np.frombuffer(encoded(joined + TEXT_SEPARATOR), np.uint8)
    offsets, pieces = piece_offsets(data, len(texts))
    if pieces == len(texts) and joined:
        return data, offsets, 1
    parts = [encoded(text) if isinstance(text, str) else INVALID_UTF8 for text in texts]
    lengths = np.fromiter(map(len, parts), np.int64, len(parts))
    return np.frombuffer(b"".join(parts), np.uint8), offsets_from_lengths(lengths), 0


class FoldedIndex:
    """An index from folded texts to the integers that own them (positions of concepts).

    hashes: (e,) uint64, ascending, of the folded texts; owners: (e,) int32. A text may have several owners.
    """

    def __init__(self, hashes: UInt64Array, owners: Int32Array) -> None:
        self.hashes, self.owners = frozen_array(hashes), frozen_array(owners)

    @classmethod
    def of(cls, tables: Iterable[tuple[TextTable, Int64Array]], fold: Callable[[str], str]) -> FoldedIndex:
        """Index tables of n texts, each with (n,) owners. Empty texts are not indexed.

        ``fold`` is called with many texts at once, separated by zero bytes. So it must convert each character
        independently of its neighbours, and must not change zero bytes.
        """
        hashes, owners = zip(*(_entries(texts, owners, fold) for texts, owners in tables), strict=True)
        joined = np.concatenate(hashes)
        order = np.argsort(joined, kind="stable")
        return cls(joined[order], np.concatenate(owners)[order])

    def candidates(self, texts: Sequence[str], fold: Callable[[str], str]) -> list[list[int]]:
        """Return, for each text, the owners of every entry with the hash of the folded text; ``fold``: see ``of``.

        All owners of the folded text are among them. Others are rare: those of a text with the same 64-bit hash.
        """
        if not self.hashes.size:
            return [[]] * len(texts)
        owners: list[list[int]] = [[]] * len(texts)
        hashes = _hashes(texts, fold)
        firsts = self.hashes.searchsorted(hashes)
        hits = np.flatnonzero(self.hashes.take(firsts, mode="clip") == hashes)
        ends = self.hashes.searchsorted(hashes[hits], side="right")
        for k, first, end in zip(hits.tolist(), firsts[hits].tolist(), ends.tolist(), strict=True):
            owners[k] = self.owners[first:end].tolist()
        return owners


def _entries(texts: TextTable, owners: Int64Array, fold: Callable[[str], str]) -> tuple[UInt64Array, Int32Array]:
    kept = np.flatnonzero(texts.ends > texts.starts)
    hashes = [_hashes(chunk, fold) for chunk in _chunks(texts.take(kept))]
    return np.concatenate([np.empty(0, np.uint64), *hashes]), owners[kept].astype(np.int32)


def _chunks(texts: TextTable) -> Iterator[list[str]]:
    remaining = iter(texts)
    while chunk := list(islice(remaining, LOOKUP_CHUNK)):
        yield chunk


def _hashes(texts: Sequence[str], fold: Callable[[str], str]) -> UInt64Array:
    folded = fold(TEXT_SEPARATOR.join(texts)).split(TEXT_SEPARATOR)
    data, offsets, gap = _concatenated(folded if len(folded) == len(texts) else list(map(fold, texts)))
    hashes: UInt64Array = text_hashes(data, offsets, gap)
    return hashes
