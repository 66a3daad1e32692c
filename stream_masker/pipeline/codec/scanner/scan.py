"""One pass over a batch's bytes: JSON checked, codes read, and what is kept written, by a compiled plan.

A record that is not plainly well-formed, or that holds anything that these kernels do not vouch for, is left to
others. What is written of a record never has more bytes than were read (``GROWTH`` times as many where null holds
dropped elements' places), because codes, labels and pseudonyms are gaps; so one check of room a record is enough.
"""

from __future__ import annotations

from stream_masker.core.dtypes import Int8Array, Int64Array, UInt8Array
from stream_masker.core.kernels.jit import inlined, int64, kernel
from stream_masker.pipeline.codec.roles import NUMBER_ROLE
from stream_masker.pipeline.codec.scanner.buffers import (
    CONTAINERS,
    DONE,
    GAPS,
    LEFT,
    OUT,
    SIZES,
    SLACK,
    STOPPED,
    TAKEN,
    VALUES,
    ScanBuffers,
)
from stream_masker.pipeline.codec.scanner.filters import UNSURE, matches
from stream_masker.pipeline.codec.scanner.lookups import InternArrays, is_new, state_of_name
from stream_masker.pipeline.codec.scanner.program import (
    CONTROLS,
    DROP,
    FILTERS,
    FIRST_ELEMENT,
    FIRST_FILTER,
    FIRST_PLACE,
    HELD,
    KEEP,
    LISTS,
    MUTED,
    NEVER,
    NULLS,
    OBJECTS,
    PLACES,
    ROLE,
    SCALARS,
    STRICT,
    Program,
)
from stream_masker.pipeline.codec.scanner.roles import (
    enters_element,
    enters_list,
    is_whole,
    reads_control,
    reads_null,
    reads_number,
    reads_role,
    starts,
)
from stream_masker.pipeline.codec.scanner.tokens import (
    OTHERWISE,
    UNESCAPED,
    after_space,
    copied,
    number_end,
    put_string,
    scan_text_hash,
    string_end,
    word_end,
)

OBJECT_OPENS, OBJECT_CLOSES, LIST_OPENS, LIST_CLOSES = 123, 125, 91, 93
COMMA, COLON, TEXT, FALSE, NULL, TRUE = 44, 58, 34, 102, 110, 116


@inlined
def enter_path(data: UInt8Array, key: int, size: int, out: UInt8Array, to: int, wrote: bool, pending: int) -> int:
    """Writes what comes before a value: nulls for dropped elements, a comma, a member's key. The place behind it."""
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
    if size:
        to = copied(data, key, size, out, to)
        out[to] = COLON
        to += 1
    return to


@inlined
def element_state(program: Program, state: int, place: int, data: UInt8Array, at: int, end: int) -> int:
    """The state of a list's element, or NEVER's -1."""
    filters, mask = program.states[state, FILTERS], 0
    if filters and data[at] == OBJECT_OPENS:
        for bit in range(filters):
            found = matches(program, program.filters[program.states[state, FIRST_FILTER] + bit], data, at, end)
            if found == UNSURE:
                return -1
            mask |= found << bit
    elif program.states[state, STRICT] and data[at] != NULL and data[at] != OBJECT_OPENS:
        return -1
    number = 0
    for k in range(program.states[state, PLACES]):
        if program.places[program.states[state, FIRST_PLACE] + k] == place:
            number = k + 1
    return program.elements[program.states[state, FIRST_ELEMENT] + (number << filters) + mask]


@inlined
def record_has_room(program: Program, work: ScanBuffers, size: int) -> bool:
    """Whether what may come of a record of so many bytes fits."""
    most = size // 2 + 1
    room = work.counters[GAPS] + most <= work.gap_places.size
    for attribute in range(program.arrays.size):
        room &= work.counters[VALUES + attribute] + most <= work.values.shape[1]
    return room


@inlined
def names_for(size: int) -> int:
    """The largest slot of a table for the keys of a record of so many bytes, of which a key takes four at least."""
    slots = 64
    while slots < size // 2 and slots < 1 << 14:
        slots *= 2
    return slots - 1


