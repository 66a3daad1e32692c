"""The scan: one pass over the bytes of a batch that checks JSON, reads values, and writes what is kept of each record.

A record that is not plainly well-formed, or that has anything that these kernels do not cover, is left undecided.
Codes, labels, pseudonyms and numbers in unusual notation are placeholders in the written record, so it has at most as
many bytes as the input (``NULL_GROWTH`` times as many if null takes the place of dropped elements). One check of the
room for each record is therefore enough.

``scan_record`` is one loop over the items of a record's containers: members (``scanner.items``) whose values are
containers or scalars (``scanner.scalars``). The containers that are not closed yet are on a stack. In all kernels of
this package ``data`` is the input, ``at`` is an index in it, and ``to`` is an index in the output.

The kernels count no references to the arrays that they pass on, including ``scan_all``, which Python calls. With
reference counts, these functions would take 1.1 to 1.8 times as long as one large function.
"""

from __future__ import annotations

from stream_masker.core.dtypes import Int8Array, Int64Array, UInt8Array
from stream_masker.core.kernels.jit import borrowing, inlined, int64
from stream_masker.pipeline.codec.scanner.buffers import (
    CONTAINER_COUNT,
    DECODED,
    DECODED_COUNT,
    ELEMENT_COUNT,
    FIRST_VALUE_COUNT,
    FRAME_HAS_OUTPUT,
    FRAME_IS_DROPPED,
    FRAME_IS_LIST,
    FRAME_LAST_ITEM,
    FRAME_NUMBER,
    FRAME_PENDING_NULLS,
    FRAME_STATE,
    LEAST_KEY_SLOTS,
    NO_ROOM,
    OUT_BYTES,
    PLACEHOLDER_COUNT,
    SLACK,
    UNDECIDED,
    ScanBuffers,
)
from stream_masker.pipeline.codec.scanner.extraction import enter_list, is_complete, start_record
from stream_masker.pipeline.codec.scanner.items import (
    Item,
    drop_item,
    item_start,
    read_element,
    read_member,
    start_item,
)
from stream_masker.pipeline.codec.scanner.lookups import InternArrays
from stream_masker.pipeline.codec.scanner.program import IS_DROPPED, LIST_STATE, OBJECT_STATE, Program
from stream_masker.pipeline.codec.scanner.scalars import extract_scalar, read_scalar, write_scalar
from stream_masker.pipeline.codec.scanner.tokens import (
    LIST_CLOSES,
    LIST_OPENS,
    NOT,
    OBJECT_CLOSES,
    OBJECT_OPENS,
    after_space,
)


@borrowing
def scan_all(
    data: UInt8Array,
    bounds: Int64Array,
    outcomes: Int8Array,
    first: int,
    program: Program,
    interned: InternArrays,
    buffers: ScanBuffers,
    growth: int,
    max_bytes: int,
    max_depth: int,
) -> int:
    """Scan the records from ``first`` on. Return the index of a record for which there is no room, or n.

    data: all records, followed by ``PADDING``; bounds: (n + 1,), the start of each record and the end of the last;
    outcomes: (n,), DECODED, UNDECIDED or another outcome, 0 for a record that is to be scanned; growth: the maximum
    number of bytes written for each byte read; max_bytes, max_depth: a larger or deeper record is left undecided.
    """
    for i in range(first, outcomes.size):
        if outcomes[i]:
            continue
        size = bounds[i + 1] - bounds[i]
        if size > max_bytes or buffers.counters[OUT_BYTES] + growth * size + SLACK > buffers.out.size:
            outcomes[i] = UNDECIDED
            continue
        if not record_has_room(program, buffers, size):
            return i
        start_record(program, buffers)
        outcome = scan_record(data, bounds[i], bounds[i + 1], program, interned, buffers, max_depth)
        if outcome == DECODED:
            finish_record(program, buffers)
        else:
            discard_placeholders(buffers)
            if outcome == NO_ROOM:
                return i
        outcomes[i] = outcome
    return outcomes.size


