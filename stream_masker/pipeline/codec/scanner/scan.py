"""The scan: one pass over the bytes of a batch that checks JSON, reads values, and writes what is kept of each record.

A record that is not plainly well-formed, or that has anything that these kernels do not cover, is left undecided.
Codes, labels, pseudonyms and numbers in unusual notation are placeholders in the written record, so it has at most as
many bytes as the input (``NULL_GROWTH`` times as many if null takes the place of dropped elements). One check of the
room for each record is therefore enough.

``scan_record`` is one loop over the tokens of a record. Each turn ends a container, or reads a member's key and begins
a container or reads a scalar. The variables of the innermost container are locals; those of the enclosing ones are on
``stack``. In all kernels of this package ``work`` are the buffers, ``known`` the intern tables, ``at`` is a place in
the input, ``to`` a place in the output, and ``gap`` the number of the next placeholder.

The loop is one function on purpose: split into functions of its own, it takes 1.1 to 1.8 times as long, because numba
then counts references to the arrays that it passes on.
"""

from __future__ import annotations

from stream_masker.core.dtypes import Int8Array, Int64Array, UInt8Array
from stream_masker.core.kernels.jit import inlined, int64, kernel
from stream_masker.pipeline.codec.roles import NUMBER_ROLE
from stream_masker.pipeline.codec.scanner.buffers import (
    CONTAINER_COUNT,
    DECODED,
    DECODED_COUNT,
    ELEMENT_COUNT,
    FIRST_VALUE_COUNT,
    LEAST_KEY_SLOTS,
    NO_ROOM,
    OUT_BYTES,
    PLACEHOLDER_COUNT,
    REWRITTEN_USE,
    SLACK,
    UNDECIDED,
    ScanBuffers,
)
from stream_masker.pipeline.codec.scanner.extraction import (
    enter_element,
    enter_list,
    is_complete,
    read_control,
    read_null,
    read_number,
    read_role,
    start_record,
)
from stream_masker.pipeline.codec.scanner.filters import UNSURE, filter_matches
from stream_masker.pipeline.codec.scanner.lookups import InternArrays, is_new_key, member_state
from stream_masker.pipeline.codec.scanner.program import (
    CONTROL_FLAGS,
    DROP_VALUE,
    FILTER_COUNT,
    FIRST_ELEMENT,
    FIRST_FILTER,
    FIRST_POSITION,
    HIDES_NAMES,
    IS_DROPPED,
    KEEP_VALUE,
    LIST_STATE,
    MASKED_ROLE,
    NULL_ACTION,
    NULLS_DROPPED,
    OBJECT_STATE,
    OBJECTS_ONLY,
    POSITION_COUNT,
    SCALAR_ACTION,
    UNSUPPORTED,
    Program,
)
from stream_masker.pipeline.codec.scanner.text_hash import scan_text_hash
from stream_masker.pipeline.codec.scanner.tokens import (
    REWRITTEN,
    UNESCAPED,
    after_space,
    any_number_end,
    copy_bytes,
    number_end,
    put_string,
    string_end,
    word_end,
)

OBJECT_OPENS, OBJECT_CLOSES, LIST_OPENS, LIST_CLOSES = 123, 125, 91, 93
COMMA, COLON, TEXT, FALSE, NULL, TRUE = 44, 58, 34, 102, 110, 116


@inlined
def write_prefix(data: UInt8Array, key: int, size: int, out: UInt8Array, to: int, wrote: bool, pending: int) -> int:
    """Writes nulls for dropped elements, a comma, and the member's key. Returns the place after them.

    size: of the key with its quotes; 0 for an element, negative for a key that a placeholder replaces.
    """
    for _ in range(pending):
        if wrote:
            out[to] = COMMA
            to += 1
        out[to], out[to + 1], out[to + 2], out[to + 3] = NULL, 117, 108, 108
        to += 4
        wrote = True
    if wrote:
        out[to] = COMMA
        to += 1
    if size > 0:
        to = copy_bytes(data, key, size, out, to)
    if size:
        out[to] = COLON
        to += 1
    return to


@inlined
def hide_name(work: ScanBuffers, key: int, size: int, to: int, gap: int) -> int:
    """Adds the placeholder of a key that ``write_prefix`` has left out. Returns the number of the next placeholder."""
    if size < 0:
        work.placeholder_starts[gap] = to - 1
        work.placeholder_uses[gap], work.placeholder_sizes[gap] = -2 - key, -2 - size
        gap += 1
    return gap


@inlined
def element_state(program: Program, state: int, place: int, data: UInt8Array, at: int, end: int) -> int:
    """The state of a list's element; -1 if the record is left undecided."""
    filters, mask = program.states[state, FILTER_COUNT], 0
    if filters and data[at] == OBJECT_OPENS:
        for bit in range(filters):
            found = filter_matches(program, program.filters[program.states[state, FIRST_FILTER] + bit], data, at, end)
            if found == UNSURE:
                return -1
            mask |= found << bit
    elif program.states[state, OBJECTS_ONLY] and data[at] != NULL and data[at] != OBJECT_OPENS:
        return -1
    number = 0
    for k in range(program.states[state, POSITION_COUNT]):
        if program.positions[program.states[state, FIRST_POSITION] + k] == place:
            number = k + 1
    return program.elements[program.states[state, FIRST_ELEMENT] + (number << filters) + mask]


