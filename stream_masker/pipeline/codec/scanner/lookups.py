"""Hash tables of the scanner: members' names, keys that an object has had, and texts that were understood before."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from stream_masker.core.dtypes import Int64Array, Int64Matrix, UInt8Array, UInt64Array
from stream_masker.core.kernels.jit import inlined, int64
from stream_masker.pipeline.codec.scanner.program import OTHERS, OWNER, SEED, SIZE, STATE, Program
from stream_masker.pipeline.codec.scanner.program import START as NAME_START
from stream_masker.pipeline.codec.scanner.tokens import (
    HASH_ROTATION,
    PADDING,
    PRIME,
    first_word,
    same_bytes,
    scan_text_hash,
)

REFUSED: Final = -(1 << 60)
"""What a text stands for that the record is to be left to others for."""

FULL: Final = -(1 << 61)
"""There is no room for another text."""

DEFERRED: Final = -(1 << 40)
"""Not yet known: ``DEFERRED - k`` is what number k of the unknown texts stands for."""

LONGEST_TEXT: Final = 256
SIZE_BITS: Final = 16
MOST_PROBES: Final = 64

USED: Final = 0
BYTES: Final = 1
UNKNOWN_TEXT: Final = 2
"""Counters of ``InternArrays``: texts, their bytes, and those of them that nobody has told the meaning of."""


WORD, WHOSE, START, VALUE = range(4)
"""Columns of ``InternArrays.rows``."""


class InternArrays(NamedTuple):
    """An open hash table of texts by owner (what they are read for), and what each stands for.

    ``rows``, of each slot: WORD, the text's first eight bytes; WHOSE (``owner << SIZE_BITS | size``, -1: empty); START,
    where all of it stands in ``texts``; VALUE. ``unknown``: the slots of the texts that came first since Python looked;
    ``counters``: (3,); ``seed``: what hashes start from.
    """

    rows: Int64Matrix
    texts: UInt8Array
    unknown: Int64Array
    counters: Int64Array
    seed: np.uint64


def no_texts(slots: int, size: int, unknown: int) -> InternArrays:
    """An empty table of so many slots (a power of two), bytes of texts, and unknown texts."""
    rows, counters = np.full((slots, 4), -1, np.int64), np.zeros(3, np.int64)
    return InternArrays(rows, np.zeros(size + PADDING, np.uint8), np.zeros(unknown, np.int64), counters, SEED)


@inlined
def state_of_name(program: Program, state: int, found: np.uint64, data: UInt8Array, start: int, size: int) -> int:
    """The state of an object's member; ``found``: its name's hash."""
    most = program.name_hashes.size - 1
    slot = (int64(found) ^ state) & most
    names = program.names
    while names[slot, OWNER] >= 0:
        if (
            program.name_hashes[slot] == found
            and names[slot, OWNER] == state
            and names[slot, SIZE] == size
            and same_bytes(data, start, program.texts, names[slot, NAME_START], size)
        ):
            return names[slot, STATE]
        slot = (slot + 1) & most
    return program.states[state, OTHERS]


@inlined
def is_new(keys: UInt64Array, owners: Int64Array, most: int, found: np.uint64, owner: int, record: int) -> bool:
    """Notes a key of an object; False where that object had it, or one that looks so.

    Objects have ascending numbers, those of this record from ``record`` on; slots of earlier ones count as empty.
    """
    slot = int64((found ^ (found >> HASH_ROTATION)) * PRIME >> np.uint64(20)) & most
    for _ in range(MOST_PROBES):
        if owners[slot] < record:
            keys[slot] = found
            owners[slot] = owner
            return True
        if owners[slot] == owner and keys[slot] == found:
            return False
        slot = (slot + 1) & most
    return False


@inlined
def interned_value(known: InternArrays, owner: int, data: UInt8Array, start: int, size: int) -> int:
    """What a text stands for: a value, REFUSED, DEFERRED - k, or FULL. An unknown text is noted as such."""
    if size > LONGEST_TEXT:
        return REFUSED
    whose, word = owner << SIZE_BITS | size, int64(first_word(data, start, size))
    found = scan_text_hash(data, start, size, known.seed) ^ (np.uint64(owner) * PRIME)
    rows, most = known.rows, known.rows.shape[0] - 1
    slot = int64((found ^ (found >> HASH_ROTATION)) * PRIME >> np.uint64(20)) & most
    for _ in range(MOST_PROBES):
        if rows[slot, WHOSE] == whose and rows[slot, WORD] == word:
            if size <= 8 or same_bytes(data, start, known.texts, rows[slot, START], size):
                return rows[slot, VALUE]
        elif rows[slot, WHOSE] < 0:
            return noted(known, slot, word, whose, data, start, size)
        slot = (slot + 1) & most
    return FULL


@inlined
def noted(known: InternArrays, slot: int, word: int, whose: int, data: UInt8Array, start: int, size: int) -> int:
    """Notes an unknown text in an empty slot."""
    used, filled, unknown = known.counters[USED], known.counters[BYTES], known.counters[UNKNOWN_TEXT]
    room = known.texts.size - PADDING
    if 2 * used >= known.rows.shape[0] or filled + size > room or unknown >= known.unknown.size:
        return FULL
    for k in range(size):
        known.texts[filled + k] = data[start + k]
    known.rows[slot, WORD], known.rows[slot, WHOSE] = word, whose
    known.rows[slot, START], known.rows[slot, VALUE] = filled, DEFERRED - unknown
    known.unknown[unknown] = slot
    known.counters[USED] = used + 1
    known.counters[BYTES] = filled + size
    known.counters[UNKNOWN_TEXT] = unknown + 1
    return DEFERRED - unknown
