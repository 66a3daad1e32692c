"""Extraction of the values that roles select: codes, labels, copies, numbers, noise keys, alphas and counted fields."""

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
    NO_KIND,
    NO_ROOM,
    PLACEHOLDER_COUNT,
    UNDECIDED,
    ScanBuffers,
)
from stream_masker.pipeline.codec.scanner.lookups import REFUSED, TABLE_FULL, InternArrays, interned_value
from stream_masker.pipeline.codec.scanner.program import (
    ALPHA_FLAG,
    COUNTED_SHIFT,
    ENTERED_COUNT,
    FIRST_ENTERED,
    NOISE_KEY_FLAG,
    Program,
)
from stream_masker.pipeline.codec.scanner.tokens import number_value


@inlined
def alphas_owner(program: Program) -> int:
    """Return the owner of alphas that are numbers in the intern table. The next owner is that of alphas that are texts.

    The owner of an attribute's codes is the attribute's number. After the alphas come, for each counted field,
    its numbers and its texts.
    """
    return program.is_array.size


@inlined
def may_be_blank(data: UInt8Array, start: int, size: int) -> bool:
    """Return whether a text has no visible ASCII character, so that it may consist of white space."""
    for at in range(start, start + size):
        if 32 < data[at] < 127:
            return False
    return True


@inlined
def enter_list(program: Program, state: int, buffers: ScanBuffers) -> bool:
    """Mark the list of the roles whose paths continue into every element.

    Return False for a second list of a role.
    """
    for k in range(program.states[state, ENTERED_COUNT]):
        role = program.entered[program.states[state, FIRST_ENTERED] + k]
        if buffers.role_progress[LIST_SEEN, role]:
            return False
        buffers.role_progress[LIST_SEEN, role] = 1
        if program.role_kinds[role] == CODE_ROLE:
            buffers.progress[LIST_FOUND, program.role_attributes[role]] = 1
    return True


@inlined
def enter_element(program: Program, state: int, position: int, buffers: ScanBuffers) -> None:
    """Set the current element of the roles whose paths continue into every element.

    The codes of these roles start without a value.
    """
    for k in range(program.states[state, ENTERED_COUNT]):
        role = program.entered[program.states[state, FIRST_ENTERED] + k]
        buffers.role_progress[CURRENT_ELEMENT, role] = position
        if program.role_kinds[role] == CODE_ROLE:
            attribute = program.role_attributes[role]
            buffers.values[attribute, buffers.counters[FIRST_VALUE_COUNT + attribute] + position] = NO_VALUE
            buffers.progress[ELEMENT_COUNT, attribute] = position + 1


@inlined
def read_control(
    program: Program,
    interned: InternArrays,
    buffers: ScanBuffers,
    flags: int,
    data: UInt8Array,
    start: int,
    size: int,
    is_text: bool,
) -> int:
    """Read a noise key, an alpha or a counted field, or several in one. Return DECODED, UNDECIDED or NO_ROOM."""
    record = buffers.counters[DECODED_COUNT]
    if flags & NOISE_KEY_FLAG:
        if buffers.key_starts[record] >= 0 or (is_text and may_be_blank(data, start, size)):
            return UNDECIDED
        buffers.key_starts[record], buffers.key_sizes[record] = start, size
    field = (flags >> COUNTED_SHIFT) - 1
    if field >= 0:
        if buffers.kinds[field, record] != NO_KIND:
            return UNDECIDED
        kind = interned_value(interned, alphas_owner(program) + 2 * field + (3 if is_text else 2), data, start, size)
        if kind == TABLE_FULL or kind == REFUSED:
            return NO_ROOM if kind == TABLE_FULL else UNDECIDED
        buffers.kinds[field, record] = kind
    if flags & ALPHA_FLAG:
        if buffers.alphas[record]:
            return UNDECIDED
        alpha = interned_value(interned, alphas_owner(program) + (1 if is_text else 0), data, start, size)
        if alpha == TABLE_FULL or alpha == REFUSED:
            return NO_ROOM if alpha == TABLE_FULL else UNDECIDED
        buffers.alphas[record] = alpha
    return DECODED


@inlined
def is_first_code(program: Program, buffers: ScanBuffers, attribute: int, element: int) -> bool:
    """Count a code or number. Return False if it is not the first one of its record or element."""
    if buffers.progress[LAST_FOUND, attribute] == element + 1:
        return False
    buffers.progress[LAST_FOUND, attribute] = element + 1
    buffers.progress[CODE_COUNT, attribute] += 1
    return True