@inlined
def scan_record(
    data: UInt8Array,
    at: int,
    end: int,
    program: Program,
    interned: InternArrays,
    buffers: ScanBuffers,
    max_depth: int,
) -> int:
    """Scan a record. Return DECODED, and leave the output in the buffers; or return UNDECIDED or NO_ROOM."""
    out, stack, to = buffers.out, buffers.stack, buffers.counters[OUT_BYTES]
    at = after_space(data, at, end)
    if at >= end or data[at] != OBJECT_OPENS:
        return UNDECIDED
    last_slot, depth = last_key_slot(end - at), 1
    at, to = open_container(data, at, program, program.states[0, OBJECT_STATE], buffers, depth, to)
    while depth:
        at = after_space(data, at, end)
        if at >= end:
            return UNDECIDED
        is_list = stack[depth, FRAME_IS_LIST] != 0
        if data[at] == (LIST_CLOSES if is_list else OBJECT_CLOSES):
            if not stack[depth, FRAME_IS_DROPPED]:
                out[to] = data[at]
                to += 1
            at, depth = at + 1, depth - 1
            continue
        at = item_start(data, at, end, stack[depth, FRAME_LAST_ITEM] < 0)
        if at < 0:
            return UNDECIDED
        stack[depth, FRAME_LAST_ITEM] += 1
        if is_list:
            item = read_element(data, at, end, program, buffers, depth)
        else:
            item = read_member(data, at, end, program, buffers, depth, last_slot)
        if item.value < 0:
            return UNDECIDED
        if data[item.value] == OBJECT_OPENS or data[item.value] == LIST_OPENS:
            state = container_state(data, item, program, buffers)
            if state < 0 or depth >= max_depth:
                return UNDECIDED
            if program.states[state, IS_DROPPED]:
                drop_item(program, buffers, depth)
            else:
                to = start_item(data, item, buffers, depth, to)
            depth += 1
            at, to = open_container(data, item.value, program, state, buffers, depth, to)
        else:
            scalar = read_scalar(data, item.value, end)
            if scalar.stop <= 0:
                return UNDECIDED
            outcome = extract_scalar(data, item, scalar, program, interned, buffers)
            if outcome != DECODED:
                return outcome
            to = write_scalar(data, item, scalar, program, buffers, depth, to)
            at = scalar.after
    if after_space(data, at, end) != end or not is_complete(program, buffers):
        return UNDECIDED
    buffers.counters[OUT_BYTES] = to
    return DECODED


@inlined
def container_state(data: UInt8Array, item: Item, program: Program, buffers: ScanBuffers) -> int:
    """Return the state of a value that is an object or a list; NOT if the record is left undecided."""
    if data[item.value] == OBJECT_OPENS:
        return int64(program.states[item.state, OBJECT_STATE])
    state = int64(program.states[item.state, LIST_STATE])
    return state if state >= 0 and enter_list(program, state, buffers) else NOT


@inlined
def open_container(
    data: UInt8Array, at: int, program: Program, state: int, buffers: ScanBuffers, depth: int, to: int
) -> tuple[int, int]:
    """Put a container on the stack, and write its bracket unless it is dropped. Return the indices after it."""
    stack, is_dropped = buffers.stack, program.states[state, IS_DROPPED]
    buffers.counters[CONTAINER_COUNT] += 1
    stack[depth, FRAME_STATE], stack[depth, FRAME_NUMBER] = state, buffers.counters[CONTAINER_COUNT]
    stack[depth, FRAME_IS_LIST], stack[depth, FRAME_IS_DROPPED] = data[at] == LIST_OPENS, is_dropped
    stack[depth, FRAME_LAST_ITEM], stack[depth, FRAME_HAS_OUTPUT], stack[depth, FRAME_PENDING_NULLS] = -1, 0, 0
    if is_dropped:
        return at + 1, to
    buffers.out[to] = data[at]
    return at + 1, to + 1


@inlined
def record_has_room(program: Program, buffers: ScanBuffers, size: int) -> bool:
    """Return whether the buffers have room for the placeholders and values of any record of ``size`` bytes."""
    most = size // 2 + 1
    room = buffers.counters[PLACEHOLDER_COUNT] + most <= buffers.placeholder_starts.size
    for attribute in range(program.is_array.size):
        room &= buffers.counters[FIRST_VALUE_COUNT + attribute] + most <= buffers.values.shape[1]
    return room


@inlined
def last_key_slot(size: int) -> int:
    """Return the last slot of the key table for a record of ``size`` bytes.

    At most half of the slots are used, because a member takes at least five bytes.
    """
    slots = LEAST_KEY_SLOTS
    while slots < size // 2:
        slots *= 2
    return slots - 1


@inlined
def finish_record(program: Program, buffers: ScanBuffers) -> None:
    """Count a decoded record."""
    counters = buffers.counters
    record = counters[DECODED_COUNT]
    buffers.ends[record + 1, 0], buffers.ends[record + 1, 1] = counters[OUT_BYTES], counters[PLACEHOLDER_COUNT]
    for attribute in range(program.is_array.size):
        size = buffers.progress[ELEMENT_COUNT, attribute] if program.is_array[attribute] else 1
        buffers.lengths[attribute, record] = size
        counters[FIRST_VALUE_COUNT + attribute] += size
    counters[DECODED_COUNT] = record + 1


@inlined
def discard_placeholders(buffers: ScanBuffers) -> None:
    """Discard the placeholders of a record that is not decoded."""
    buffers.counters[PLACEHOLDER_COUNT] = buffers.ends[buffers.counters[DECODED_COUNT], 1]