@inlined
def record_has_room(program: Program, work: ScanBuffers, size: int) -> bool:
    """Whether the buffers have room for the placeholders and values of any record of ``size`` bytes."""
    most = size // 2 + 1
    room = work.counters[PLACEHOLDER_COUNT] + most <= work.placeholder_starts.size
    for attribute in range(program.is_array.size):
        room &= work.counters[FIRST_VALUE_COUNT + attribute] + most <= work.values.shape[1]
    return room


@inlined
def last_key_slot(size: int) -> int:
    """The last slot of the key table for a record of ``size`` bytes: at most half of the slots are used, because a
    member takes at least five bytes."""
    slots = LEAST_KEY_SLOTS
    while slots < size // 2:
        slots *= 2
    return slots - 1


@inlined
def scan_record(
    data: UInt8Array, at: int, end: int, program: Program, known: InternArrays, work: ScanBuffers, deepest: int
) -> int:
    """Scans a record. Returns DECODED, and leaves what it wrote in the buffers; or UNDECIDED or NO_ROOM."""
    out, stack, counters = work.out, work.stack, work.counters
    to, gap = counters[OUT_BYTES], counters[PLACEHOLDER_COUNT]
    at = after_space(data, at, end)
    if at >= end or data[at] != OBJECT_OPENS:
        return UNDECIDED
    slots, first = last_key_slot(end - at), counters[CONTAINER_COUNT] + 1
    counters[CONTAINER_COUNT] = first
    state, depth, in_list, fresh, wrote, place, pending = (
        int64(program.states[0, OBJECT_STATE]),
        1,
        False,
        True,
        False,
        -1,
        0,
    )
    muted, number = program.states[state, IS_DROPPED] != 0, first
    out[to] = OBJECT_OPENS
    to += 1
    at += 1
    while True:
        at = after_space(data, at, end)
        if at >= end:
            return UNDECIDED
        byte = data[at]
        if byte == (LIST_CLOSES if in_list else OBJECT_CLOSES):
            at += 1
            if not muted:
                out[to] = byte
                to += 1
            depth -= 1
            if depth == 0:
                break
            state, in_list, wrote, muted = (
                stack[depth, 0],
                stack[depth, 1] != 0,
                stack[depth, 2] != 0,
                stack[depth, 3] != 0,
            )
            place, pending, number, fresh = stack[depth, 4], stack[depth, 5], stack[depth, 6], False
            continue
        if not fresh:
            if byte != COMMA:
                return UNDECIDED
            at = after_space(data, at + 1, end)
            if at >= end:
                return UNDECIDED
            byte = data[at]
        fresh = False
        key, key_size = at, 0
        if in_list:
            place += 1
            child = int64(element_state(program, state, place, data, at, end))
            if child < 0:
                return UNDECIDED
            enter_element(program, state, place, work)
        else:
            if byte != TEXT:
                return UNDECIDED
            stop, escapes = string_end(data, at + 1, end)
            if stop < 0 or escapes != UNESCAPED:
                return UNDECIDED
            found = scan_text_hash(data, at + 1, stop - at - 1, program.hash_key)
            if not is_new_key(work.keys, work.key_owners, slots, found, number, first):
                return UNDECIDED
            child = int64(member_state(program, state, found, data, at + 1, stop - at - 1))
            key_size = stop + 1 - at
            if child < 0:
                child = -1 - child
                key_size = -key_size if program.states[state, HIDES_NAMES] else key_size
            at = after_space(data, stop + 1, end)
            if at >= end or data[at] != COLON:
                return UNDECIDED
            at = after_space(data, at + 1, end)
            if at >= end:
                return UNDECIDED
            byte = data[at]
        if byte == OBJECT_OPENS or byte == LIST_OPENS:
            target = int64(
                program.states[child, OBJECT_STATE] if byte == OBJECT_OPENS else program.states[child, LIST_STATE]
            )
            if target < 0 or depth >= deepest:
                return UNDECIDED
            if byte == LIST_OPENS and not enter_list(program, target, work):
                return UNDECIDED
            silent = program.states[target, IS_DROPPED] != 0
            if not silent:
                to = write_prefix(data, key, key_size, out, to, wrote, pending)
                gap = hide_name(work, key, key_size, to, gap)
                out[to] = byte
                to += 1
                wrote, pending = True, 0
            elif in_list and program.states[state, NULLS_DROPPED]:
                pending += 1
            stack[depth, 0], stack[depth, 1], stack[depth, 2], stack[depth, 3] = state, in_list, wrote, muted
            stack[depth, 4], stack[depth, 5], stack[depth, 6] = place, pending, number
            counters[CONTAINER_COUNT] += 1
            state, in_list, wrote, muted, fresh = target, byte == LIST_OPENS, False, silent, True
            place, pending, number = -1, 0, counters[CONTAINER_COUNT]
            depth += 1
            at += 1
            continue
        escapes = UNESCAPED
        if byte == TEXT:
            stop, escapes = string_end(data, at + 1, end)
            after = last = stop + 1
        elif byte == NULL or byte == TRUE or byte == FALSE:
            after = last = word_end(data, at, end)
        else:
            after, last = number_end(data, at, end)
            if last <= 0:
                after = last = any_number_end(data, at, end)
                escapes = REWRITTEN
        if last <= 0:
            return UNDECIDED
        is_text, is_word = byte == TEXT, byte == NULL or byte == TRUE or byte == FALSE
        start, size = (at + 1, last - at - 2) if is_text else (at, last - at)
        action = program.states[child, NULL_ACTION] if byte == NULL else program.states[child, SCALAR_ACTION]
        if action == UNSUPPORTED:
            return UNDECIDED
        if program.states[child, CONTROL_FLAGS]:
            if escapes != UNESCAPED or is_word:
                return UNDECIDED
            read = read_control(program, known, work, program.states[child, CONTROL_FLAGS], data, start, size, is_text)
            if read != DECODED:
                return read
        role = program.states[child, MASKED_ROLE]
        if role >= 0 and byte == NULL:
            if not read_null(program, work, role):
                return UNDECIDED
        elif role >= 0 and program.role_kinds[role] == NUMBER_ROLE:
            if escapes != UNESCAPED or is_text or is_word:
                return UNDECIDED
            if not read_number(program, work, role, gap, data, start, size):
                return UNDECIDED
        elif role >= 0:
            if not is_text or escapes != UNESCAPED:
                return UNDECIDED
            read = read_role(program, known, work, role, gap, data, start, size)
            if read != DECODED:
                return read
        if action == DROP_VALUE:
            pending += 1 if in_list and program.states[state, NULLS_DROPPED] else 0
        else:
            to = write_prefix(data, key, key_size, out, to, wrote, pending)
            gap = hide_name(work, key, key_size, to, gap)
            wrote, pending = True, 0
            if action == KEEP_VALUE and (role < 0 or byte == NULL) and (is_text or escapes == UNESCAPED):
                if escapes == REWRITTEN:
                    to = put_string(data, at, last, out, to)
                else:
                    to = copy_bytes(data, at, last - at, out, to)
            else:
                if role < 0:
                    if action != KEEP_VALUE and escapes != UNESCAPED:
                        return UNDECIDED
                    work.placeholder_uses[gap] = (REWRITTEN_USE if action == KEEP_VALUE else -1) - start
                    work.placeholder_sizes[gap] = size
                work.placeholder_starts[gap] = to
                gap += 1
        at = after
    if after_space(data, at, end) != end or not is_complete(program, work):
        return UNDECIDED
    counters[OUT_BYTES], counters[PLACEHOLDER_COUNT] = to, gap
    return DECODED


