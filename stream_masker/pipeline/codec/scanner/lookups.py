"""Hash tables of the scanner: the names of members, the keys of the objects of a record, and interned texts.

The table of interned texts has values by text. The scanner looks them up, and Python adds new ones.
"""

from __future__ import annotations

import logging
import struct
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

import numpy as np
import orjson

from stream_masker.core.dtypes import Int64Array, Int64Matrix, UInt8Array, UInt64Array
from stream_masker.core.kernels.jit import inlined, int64
from stream_masker.pipeline.codec.attributes import AttributeCodec
from stream_masker.pipeline.codec.numbers import parse_alpha
from stream_masker.pipeline.codec.scanner.buffers import ScanBuffers
from stream_masker.pipeline.codec.scanner.program import (
    NAME_OWNER,
    NAME_SIZE,
    NAME_START,
    NAME_STATE,
    OTHER_MEMBER,
    Program,
)
from stream_masker.pipeline.codec.scanner.text_hash import HashKey, random_key, scan_text_hash, slot_of
from stream_masker.pipeline.codec.scanner.tokens import (
    PADDING,
    first_word,
    same_bytes,
)
from stream_masker.pipeline.plan import MIN_RECORD_ALPHA, CountedField
from stream_masker.pipeline.reasons import RecordRejectedError

REFUSED: Final = -(1 << 60)
"""The value of a text that leaves the record undecided."""

TABLE_FULL: Final = -(1 << 61)
"""The result for a new text for which there is no room."""

DEFERRED: Final = -(1 << 40)
"""``DEFERRED - k`` stands for the value of number k of the new texts, which is not yet known."""

MAX_TEXT_BYTES: Final = 256
SIZE_BITS: Final = 16
MAX_PROBES: Final = 64

TEXT_COUNT, USED_BYTES, NEW_TEXTS = range(3)
"""Counters of ``InternArrays``: texts, their bytes, and texts that have no value yet."""

TEXT_WORD, TEXT_OWNER, TEXT_START, TEXT_VALUE = range(4)
"""Columns of ``InternArrays.rows``."""


class InternArrays(NamedTuple):
    """An open hash table of texts with their values. The owner of a text is what it is read for
    (``scanner.extraction``).

    ``rows``, by slot: TEXT_WORD, the first eight bytes of the text; TEXT_OWNER, ``owner << SIZE_BITS | size``, -1 for
    an empty slot; TEXT_START, in ``texts``; TEXT_VALUE. ``new``: the slots of the texts that have no value yet;
    ``counters``: TEXT_COUNT and so on; ``hash_key``: the key of the hashes.
    """

    rows: Int64Matrix
    texts: UInt8Array
    new: Int64Array
    counters: Int64Array
    hash_key: HashKey


def no_texts(slots: int, size: int, new: int, key: HashKey) -> InternArrays:
    """Return an empty table with room for ``slots`` rows (a power of two), ``size`` bytes, and ``new`` texts without
    value."""
    rows, counters = np.full((slots, 4), -1, np.int64), np.zeros(3, np.int64)
    return InternArrays(rows, np.zeros(size + PADDING, np.uint8), np.zeros(new, np.int64), counters, key)


@inlined
def member_state(program: Program, state: int, name_hash: np.uint64, data: UInt8Array, start: int, size: int) -> int:
    """Return the state of an object's member, or -1 - state if the field policy does not name it.

    name_hash: the hash of its name, which is ``size`` bytes from ``start`` on.
    """
    last_slot = program.name_hashes.size - 1
    slot = (int64(name_hash) ^ state) & last_slot
    names = program.names
    while names[slot, NAME_OWNER] >= 0:
        if (
            program.name_hashes[slot] == name_hash
            and names[slot, NAME_OWNER] == state
            and names[slot, NAME_SIZE] == size
            and same_bytes(data, start, program.texts, names[slot, NAME_START], size)
        ):
            return names[slot, NAME_STATE]
        slot = (slot + 1) & last_slot
    return -1 - program.states[state, OTHER_MEMBER]


@inlined
def is_new_key(
    keys: UInt64Array, owners: Int64Array, last_slot: int, key_hash: np.uint64, owner: int, record: int
) -> bool:
    """Add a key to those of an object. Return False if the object has a key with the same hash, or if the table is
    full.

    owner: the number of the object. Objects are numbered in ascending order, those of the current record from
    ``record`` on; slots with lower numbers count as empty. last_slot: the last slot in use. The slot depends on the
    object too: all elements of a list may have the same keys.
    """
    slot = slot_of(key_hash + np.uint64(owner), last_slot)
    for _ in range(MAX_PROBES):
        if owners[slot] < record:
            keys[slot] = key_hash
            owners[slot] = owner
            return True
        if owners[slot] == owner and keys[slot] == key_hash:
            return False
        slot = (slot + 1) & last_slot
    return False


@inlined
def interned_value(interned: InternArrays, owner: int, data: UInt8Array, start: int, size: int) -> int:
    """Return the value of a text, REFUSED, or TABLE_FULL. A new text is added with the value DEFERRED - k."""
    if size > MAX_TEXT_BYTES:
        return REFUSED
    owner_and_size, word = owner << SIZE_BITS | size, int64(first_word(data, start, size))
    text_hash = scan_text_hash(data, start, size, interned.hash_key) + np.uint64(owner)
    rows, last_slot = interned.rows, interned.rows.shape[0] - 1
    slot = slot_of(text_hash, last_slot)
    for _ in range(MAX_PROBES):
        if rows[slot, TEXT_OWNER] == owner_and_size and rows[slot, TEXT_WORD] == word:
            if size <= 8 or same_bytes(data, start, interned.texts, rows[slot, TEXT_START], size):
                return rows[slot, TEXT_VALUE]
        elif rows[slot, TEXT_OWNER] < 0:
            return intern_text(interned, slot, word, owner_and_size, data, start, size)
        slot = (slot + 1) & last_slot
    return TABLE_FULL


