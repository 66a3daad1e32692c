"""The arrays that the scanner writes while it reads a batch; each batch has its own."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from stream_masker.core.dtypes import Float64Matrix, Int64Array, Int64Matrix, UInt8Array, UInt64Array
from stream_masker.pipeline.codec.roles import COUNTED_ROLE
from stream_masker.pipeline.codec.scanner.program import NULLS_DROPPED, Program

DECODED, UNDECIDED, NO_ROOM = 1, 2, 3
"""The outcomes of scanning a record: it is decoded; it is left to the reference codec; a table or buffer is full."""

OUT_BYTES, PLACEHOLDER_COUNT, CONTAINER_COUNT, DECODED_COUNT, FIRST_VALUE_COUNT = range(5)
"""Counters: bytes written, placeholders, objects and lists found, decoded records; and from FIRST_VALUE_COUNT on, the
number of values of each nominal attribute."""

LAST_FOUND, CODE_COUNT, ELEMENT_COUNT, COMPANION_COUNT, LIST_FOUND = range(5)
"""Rows of ``ScanBuffers.progress``."""

LIST_SEEN, CURRENT_ELEMENT = range(2)
"""Rows of ``ScanBuffers.role_progress``."""

(
    FRAME_STATE,
    FRAME_IS_LIST,
    FRAME_IS_DROPPED,
    FRAME_HAS_OUTPUT,
    FRAME_LAST_ITEM,
    FRAME_PENDING_NULLS,
    FRAME_NUMBER,
) = range(7)
"""Columns of ``ScanBuffers.stack``."""

FRAME_FIELDS: Final = 8
"""The number of columns of the stack; one is unused, so that a row is as large as a cache line."""

LEAST_KEY_SLOTS: Final = 64
PLACEHOLDERS_EACH: Final = 16
NULL_GROWTH: Final = 3
"""The maximum number of bytes written for each byte read if null replaces dropped elements; otherwise it is 1."""

SLACK: Final = 64

NO_KIND: Final = -1
"""In place of the kind of a counted field that a record does not have."""

INPUT_SHIFT: Final = 44
PSEUDONYM_KIND, FIRST_TRANSFORM_KIND, REWRITTEN_KIND = 0, 1, 1 << 16
"""A placeholder for a slice of the input has the use ``-1 - start - (kind << INPUT_SHIFT)``. Kinds: a text to
pseudonymize; a value to transform, FIRST_TRANSFORM_KIND + the number of the transform; or a number that the encoder
writes in another way."""


class ScanBuffers(NamedTuple):
    """All arrays of a batch.

    Of all decoded records together: ``out``, the bytes of their JSON without the placeholders' texts. Of each
    placeholder: ``placeholder_starts``, its index in ``out``; ``placeholder_uses``, what it stands for
    (``codec.attributes``), negative for a slice of the input (``INPUT_SHIFT``); ``placeholder_sizes``, the size of that
    slice in bytes, undefined for others.

    Of each decoded record: ``ends``, of its bytes and its placeholders, after a leading row of zeros; ``key_starts``
    and ``key_sizes``, its noise key in the input, -1 for none; ``alphas``, the bits of a float, 0 for none;
    ``kinds``, by counted field, its kind, NO_KIND for a field that is not there;
    ``lengths``, the number of values of each nominal attribute; ``numbers``, by numeric attribute, NaN for none.
    ``values``: of each nominal attribute.

    Of the record that is being scanned: ``stack``, by depth from 1 on, the containers that are not closed yet:
    FRAME_STATE; FRAME_IS_LIST; FRAME_IS_DROPPED, whether nothing of it is written; FRAME_HAS_OUTPUT, whether an item is
    written; FRAME_LAST_ITEM, the position of the last item, -1 before the first; FRAME_PENDING_NULLS, the number of
    dropped elements whose nulls are not written yet; FRAME_NUMBER, as counted by CONTAINER_COUNT. ``keys`` and
    ``key_owners``: a table of the keys that its objects have (``is_new_key``). ``progress``, by attribute: LAST_FOUND,
    1 + the element in which a code was found last; CODE_COUNT; ELEMENT_COUNT, of its list; COMPANION_COUNT, of elements
    with labels and copies; LIST_FOUND, whether its list is there. ``role_progress``, by role: LIST_SEEN, whether its
    list was found; CURRENT_ELEMENT.

    ``counters``: OUT_BYTES and so on.
    """

    out: UInt8Array
    placeholder_starts: Int64Array
    placeholder_uses: Int64Array
    placeholder_sizes: Int64Array
    ends: Int64Matrix
    key_starts: Int64Array
    key_sizes: Int64Array
    alphas: Int64Array
    kinds: Int64Matrix
    lengths: Int64Matrix
    values: Int64Matrix
    numbers: Float64Matrix
    stack: Int64Matrix
    keys: UInt64Array
    key_owners: Int64Array
    progress: Int64Matrix
    role_progress: Int64Matrix
    counters: Int64Array

    @property
    def decoded(self) -> int:
        return int(self.counters[DECODED_COUNT])

    @property
    def placeholders(self) -> int:
        return int(self.counters[PLACEHOLDER_COUNT])

    @property
    def value_counts(self) -> Int64Array:
        """The number of values of each nominal attribute."""
        return self.counters[FIRST_VALUE_COUNT:]


def slices_of(uses: Int64Array) -> tuple[Int64Array, Int64Array]:
    """Return the kinds of placeholders, negative for those that stand for no slice of the input, and the starts of
    their slices, each (g,) int64. uses: (g,)."""
    slices = -1 - uses
    return slices >> INPUT_SHIFT, slices & ((1 << INPUT_SHIFT) - 1)


def transformed_places(kinds: Int64Array) -> Int64Array:
    """Return the placeholders of transformed values."""
    return np.flatnonzero((kinds >= FIRST_TRANSFORM_KIND) & (kinds < REWRITTEN_KIND))


def buffers_for(program: Program, records: int, size: int, largest: int, depth: int) -> ScanBuffers:
    """Return buffers for records of ``size`` bytes in total; ``largest``: the bytes of the largest record."""
    attributes, nominal, room = (
        len(program.keeps_missing),
        len(program.is_array),
        PLACEHOLDERS_EACH * records + largest // 2 + SLACK,
    )
    key_slots = max(LEAST_KEY_SLOTS, 1 << (largest // 2).bit_length())
    longs = {name: np.empty(room, np.int64) for name in ("placeholder_starts", "placeholder_uses", "placeholder_sizes")}
    each = {name: np.empty(records, np.int64) for name in ("key_starts", "key_sizes", "alphas")}
    return ScanBuffers(
        out=np.empty(growth_of(program) * size + SLACK, np.uint8),
        **longs,
        **each,
        kinds=np.empty((int((program.role_kinds == COUNTED_ROLE).sum()), records), np.int64),
        ends=np.zeros((records + 1, 2), np.int64),
        lengths=np.zeros((nominal, records), np.int64),
        values=np.empty((nominal, room), np.int64),
        numbers=np.empty((attributes - nominal, records), np.float64),
        stack=np.empty((depth + 2, FRAME_FIELDS), np.int64),
        keys=np.empty(key_slots, np.uint64),
        key_owners=np.zeros(key_slots, np.int64),
        progress=np.zeros((5, attributes), np.int64),
        role_progress=np.zeros((2, len(program.role_kinds)), np.int64),
        counters=np.zeros(FIRST_VALUE_COUNT + nominal, np.int64),
    )


def growth_of(program: Program) -> int:
    """Return the maximum number of bytes that are written for each byte read."""
    return NULL_GROWTH if program.states[:, NULLS_DROPPED].any() else 1


def buffers_have_room(buffers: ScanBuffers, size: int) -> bool:
    """Return whether there is room for the placeholders and values of any record of ``size`` bytes."""
    used = max(buffers.placeholders, *buffers.value_counts)
    return bool(used + size // 2 + 1 <= len(buffers.placeholder_starts))


def grown_buffers(buffers: ScanBuffers) -> ScanBuffers:
    """Return the buffers with twice the room for placeholders and values."""
    return buffers._replace(
        placeholder_starts=_doubled(buffers.placeholder_starts),
        placeholder_uses=_doubled(buffers.placeholder_uses),
        placeholder_sizes=_doubled(buffers.placeholder_sizes),
        values=np.concatenate([buffers.values, np.empty_like(buffers.values)], axis=1),
    )


def _doubled(values: Int64Array) -> Int64Array:
    return np.concatenate([values, np.empty_like(values)])