@inlined
def finish_record(program: Program, work: ScanBuffers) -> None:
    """Counts a record that was taken."""
    counters = work.counters
    done = counters[DECODED_COUNT]
    work.ends[done + 1, 0], work.ends[done + 1, 1] = counters[OUT_BYTES], counters[PLACEHOLDER_COUNT]
    for attribute in range(program.is_array.size):
        size = work.progress[ELEMENT_COUNT, attribute] if program.is_array[attribute] else 1
        work.lengths[attribute, done] = size
        counters[FIRST_VALUE_COUNT + attribute] += size
    counters[DECODED_COUNT] = done + 1


@kernel
def scan_all(
    data: UInt8Array,
    bounds: Int64Array,
    fates: Int8Array,
    first: int,
    program: Program,
    known: InternArrays,
    work: ScanBuffers,
    growth: int,
    largest: int,
    deepest: int,
) -> int:
    """Scans the records from ``first`` on. Returns the index of a record for which there is no room, or n.

    data: all records, followed by ``PADDING``; bounds: (n + 1,), where each record begins and the last ends; fates:
    (n,), outcomes; records that have one are skipped; growth: the maximum of bytes written for each byte read.
    """
    for i in range(first, fates.size):
        if fates[i]:
            continue
        size = bounds[i + 1] - bounds[i]
        if size > largest or work.counters[OUT_BYTES] + growth * size + SLACK > work.out.size:
            fates[i] = UNDECIDED
            continue
        if not record_has_room(program, work, size):
            return i
        start_record(program, work)
        fate = scan_record(data, bounds[i], bounds[i + 1], program, known, work, deepest)
        if fate == NO_ROOM:
            return i
        fates[i] = fate
        if fate == DECODED:
            finish_record(program, work)
    return fates.size