@inlined
def intern_text(
    interned: InternArrays, slot: int, word: int, owner_and_size: int, data: UInt8Array, start: int, size: int
) -> int:
    """Add a new text in an empty slot. Return its value, which is DEFERRED - k, or TABLE_FULL."""
    count, used, new = interned.counters[TEXT_COUNT], interned.counters[USED_BYTES], interned.counters[NEW_TEXTS]
    room = interned.texts.size - PADDING
    if 2 * count >= interned.rows.shape[0] or used + size > room or new >= interned.new.size:
        return TABLE_FULL
    for k in range(size):
        interned.texts[used + k] = data[start + k]
    interned.rows[slot, TEXT_WORD], interned.rows[slot, TEXT_OWNER] = word, owner_and_size
    interned.rows[slot, TEXT_START], interned.rows[slot, TEXT_VALUE] = used, DEFERRED - new
    interned.new[new] = slot
    interned.counters[TEXT_COUNT] = count + 1
    interned.counters[USED_BYTES] = used + size
    interned.counters[NEW_TEXTS] = new + 1
    return DEFERRED - new


INTERN_FIRST_SLOTS: Final = 1 << 12
INTERN_MAX_SLOTS: Final = 1 << 19
INTERN_BYTES_EACH: Final = 32
TEXTS_TOGETHER: Final = 4096
"""The most texts that are looked up in one call: far fewer than a ``ConceptMap`` caches."""

_log = logging.getLogger(__name__)


class InternTable:
    """The values of texts that have occurred before: codes, alphas and counted fields.

    An owner is what a text is read for (``scanner.extraction``). The table is bounded: when it is full, it is emptied.
    """

    def __init__(
        self,
        attributes: Sequence[AttributeCodec],
        least_alpha: float = MIN_RECORD_ALPHA,
        counted: Sequence[CountedField] = (),
    ) -> None:
        """``least_alpha``: the minimum of a record's own alpha; ``counted``: the counted fields."""
        self._readers: list[Callable[[str], int]] = [
            *(attribute.value for attribute in attributes),
            lambda text: _bits(parse_alpha(orjson.loads(text), least=least_alpha)),
            lambda text: _bits(parse_alpha(text, least=least_alpha)),
            *(read for field in counted for read in (_kind_of_number(field), field.kind_of)),
        ]
        self.table = _empty(INTERN_FIRST_SLOTS)

    def resolve(self, buffers: ScanBuffers) -> bool:
        """Look up the new texts of a batch, and put their values into the buffers. Return False if one is refused."""
        count = int(self.table.counters[NEW_TEXTS])
        if not count:
            return True
        slots = self.table.new[:count]
        parts = [self._values(slots[k : k + TEXTS_TOGETHER]) for k in range(0, count, TEXTS_TOGETHER)]
        values = np.concatenate(parts)
        self.table.rows[slots, TEXT_VALUE] = values
        self.table.counters[NEW_TEXTS] = 0
        _fill_in(buffers, values)
        return not (values == REFUSED).any()

    def make_room(self) -> None:
        """Make room for more texts. All texts must have been resolved."""
        slots, counters = len(self.table.rows), self.table.counters
        if slots >= INTERN_MAX_SLOTS:
            self.table = _empty(INTERN_FIRST_SLOTS)
        elif counters[TEXT_COUNT] * 4 > slots or counters[USED_BYTES] * 2 > self.table.texts.size:
            self.table = _empty(2 * slots)

    def _values(self, slots: Int64Array) -> Int64Array:
        """Return the values of new texts."""
        owners, texts = self._texts(slots)
        return np.fromiter(map(self._value, owners, texts), np.int64, len(texts))

    def _texts(self, slots: Int64Array) -> tuple[list[int], list[bytes]]:
        """Return the owners and the bytes of texts."""
        rows = self.table.rows[slots]
        starts, (owners, sizes) = rows[:, TEXT_START], np.divmod(rows[:, TEXT_OWNER], 1 << SIZE_BITS)
        data, ends = self.table.texts.data, starts + sizes
        return owners.tolist(), [bytes(data[s:e]) for s, e in zip(starts.tolist(), ends.tolist(), strict=True)]

    def _value(self, owner: int, text: bytes) -> int:
        try:
            return self._readers[owner](text.decode())
        except RecordRejectedError:
            return REFUSED
        except Exception as error:  # noqa: BLE001
            _log.debug("reading a text failed (%s)", type(error).__name__)
            return REFUSED


def _empty(slots: int) -> InternArrays:
    return no_texts(slots, slots * INTERN_BYTES_EACH, slots // 2, random_key())


def _kind_of_number(field: CountedField) -> Callable[[str], int]:
    return lambda text: field.kind_of(orjson.loads(text))


def _bits(alpha: float) -> int:
    """Return the bits of a float as an integer."""
    return int(struct.unpack("<q", struct.pack("<d", alpha))[0])


def _fill_in(buffers: ScanBuffers, resolved: Int64Array) -> None:
    """Replace deferred values by the resolved ones."""
    for values, count in zip(buffers.values, buffers.value_counts, strict=True):
        _replace(values[:count], resolved)
    _replace(buffers.alphas[: buffers.decoded], resolved)
    for kinds in buffers.kinds:
        _replace(kinds[: buffers.decoded], resolved)


def _replace(values: Int64Array, resolved: Int64Array) -> None:
    deferred = np.flatnonzero((values <= DEFERRED) & (values > REFUSED))
    values[deferred] = resolved[DEFERRED - values[deferred]]