@inlined
def read_role(
    program: Program,
    interned: InternArrays,
    buffers: ScanBuffers,
    role: int,
    data: UInt8Array,
    start: int,
    size: int,
) -> int:
    """Read the text of a code, label or copy, and fill in its placeholder. Return DECODED, UNDECIDED or NO_ROOM."""
    attribute, kind = program.role_attributes[role], program.role_kinds[role]
    element = buffers.role_progress[CURRENT_ELEMENT, role] if program.role_in_list[role] else 0
    index = (
        buffers.counters[FIRST_VALUE_COUNT + attribute] + element
        if program.is_array[attribute]
        else buffers.counters[DECODED_COUNT]
    )
    if kind == CODE_ROLE:
        value = interned_value(interned, attribute, data, start, size)
        if value == TABLE_FULL or value == REFUSED:
            return NO_ROOM if value == TABLE_FULL else UNDECIDED
        buffers.values[attribute, index] = value
        if not is_first_code(program, buffers, attribute, element):
            return UNDECIDED
    else:
        buffers.progress[COMPANION_COUNT, attribute] = max(buffers.progress[COMPANION_COUNT, attribute], element + 1)
    use = LABEL_PLACEHOLDER if kind == LABEL_ROLE else CODE_PLACEHOLDER
    buffers.placeholder_uses[buffers.counters[PLACEHOLDER_COUNT]] = (
        (index * program.keeps_missing.size + attribute) << PLACEHOLDER_SHIFT
    ) | use
    return DECODED


@inlined
def read_number(program: Program, buffers: ScanBuffers, role: int, data: UInt8Array, start: int, size: int) -> bool:
    """Read a number to mask, and fill in its placeholder. Return False if the record is left undecided."""
    attribute, record = program.role_attributes[role], buffers.counters[DECODED_COUNT]
    column, value = attribute - program.is_array.size, number_value(data, start, size)
    lower, upper = program.number_bounds[column, 0], program.number_bounds[column, 1]
    whole = program.number_bounds[column, 2]
    if not lower <= value <= upper or (whole and value != np.floor(value)):
        return False
    buffers.numbers[column, record] = value
    buffers.placeholder_uses[buffers.counters[PLACEHOLDER_COUNT]] = (
        record * program.keeps_missing.size + attribute
    ) << PLACEHOLDER_SHIFT
    return bool(is_first_code(program, buffers, attribute, 0))


@inlined
def read_null(program: Program, buffers: ScanBuffers, role: int) -> bool:
    """Record a null where a role's path ends. Return False if the record is left undecided."""
    attribute, kind = program.role_attributes[role], program.role_kinds[role]
    if kind != CODE_ROLE and kind != NUMBER_ROLE:
        return True
    element = buffers.role_progress[CURRENT_ELEMENT, role] if program.role_in_list[role] else 0
    return bool(program.keeps_missing[attribute] and is_first_code(program, buffers, attribute, element))


@inlined
def is_complete(program: Program, buffers: ScanBuffers) -> bool:
    """Return whether a scanned record has all required values, and no label or copy without an element of its own."""
    for attribute in range(program.is_array.size):
        keeps_missing, codes = program.keeps_missing[attribute], buffers.progress[CODE_COUNT, attribute]
        if program.is_array[attribute]:
            elements, has_list = buffers.progress[ELEMENT_COUNT, attribute], buffers.progress[LIST_FOUND, attribute]
            if buffers.progress[COMPANION_COUNT, attribute] > elements:
                return False
            if not keeps_missing and (not has_list or codes < elements):
                return False
        elif not keeps_missing and not codes:
            return False
    for attribute in range(program.is_array.size, program.keeps_missing.size):
        if not program.keeps_missing[attribute] and not buffers.progress[CODE_COUNT, attribute]:
            return False
    for role in range(program.role_kinds.size):
        if program.role_kinds[role] == NOISE_KEY_ROLE and buffers.key_starts[buffers.counters[DECODED_COUNT]] < 0:
            return False
    return True


@inlined
def start_record(program: Program, buffers: ScanBuffers) -> None:
    """Reset the data that the buffers hold of a single record, before the next one is scanned."""
    record = buffers.counters[DECODED_COUNT]
    buffers.key_starts[record], buffers.key_sizes[record], buffers.alphas[record] = -1, 0, 0
    for field in range(buffers.kinds.shape[0]):
        buffers.kinds[field, record] = NO_KIND
    for attribute in range(program.keeps_missing.size):
        for row in range(5):
            buffers.progress[row, attribute] = 0
    for attribute in range(program.is_array.size):
        if not program.is_array[attribute]:
            buffers.values[attribute, record] = NO_VALUE
    for attribute in range(program.number_bounds.shape[0]):
        buffers.numbers[attribute, record] = np.nan
    for role in range(program.role_kinds.size):
        buffers.role_progress[LIST_SEEN, role] = 0