@inlined
def scan_record(
    data: UInt8Array, at: int, end: int, program: Program, known: InternArrays, work: ScanBuffers, deepest: int
) -> int:
    """Reads one record: TAKEN, with what was written and counted left in ``work``; LEFT or STOPPED with nothing."""
    out, stack, counters = work.out, work.stack, work.counters
    to, gap = counters[OUT], counters[GAPS]
    at = after_space(data, at, end)
    if at >= end or data[at] != OBJECT_OPENS:
        return LEFT
    slots, first = names_for(end - at), counters[CONTAINERS] + 1
    counters[CONTAINERS] = first
    state, depth, in_list, fresh, wrote, place, pending = (
        int64(program.states[0, OBJECTS]),
        1,
        False,
        True,
        False,
        -1,
        0,
    )
    muted, number = program.states[state, MUTED] != 0, first
    out[to] = OBJECT_OPENS
    to += 1
    at += 1
    while True:
        at = after_space(data, at, end)
        if at >= end:
            return LEFT
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
                return LEFT
            at = after_space(data, at + 1, end)
            if at >= end:
                return LEFT
            byte = data[at]
        fresh = False
        key, key_size = at, 0
        if in_list:
            place += 1
            child = int64(element_state(program, state, place, data, at, end))
            if child < 0:
                return LEFT
            enters_element(program, state, place, work)
        else:
            if byte != TEXT:
                return LEFT
            stop, escapes = string_end(data, at + 1, end)
            if stop < 0 or escapes != UNESCAPED:
                return LEFT
            found = scan_text_hash(data, at + 1, stop - at - 1, program.seed)
            if not is_new(work.keys, work.owners, slots, found, number, first):
                return LEFT
            child = int64(state_of_name(program, state, found, data, at + 1, stop - at - 1))
            key_size = stop + 1 - at
            at = after_space(data, stop + 1, end)
            if at >= end or data[at] != COLON:
                return LEFT
            at = after_space(data, at + 1, end)
            if at >= end:
                return LEFT
            byte = data[at]
        if byte == OBJECT_OPENS or byte == LIST_OPENS:
            target = int64(program.states[child, OBJECTS] if byte == OBJECT_OPENS else program.states[child, LISTS])
            if target < 0 or depth >= deepest:
                return LEFT
            if byte == LIST_OPENS and not enters_list(program, target, work):
                return LEFT
            silent = program.states[target, MUTED] != 0
            if not silent:
                to = enter_path(data, key, key_size, out, to, wrote, pending)
                out[to] = byte
                to += 1
                wrote, pending = True, 0
            elif in_list and program.states[state, HELD]:
                pending += 1
            stack[depth, 0], stack[depth, 1], stack[depth, 2], stack[depth, 3] = state, in_list, wrote, muted
            stack[depth, 4], stack[depth, 5], stack[depth, 6] = place, pending, number
            counters[CONTAINERS] += 1
            state, in_list, wrote, muted, fresh = target, byte == LIST_OPENS, False, silent, True
            place, pending, number = -1, 0, counters[CONTAINERS]
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
            return LEFT
        is_text, is_word = byte == TEXT, byte == NULL or byte == TRUE or byte == FALSE
        start, size = (at + 1, last - at - 2) if is_text else (at, last - at)
        action = program.states[child, NULLS] if byte == NULL else program.states[child, SCALARS]
        if action == NEVER:
            return LEFT
        if program.states[child, CONTROLS]:
            if escapes != UNESCAPED or is_word:
                return LEFT
            read = reads_control(program, known, work, program.states[child, CONTROLS], data, start, size, is_text)
            if read != TAKEN:
                return read
        role = program.states[child, ROLE]
        if role >= 0 and byte == NULL:
            if not reads_null(program, work, role):
                return LEFT
        elif role >= 0 and program.role_kinds[role] == NUMBER_ROLE:
            if is_text or is_word or not reads_number(program, work, role, gap, data, start, size):
                return LEFT
        elif role >= 0:
            if not is_text or escapes != UNESCAPED:
                return LEFT
            read = reads_role(program, known, work, role, gap, data, start, size)
            if read != TAKEN:
                return read
        if action == DROP:
            pending += 1 if in_list and program.states[state, HELD] else 0
        else:
            to = enter_path(data, key, key_size, out, to, wrote, pending)
            wrote, pending = True, 0
            if action == KEEP and (role < 0 or byte == NULL):
                if escapes == OTHERWISE:
                    to = put_string(data, at, last, out, to)
                else:
                    to = copied(data, at, last - at, out, to)
            else:
                if role < 0:
                    if escapes != UNESCAPED:
                        return LEFT
                    work.gap_uses[gap], work.gap_sizes[gap] = -1 - start, size
                work.gap_places[gap] = to
                gap += 1
        at = after
    if after_space(data, at, end) != end or not is_whole(program, work):
        return LEFT
    counters[OUT], counters[GAPS] = to, gap
    return TAKEN


@inlined
def finishes(program: Program, work: ScanBuffers) -> None:
    """Counts a record that was taken."""
    counters = work.counters
    done = counters[DONE]
    work.ends[done + 1, 0], work.ends[done + 1, 1] = counters[OUT], counters[GAPS]
    for attribute in range(program.arrays.size):
        size = work.attributes[SIZES, attribute] if program.arrays[attribute] else 1
        work.lengths[attribute, done] = size
        counters[VALUES + attribute] += size
    counters[DONE] = done + 1


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
    """Reads records from number ``first`` on, as far as there is room; the number of the first one not read.

    ``growth``: the most bytes that may be written for one that is read.
    bounds: (n + 1,) int64, where each record's value begins in ``data`` and the last ends; fates: (n,) int8, what
    became of each; those that have one already are passed over.
    """
    for i in range(first, fates.size):
        if fates[i]:
            continue
        size = bounds[i + 1] - bounds[i]
        if size > largest or work.counters[OUT] + growth * size + SLACK > work.out.size:
            fates[i] = LEFT
            continue
        if not record_has_room(program, work, size):
            return i
        starts(program, work)
        fate = scan_record(data, bounds[i], bounds[i + 1], program, known, work, deepest)
        if fate == STOPPED:
            return i
        fates[i] = fate
        if fate == TAKEN:
            finishes(program, work)
    return fates.size
