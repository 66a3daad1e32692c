"""The items of a container: its members or its elements, with the bytes before their values; and filters."""

from __future__ import annotations

from typing import Final, NamedTuple

from stream_masker.core.dtypes import UInt8Array
from stream_masker.core.kernels.jit import inlined, int64
from stream_masker.pipeline.codec.scanner.buffers import (
    FRAME_HAS_OUTPUT,
    FRAME_IS_LIST,
    FRAME_LAST_ITEM,
    FRAME_NUMBER,
    FRAME_PENDING_NULLS,
    FRAME_STATE,
    INPUT_SHIFT,
    PLACEHOLDER_COUNT,
    PSEUDONYM_KIND,
    ScanBuffers,
)
from stream_masker.pipeline.codec.scanner.extraction import enter_element
from stream_masker.pipeline.codec.scanner.lookups import is_new_key, member_state
from stream_masker.pipeline.codec.scanner.program import (
    FILTER_COUNT,
    FIRST_ELEMENT,
    FIRST_FILTER,
    FIRST_POSITION,
    HIDES_NAMES,
    NULLS_DROPPED,
    OBJECTS_ONLY,
    POSITION_COUNT,
    Program,
)
from stream_masker.pipeline.codec.scanner.text_hash import scan_text_hash
from stream_masker.pipeline.codec.scanner.tokens import (
    COLON,
    COMMA,
    NOT,
    NULL,
    OBJECT_OPENS,
    TEXT,
    UNESCAPED,
    after_space,
    copy_bytes,
    same_bytes,
    string_end,
)

UNSURE: Final = -2
"""A key or value that only a decoder can compare."""


@inlined
def after_string(data: UInt8Array, at: int, end: int) -> tuple[int, bool]:
    """Return the index after the closing quote, at most ``end``, and whether there are escapes.

    at: the opening quote.
    """
    escaped = False
    at += 1
    while at < end and data[at] != 34:
        if data[at] == 92:
            escaped = True
            at += 1
        at += 1
    return min(at + 1, end), escaped


@inlined
def after_value(data: UInt8Array, at: int, end: int) -> int:
    """Return the index of the comma or bracket after a value, at most ``end``."""
    depth = 0
    while at < end:
        byte = data[at]
        if byte == 34:
            at = after_string(data, at, end)[0]
            continue
        if byte == 123 or byte == 91:
            depth += 1
        elif (byte == 125 or byte == 93) or (byte == 44 and depth == 0):
            if depth == 0:
                return at
            depth -= 1
        at += 1
    return end


@inlined
def member_of(data: UInt8Array, at: int, end: int, texts: UInt8Array, start: int, size: int) -> int:
    """Return the index of the value of an object's member; NOT if no member has the name, or UNSURE."""
    at = after_space(data, at + 1, end)
    while at < end and data[at] == 34:
        after, escaped = after_string(data, at, end)
        if escaped:
            return UNSURE
        same = after - at - 2 == size and same_bytes(data, at + 1, texts, start, size)
        value = after_space(data, min(after_space(data, after, end) + 1, end), end)
        if same:
            return value
        at = after_value(data, value, end)
        at = after_space(data, min(at + 1, end), end)
    return NOT


@inlined
def is_value(data: UInt8Array, at: int, end: int, texts: UInt8Array, start: int, size: int, quoted: int) -> int:
    """Return 1 if the value at an index is the text of ``size`` bytes, 0 if not, or UNSURE.

    quoted: whether only a string can be equal to the text.
    """
    if at >= end:
        return 0
    if data[at] == 34:
        after, escaped = after_string(data, at, end)
        same = after - at - 2 == size and same_bytes(data, at + 1, texts, start, size)
        return UNSURE if escaped else int(same)
    if quoted or data[at] == 123 or data[at] == 91 or data[at] == 110:
        return 0
    is_number = data[at] != 102 and data[at] != 116
    after = at
    while after < end and data[after] > 32 and data[after] != 44 and data[after] != 125:
        if is_number and (data[after] == 46 or data[after] == 69 or data[after] == 101):
            return UNSURE
        after += 1
    if after == at + 2 and data[at] == 45 and data[at + 1] == 48:
        return UNSURE
    return int(after - at == size and same_bytes(data, at, texts, start, size))


@inlined
def filter_matches(program: Program, where: int, data: UInt8Array, at: int, end: int) -> int:
    """Return 1 if a filter selects the object at an index, 0 if not, or UNSURE."""
    first, fields = program.filter_fields[where, 0], program.filter_fields[where, 1]
    for k in range(first, first + fields):
        if at >= end or data[at] != 123:
            return 0
        at = member_of(data, at, end, program.texts, program.field_texts[k, 0], program.field_texts[k, 1])
        if at < 0:
            return at if at == UNSURE else 0
    wanted = program.filter_values
    return is_value(data, at, end, program.texts, wanted[where, 0], wanted[where, 1], wanted[where, 2])


class Item(NamedTuple):
    """A member or an element. value: the index of its value, NOT if the record is left undecided; state: of its value;
    key, key_size: the index and the size of a member's key with its quotes. The size is 0 for an element, and negative
    for a key that a pseudonym replaces."""

    value: int
    state: int
    key: int
    key_size: int


