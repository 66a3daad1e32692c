"""What a scanner writes while it goes through a batch: arrays made for that batch."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from stream_masker.core.dtypes import Float64Matrix, Int64Array, Int64Matrix, UInt8Array, UInt64Array
from stream_masker.pipeline.codec.scanner.program import HELD, Program

TAKEN, LEFT, STOPPED = 1, 2, 3
"""What became of a record: taken; left to others; not taken for want of room."""

OUT, GAPS, CONTAINERS, DONE, VALUES = range(5)
"""Counters: bytes written, gaps, objects met, records taken, and from VALUES on each attribute's values."""

FRAME: Final = 8
MAX_NAMES: Final = 1 << 14
PLACEHOLDERS_EACH: Final = 16
GROWTH: Final = 3
"""The most bytes that are written for one that is read where null holds the place of dropped elements; else one."""

SLACK: Final = 64


class ScanBuffers(NamedTuple):
    """The arrays. Of all records taken: ``out``, their JSON without what stands in gaps; of each gap: ``gap_places``
    in ``out``; ``gap_uses``, as ``pipeline.codec.attributes`` writes a gap down, or -1 - start of a text to
    pseudonymize;
    ``gap_sizes``, that text's size, else 0 or 1 + number of the unknown text that the gap's style is to be read from.

    Of each record taken: ``ends`` of its bytes and its gaps; ``key_starts`` and ``key_sizes`` of its noise key;
    ``alphas`` (bits of a float; 0: none); ``lengths`` of its arrays, by attribute; ``numbers``, NaN for none,
    by numeric attribute. ``values``: by attribute.
    Of the record being read: ``stack``; ``keys`` and ``owners`` (``lookups.is_new``). ``attributes``, by attribute:
    FOUND (1 + number of the element whose code was found last), CODES (how many), SIZES (elements), ASIDES (elements
    that labels and copies speak of), LISTED (whether its list is there). ``roles``, by role: SEEN (whether its list
    was), ELEMENTS (the element that is being read).
    """

    out: UInt8Array
    gap_places: Int64Array
    gap_uses: Int64Array
    gap_sizes: Int64Array
    ends: Int64Matrix
    key_starts: Int64Array
    key_sizes: Int64Array
    alphas: Int64Array
    lengths: Int64Matrix
    values: Int64Matrix
    numbers: Float64Matrix
    stack: Int64Matrix
    keys: UInt64Array
    owners: Int64Array
    attributes: Int64Matrix
    roles: Int64Matrix
    counters: Int64Array


FOUND, CODES, SIZES, ASIDES, LISTED = range(5)
SEEN, ELEMENTS = range(2)


def buffers_for(program: Program, records: int, size: int, largest: int, depth: int) -> ScanBuffers:
    """Arrays for so many records with so many bytes in all, the largest of them so large."""
    total, nominal, gaps = (
        len(program.kept_missing),
        len(program.arrays),
        PLACEHOLDERS_EACH * records + largest // 2 + SLACK,
    )
    longs = {name: np.empty(gaps, np.int64) for name in ("gap_places", "gap_uses", "gap_sizes")}
    each = {name: np.empty(records, np.int64) for name in ("key_starts", "key_sizes", "alphas")}
    return ScanBuffers(
        out=np.empty(growth_of(program) * size + SLACK, np.uint8),
        **longs,
        **each,
        ends=np.zeros((records + 1, 2), np.int64),
        lengths=np.zeros((nominal, records), np.int64),
        values=np.empty((nominal, gaps), np.int64),
        numbers=np.empty((total - nominal, records), np.float64),
        stack=np.empty((depth + 2, FRAME), np.int64),
        keys=np.empty(MAX_NAMES, np.uint64),
        owners=np.zeros(MAX_NAMES, np.int64),
        attributes=np.zeros((5, total), np.int64),
        roles=np.zeros((2, len(program.role_kinds)), np.int64),
        counters=np.zeros(VALUES + nominal, np.int64),
    )


def growth_of(program: Program) -> int:
    """The most bytes that a program writes for one that it reads."""
    return GROWTH if program.states[:, HELD].any() else 1


def buffers_have_room(work: ScanBuffers, size: int) -> bool:
    """Whether there is room for what may come of a record of so many bytes."""
    used = max(work.counters[GAPS], *work.counters[VALUES:])
    return bool(used + size // 2 + 1 <= len(work.gap_places))


def grown_buffers(work: ScanBuffers) -> ScanBuffers:
    """The same, with twice the room for gaps and values."""
    return work._replace(
        gap_places=_doubled(work.gap_places),
        gap_uses=_doubled(work.gap_uses),
        gap_sizes=_doubled(work.gap_sizes),
        values=np.concatenate([work.values, np.empty_like(work.values)], axis=1),
    )


def _doubled(values: Int64Array) -> Int64Array:
    return np.concatenate([values, np.empty_like(values)])
