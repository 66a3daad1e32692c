"""Extraction of the values that roles select: codes, labels, copies, numbers, noise keys and alphas."""

from __future__ import annotations

import numpy as np

from stream_masker.core.dtypes import UInt8Array
from stream_masker.core.kernels.jit import inlined
from stream_masker.pipeline.codec.attributes import (
    CODE_PLACEHOLDER,
    LABEL_PLACEHOLDER,
    NO_VALUE,
    PLACEHOLDER_SHIFT,
)
from stream_masker.pipeline.codec.roles import CODE_ROLE, LABEL_ROLE, NOISE_KEY_ROLE, NUMBER_ROLE
from stream_masker.pipeline.codec.scanner.buffers import (
    CODE_COUNT,
    COMPANION_COUNT,
    CURRENT_ELEMENT,
    DECODED,
    DECODED_COUNT,
    ELEMENT_COUNT,
    FIRST_VALUE_COUNT,
    LAST_FOUND,
    LIST_FOUND,
    LIST_SEEN,
    NO_ROOM,
    UNDECIDED,
    ScanBuffers,
)
from stream_masker.pipeline.codec.scanner.lookups import REFUSED, TABLE_FULL, InternArrays, interned_value
from stream_masker.pipeline.codec.scanner.program import ENTERED_COUNT, FIRST_ENTERED, NOISE_KEY_FLAG, Program
from stream_masker.pipeline.codec.scanner.tokens import number_value


@inlined
def alphas_owner(program: Program) -> int:
    """The owner, in the intern table, of alphas as numbers. The next one is alphas as texts.

    The codes of an attribute have the attribute's own number.
    """
    return program.is_array.size


@inlined
def may_be_blank(data: UInt8Array, start: int, size: int) -> bool:
    """Whether a text has no visible ASCII character, so that it may consist of white space."""
    for at in range(start, start + size):
        if 32 < data[at] < 127:
            return False
    return True


@inlined
def enter_list(program: Program, state: int, work: ScanBuffers) -> bool:
    """Marks the list of the roles whose paths continue into every element; False for a second list of a role."""
    for k in range(program.states[state, ENTERED_COUNT]):
        role = program.entered[program.states[state, FIRST_ENTERED] + k]
        if work.role_progress[LIST_SEEN, role]:
            return False
        work.role_progress[LIST_SEEN, role] = 1
        if program.role_kinds[role] == CODE_ROLE:
            work.progress[LIST_FOUND, program.role_attributes[role]] = 1
    return True


@inlined
def enter_element(program: Program, state: int, place: int, work: ScanBuffers) -> None:
    """Sets the current element of the roles whose paths continue into every element. Codes start without a value."""
    for k in range(program.states[state, ENTERED_COUNT]):
        role = program.entered[program.states[state, FIRST_ENTERED] + k]
        work.role_progress[CURRENT_ELEMENT, role] = place
        if program.role_kinds[role] == CODE_ROLE:
            attribute = program.role_attributes[role]
            work.values[attribute, work.counters[FIRST_VALUE_COUNT + attribute] + place] = NO_VALUE
            work.progress[ELEMENT_COUNT, attribute] = place + 1


@inlined
def read_control(
    program: Program,
    known: InternArrays,
    work: ScanBuffers,
    flags: int,
    data: UInt8Array,
    start: int,
    size: int,
    is_text: bool,
) -> int:
    """Reads a noise key or an alpha, or a value that is both. Returns DECODED, UNDECIDED or NO_ROOM."""
    done = work.counters[DECODED_COUNT]
    if flags & NOISE_KEY_FLAG:
        if work.key_starts[done] >= 0 or (is_text and may_be_blank(data, start, size)):
            return UNDECIDED
        work.key_starts[done], work.key_sizes[done] = start, size
    if flags > NOISE_KEY_FLAG:
        if work.alphas[done]:
            return UNDECIDED
        alpha = interned_value(known, alphas_owner(program) + (1 if is_text else 0), data, start, size)
        if alpha == TABLE_FULL or alpha == REFUSED:
            return NO_ROOM if alpha == TABLE_FULL else UNDECIDED
        work.alphas[done] = alpha
    return DECODED


@inlined
def is_first_code(program: Program, work: ScanBuffers, attribute: int, element: int) -> bool:
    """Counts a code or number; False if it is not the first one of its record or element."""
    if work.progress[LAST_FOUND, attribute] == element + 1:
        return False
    work.progress[LAST_FOUND, attribute] = element + 1
    work.progress[CODE_COUNT, attribute] += 1
    return True