@inlined
def item_start(data: UInt8Array, at: int, end: int, is_first: bool) -> int:
    """Return the index of an item, which is after a comma unless it is the container's first; NOT if there is none."""
    if is_first:
        return at
    if data[at] != COMMA:
        return NOT
    at = after_space(data, at + 1, end)
    return at if at < end else NOT


@inlined
def read_element(data: UInt8Array, at: int, end: int, program: Program, buffers: ScanBuffers, depth: int) -> Item:
    """Return the element of a list at an index."""
    list_state, position = buffers.stack[depth, FRAME_STATE], buffers.stack[depth, FRAME_LAST_ITEM]
    state = element_state(program, list_state, position, data, at, end)
    if state < 0:
        return Item(NOT, NOT, at, 0)
    enter_element(program, list_state, position, buffers)
    return Item(at, state, at, 0)


@inlined
def element_state(program: Program, state: int, position: int, data: UInt8Array, at: int, end: int) -> int:
    """Return the state of the element at a position of a list; NOT if the record is left undecided."""
    filters, matching = program.states[state, FILTER_COUNT], 0
    if filters and data[at] == OBJECT_OPENS:
        for bit in range(filters):
            result = filter_matches(program, program.filters[program.states[state, FIRST_FILTER] + bit], data, at, end)
            if result == UNSURE:
                return NOT
            matching |= result << bit
    elif program.states[state, OBJECTS_ONLY] and data[at] != NULL and data[at] != OBJECT_OPENS:
        return NOT
    number = 0
    for k in range(program.states[state, POSITION_COUNT]):
        if program.positions[program.states[state, FIRST_POSITION] + k] == position:
            number = k + 1
    return int64(program.elements[program.states[state, FIRST_ELEMENT] + (number << filters) + matching])


@inlined
def read_member(
    data: UInt8Array, at: int, end: int, program: Program, buffers: ScanBuffers, depth: int, last_slot: int
) -> Item:
    """Return the member of an object at an index. Its key must have no escapes and must not repeat another one.

    last_slot: that of the table of keys (``last_key_slot``).
    """
    undecided = Item(NOT, NOT, at, 0)
    if data[at] != TEXT:
        return undecided
    stop, escapes = string_end(data, at + 1, end)
    if stop < 0 or escapes != UNESCAPED:
        return undecided
    object_state, name, size = buffers.stack[depth, FRAME_STATE], at + 1, stop - at - 1
    name_hash = scan_text_hash(data, name, size, program.hash_key)
    owner, record = buffers.stack[depth, FRAME_NUMBER], buffers.stack[1, FRAME_NUMBER]
    if not is_new_key(buffers.keys, buffers.key_owners, last_slot, name_hash, owner, record):
        return undecided
    state, key_size = int64(member_state(program, object_state, name_hash, data, name, size)), size + 2
    if state < 0:
        state = -1 - state
        key_size = -key_size if program.states[object_state, HIDES_NAMES] else key_size
    colon = after_space(data, stop + 1, end)
    if colon >= end or data[colon] != COLON:
        return undecided
    value = after_space(data, colon + 1, end)
    return Item(value, state, at, key_size) if value < end else undecided


@inlined
def start_item(data: UInt8Array, item: Item, buffers: ScanBuffers, depth: int, to: int) -> int:
    """Write the bytes before an item's value: null for each element dropped before, a comma, and the key or its
    placeholder.

    Return the index after them.
    """
    out, stack = buffers.out, buffers.stack
    has_output = stack[depth, FRAME_HAS_OUTPUT] != 0
    for _ in range(stack[depth, FRAME_PENDING_NULLS]):
        if has_output:
            out[to] = COMMA
            to += 1
        out[to], out[to + 1], out[to + 2], out[to + 3] = NULL, 117, 108, 108
        to += 4
        has_output = True
    if has_output:
        out[to] = COMMA
        to += 1
    if item.key_size > 0:
        to = copy_bytes(data, item.key, item.key_size, out, to)
    elif item.key_size < 0:
        add_placeholder(buffers, PSEUDONYM_KIND, item.key + 1, -2 - item.key_size, to)
    if item.key_size:
        out[to] = COLON
        to += 1
    stack[depth, FRAME_HAS_OUTPUT], stack[depth, FRAME_PENDING_NULLS] = 1, 0
    return to


@inlined
def add_placeholder(buffers: ScanBuffers, kind: int, start: int, size: int, to: int) -> None:
    """Add a placeholder for a slice of the input (``INPUT_SHIFT``)."""
    placeholder = buffers.counters[PLACEHOLDER_COUNT]
    buffers.placeholder_uses[placeholder] = -1 - start - (kind << INPUT_SHIFT)
    buffers.placeholder_sizes[placeholder] = size
    buffers.placeholder_starts[placeholder] = to
    buffers.counters[PLACEHOLDER_COUNT] = placeholder + 1


@inlined
def drop_item(program: Program, buffers: ScanBuffers, depth: int) -> None:
    """Record a dropped item. Null takes the place of an element if paths name positions of the list."""
    if buffers.stack[depth, FRAME_IS_LIST] and program.states[buffers.stack[depth, FRAME_STATE], NULLS_DROPPED]:
        buffers.stack[depth, FRAME_PENDING_NULLS] += 1
