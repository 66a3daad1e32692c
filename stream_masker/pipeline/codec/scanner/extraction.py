"""Extraction of the values that roles select: codes, labels, copies, numbers, noise keys and alphas."""

from __future__ import annotations

from typing import Final

import numpy as np

from stream_masker.core.dtypes import UInt8Array
from stream_masker.core.kernels.jit import inlined, int64
from stream_masker.pipeline.codec.attributes import LABEL_PLACEHOLDER, NO_VALUE, PLACEHOLDER_SHIFT
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
from stream_masker.pipeline.codec.scanner.lookups import DEFERRED, REFUSED, TABLE_FULL, InternArrays, interned_value
from stream_masker.pipeline.codec.scanner.program import ENTERED_COUNT, FIRST_ENTERED, NOISE_KEY_FLAG, Program
from stream_masker.pipeline.codec.scanner.tokens import number_value
from stream_masker.pipeline.style import LOWER, OWN_CASE, UPPER

UNDETERMINED_CASE: Final = 0
"""What ``ascii_case`` says of a text whose case only Unicode's rules tell."""


@inlined
def copies_owner(program: Program, attribute: int) -> int:
    """The owner, in the intern table, of the copies of an attribute. Its codes have the attribute's own number."""
    return program.is_array.size + attribute


@inlined
def labels_owner(program: Program) -> int:
    """The owner of labels, whose value is their case. The next two owners are alphas as numbers and as texts."""
    return 2 * program.is_array.size


@inlined
def ascii_case(data: UInt8Array, start: int, size: int) -> int:
    """The case of a label (``style.letter_case``), or UNDETERMINED_CASE."""
    lower, upper, wide = False, False, False
    for at in range(start, start + size):
        byte = data[at]
        lower |= 97 <= byte <= 122
        upper |= 65 <= byte <= 90
        wide |= byte > 127
        if lower and upper:
            return OWN_CASE
    if wide:
        return UNDETERMINED_CASE
    return LOWER if lower else UPPER if upper else OWN_CASE


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
        alpha = interned_value(known, labels_owner(program) + (2 if is_text else 1), data, start, size)
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
    use, unknown = int64(0), int64(0)
    if kind == CODE_ROLE:
        value = interned_value(known, attribute, data, start, size)
        if value != TABLE_FULL and value != REFUSED:
            work.values[attribute, number] = value
            if not is_first_code(program, work, attribute, element):
                return UNDECIDED
    else:
        work.progress[COMPANION_COUNT, attribute] = max(work.progress[COMPANION_COUNT, attribute], element + 1)
        value = int64(ascii_case(data, start, size)) if kind == LABEL_ROLE else int64(UNDETERMINED_CASE)
        if value == UNDETERMINED_CASE:
            owner = labels_owner(program) if kind == LABEL_ROLE else copies_owner(program, attribute)
            value = interned_value(known, owner, data, start, size)
        if value <= DEFERRED:
            unknown = DEFERRED - value + 1
        else:
            use = value
        if kind == LABEL_ROLE:
            use |= LABEL_PLACEHOLDER
    if value == TABLE_FULL or value == REFUSED:
        return NO_ROOM if value == TABLE_FULL else UNDECIDED
    work.placeholder_uses[gap] = ((number * program.keeps_missing.size + attribute) << PLACEHOLDER_SHIFT) | use
    work.placeholder_sizes[gap] = unknown
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
    work.placeholder_sizes[gap] = 0
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