@inlined
def read_role(
    program: Program,
    known: InternArrays,
    work: ScanBuffers,
    role: int,
    gap: int,
    data: UInt8Array,
    start: int,
    size: int,
) -> int:
    """Reads the text of a code, label or copy, and fills in its placeholder. Returns DECODED, UNDECIDED or NO_ROOM."""
    attribute, kind = program.role_attributes[role], program.role_kinds[role]
    element = work.role_progress[CURRENT_ELEMENT, role] if program.role_in_list[role] else 0
    number = (
        work.counters[FIRST_VALUE_COUNT + attribute] + element
        if program.is_array[attribute]
        else work.counters[DECODED_COUNT]
    )
    if kind == CODE_ROLE:
        value = interned_value(known, attribute, data, start, size)
        if value == TABLE_FULL or value == REFUSED:
            return NO_ROOM if value == TABLE_FULL else UNDECIDED
        work.values[attribute, number] = value
        if not is_first_code(program, work, attribute, element):
            return UNDECIDED
    else:
        work.progress[COMPANION_COUNT, attribute] = max(work.progress[COMPANION_COUNT, attribute], element + 1)
    use = LABEL_PLACEHOLDER if kind == LABEL_ROLE else CODE_PLACEHOLDER
    work.placeholder_uses[gap] = ((number * program.keeps_missing.size + attribute) << PLACEHOLDER_SHIFT) | use
    return DECODED


@inlined
def read_number(
    program: Program, work: ScanBuffers, role: int, gap: int, data: UInt8Array, start: int, size: int
) -> bool:
    """Reads a number to mask, and fills in its placeholder; False if the record is left undecided."""
    attribute, done = program.role_attributes[role], work.counters[DECODED_COUNT]
    column, value = attribute - program.is_array.size, number_value(data, start, size)
    lower, upper = program.number_bounds[column, 0], program.number_bounds[column, 1]
    whole = program.number_bounds[column, 2]
    if not lower <= value <= upper or (whole and value != np.floor(value)):
        return False
    work.numbers[column, done] = value
    work.placeholder_uses[gap] = (done * program.keeps_missing.size + attribute) << PLACEHOLDER_SHIFT
    return bool(is_first_code(program, work, attribute, 0))


@inlined
def read_null(program: Program, work: ScanBuffers, role: int) -> bool:
    """Notes a null where a role's path ends; False if the record is left undecided."""
    attribute, kind = program.role_attributes[role], program.role_kinds[role]
    if kind != CODE_ROLE and kind != NUMBER_ROLE:
        return True
    element = work.role_progress[CURRENT_ELEMENT, role] if program.role_in_list[role] else 0
    return bool(program.keeps_missing[attribute] and is_first_code(program, work, attribute, element))


@inlined
def is_complete(program: Program, work: ScanBuffers) -> bool:
    """Whether a scanned record has all required values, and no label or copy without an element of its own."""
    for attribute in range(program.is_array.size):
        kept, codes = program.keeps_missing[attribute], work.progress[CODE_COUNT, attribute]
        if program.is_array[attribute]:
            sizes, listed = work.progress[ELEMENT_COUNT, attribute], work.progress[LIST_FOUND, attribute]
            if work.progress[COMPANION_COUNT, attribute] > sizes or (not kept and (not listed or codes < sizes)):
                return False
        elif not kept and not codes:
            return False
    for attribute in range(program.is_array.size, program.keeps_missing.size):
        if not program.keeps_missing[attribute] and not work.progress[CODE_COUNT, attribute]:
            return False
    for role in range(program.role_kinds.size):
        if program.role_kinds[role] == NOISE_KEY_ROLE and work.key_starts[work.counters[DECODED_COUNT]] < 0:
            return False
    return True


@inlined
def start_record(program: Program, work: ScanBuffers) -> None:
    """Resets what the buffers hold of a record before it is scanned."""
    done = work.counters[DECODED_COUNT]
    work.key_starts[done], work.key_sizes[done], work.alphas[done] = -1, 0, 0
    for attribute in range(program.keeps_missing.size):
        for what in range(5):
            work.progress[what, attribute] = 0
    for attribute in range(program.is_array.size):
        if not program.is_array[attribute]:
            work.values[attribute, done] = NO_VALUE
    for attribute in range(program.number_bounds.shape[0]):
        work.numbers[attribute, done] = np.nan
    for role in range(program.role_kinds.size):
        work.role_progress[LIST_SEEN, role] = 0
