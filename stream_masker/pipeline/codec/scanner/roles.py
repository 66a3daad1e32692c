"""What the scanner notes of codes and what belongs to them, of numbers, noise keys and alphas."""

from __future__ import annotations

from typing import Final

import numpy as np

from stream_masker.core.dtypes import UInt8Array
from stream_masker.core.kernels.jit import inlined, int64
from stream_masker.pipeline.codec.attributes import LABEL_PLACEHOLDER as LABEL_GAP
from stream_masker.pipeline.codec.attributes import NO_VALUE, PLACEHOLDER_SHIFT
from stream_masker.pipeline.codec.roles import CODE_ROLE, LABEL_ROLE, NOISE_KEY_ROLE, NUMBER_ROLE
from stream_masker.pipeline.codec.scanner.buffers import (
    ASIDES,
    CODES,
    DONE,
    ELEMENTS,
    FOUND,
    LEFT,
    LISTED,
    SEEN,
    SIZES,
    STOPPED,
    TAKEN,
    VALUES,
    ScanBuffers,
)
from stream_masker.pipeline.codec.scanner.lookups import DEFERRED, FULL, REFUSED, InternArrays, interned_value
from stream_masker.pipeline.codec.scanner.program import FIRST_MARK, KEYED, MARKS, Program
from stream_masker.pipeline.codec.scanner.tokens import number_value
from stream_masker.pipeline.style import LOWER, OWN_CASE, UPPER

MIXED: Final = 0
"""What ``letters_of`` says of a text whose case only Unicode's rules tell."""


@inlined
def owner_of_copies(program: Program, attribute: int) -> int:
    """The owner of the texts of an attribute's copies; of its codes it is the attribute itself."""
    return program.arrays.size + attribute


@inlined
def owner_of_cases(program: Program) -> int:
    """The owner of labels, for their case; the next two owners are those of alphas as numbers and as texts."""
    return 2 * program.arrays.size


@inlined
def letters_of(data: UInt8Array, start: int, size: int) -> int:
    """The case of a label's letters (``style.letter_case``), or MIXED."""
    lower, upper, wide = False, False, False
    for at in range(start, start + size):
        byte = data[at]
        lower |= 97 <= byte <= 122
        upper |= 65 <= byte <= 90
        wide |= byte > 127
        if lower and upper:
            return OWN_CASE
    if wide:
        return MIXED
    return LOWER if lower else UPPER if upper else OWN_CASE


@inlined
def is_blank(data: UInt8Array, start: int, size: int) -> bool:
    """Whether a text may be white space only: it has no visible character of ASCII."""
    for at in range(start, start + size):
        if 32 < data[at] < 127:
            return False
    return True


@inlined
def enters_list(program: Program, state: int, work: ScanBuffers) -> bool:
    """Notes the list whose elements some roles' paths go on in; False when such a path leads to a second list."""
    for k in range(program.states[state, MARKS]):
        role = program.marks[program.states[state, FIRST_MARK] + k]
        if work.roles[SEEN, role]:
            return False
        work.roles[SEEN, role] = 1
        if program.role_kinds[role] == CODE_ROLE:
            work.attributes[LISTED, program.role_attributes[role]] = 1
    return True


@inlined
def enters_element(program: Program, state: int, place: int, work: ScanBuffers) -> None:
    """Notes the element that some roles' paths go on in."""
    for k in range(program.states[state, MARKS]):
        role = program.marks[program.states[state, FIRST_MARK] + k]
        work.roles[ELEMENTS, role] = place
        if program.role_kinds[role] == CODE_ROLE:
            attribute = program.role_attributes[role]
            work.values[attribute, work.counters[VALUES + attribute] + place] = NO_VALUE
            work.attributes[SIZES, attribute] = place + 1


@inlined
def reads_control(
    program: Program,
    known: InternArrays,
    work: ScanBuffers,
    flags: int,
    data: UInt8Array,
    start: int,
    size: int,
    is_text: bool,
) -> int:
    """Reads a noise key or an alpha: TAKEN, LEFT or STOPPED."""
    done = work.counters[DONE]
    if flags & KEYED:
        if work.key_starts[done] >= 0 or (is_text and is_blank(data, start, size)):
            return LEFT
        work.key_starts[done], work.key_sizes[done] = start, size
    if flags > KEYED:
        if work.alphas[done]:
            return LEFT
        alpha = interned_value(known, owner_of_cases(program) + (2 if is_text else 1), data, start, size)
        if alpha == FULL or alpha == REFUSED:
            return STOPPED if alpha == FULL else LEFT
        work.alphas[done] = alpha
    return TAKEN


@inlined
def finds_code(program: Program, work: ScanBuffers, attribute: int, element: int) -> bool:
    """Notes that a code stands here; False when it is not the first one of its record or element."""
    if work.attributes[FOUND, attribute] == element + 1:
        return False
    work.attributes[FOUND, attribute] = element + 1
    work.attributes[CODES, attribute] += 1
    return True


@inlined
def reads_role(
    program: Program,
    known: InternArrays,
    work: ScanBuffers,
    role: int,
    gap: int,
    data: UInt8Array,
    start: int,
    size: int,
) -> int:
    """Reads the text of a code, label or copy, and makes number ``gap`` of the gaps: TAKEN, LEFT or STOPPED."""
    attribute, kind = program.role_attributes[role], program.role_kinds[role]
    element = work.roles[ELEMENTS, role] if program.role_arrays[role] else 0
    number = work.counters[VALUES + attribute] + element if program.arrays[attribute] else work.counters[DONE]
    use, unknown = int64(0), int64(0)
    if kind == CODE_ROLE:
        value = interned_value(known, attribute, data, start, size)
        if value != FULL and value != REFUSED:
            work.values[attribute, number] = value
            if not finds_code(program, work, attribute, element):
                return LEFT
    else:
        work.attributes[ASIDES, attribute] = max(work.attributes[ASIDES, attribute], element + 1)
        value = int64(letters_of(data, start, size)) if kind == LABEL_ROLE else int64(MIXED)
        if value == MIXED:
            owner = owner_of_cases(program) if kind == LABEL_ROLE else owner_of_copies(program, attribute)
            value = interned_value(known, owner, data, start, size)
        if value <= DEFERRED:
            unknown = DEFERRED - value + 1
        else:
            use = value
        if kind == LABEL_ROLE:
            use |= LABEL_GAP
    if value == FULL or value == REFUSED:
        return STOPPED if value == FULL else LEFT
    work.gap_uses[gap] = ((number * program.kept_missing.size + attribute) << PLACEHOLDER_SHIFT) | use
    work.gap_sizes[gap] = unknown
    return TAKEN


@inlined
def reads_number(
    program: Program, work: ScanBuffers, role: int, gap: int, data: UInt8Array, start: int, size: int
) -> bool:
    """Reads a number to mask, and makes number ``gap`` of the gaps; False when the record is left to others."""
    attribute, done = program.role_attributes[role], work.counters[DONE]
    column, value = attribute - program.arrays.size, number_value(data, start, size)
    lower, upper = program.number_bounds[column, 0], program.number_bounds[column, 1]
    whole = program.number_bounds[column, 2]
    if not lower <= value <= upper or (whole and value != np.floor(value)):
        return False
    work.numbers[column, done] = value
    work.gap_uses[gap] = (done * program.kept_missing.size + attribute) << PLACEHOLDER_SHIFT
    work.gap_sizes[gap] = 0
    return bool(finds_code(program, work, attribute, 0))


@inlined
def reads_null(program: Program, work: ScanBuffers, role: int) -> bool:
    """Notes that null stands where a role's path ends; False when the record is left to others."""
    attribute, kind = program.role_attributes[role], program.role_kinds[role]
    if kind != CODE_ROLE and kind != NUMBER_ROLE:
        return True
    element = work.roles[ELEMENTS, role] if program.role_arrays[role] else 0
    return bool(program.kept_missing[attribute] and finds_code(program, work, attribute, element))


@inlined
def is_whole(program: Program, work: ScanBuffers) -> bool:
    """Whether a record that was read has all that it must have, and no label or copy too many."""
    for attribute in range(program.arrays.size):
        kept, codes = program.kept_missing[attribute], work.attributes[CODES, attribute]
        if program.arrays[attribute]:
            sizes, listed = work.attributes[SIZES, attribute], work.attributes[LISTED, attribute]
            if work.attributes[ASIDES, attribute] > sizes or (not kept and (not listed or codes < sizes)):
                return False
        elif not kept and not codes:
            return False
    for attribute in range(program.arrays.size, program.kept_missing.size):
        if not program.kept_missing[attribute] and not work.attributes[CODES, attribute]:
            return False
    for role in range(program.role_kinds.size):
        if program.role_kinds[role] == NOISE_KEY_ROLE and work.key_starts[work.counters[DONE]] < 0:
            return False
    return True


@inlined
def starts(program: Program, work: ScanBuffers) -> None:
    """Makes ready for the next record."""
    done = work.counters[DONE]
    work.key_starts[done], work.key_sizes[done], work.alphas[done] = -1, 0, 0
    for attribute in range(program.kept_missing.size):
        for what in range(5):
            work.attributes[what, attribute] = 0
    for attribute in range(program.arrays.size):
        if not program.arrays[attribute]:
            work.values[attribute, done] = NO_VALUE
    for attribute in range(program.number_bounds.shape[0]):
        work.numbers[attribute, done] = np.nan
    for role in range(program.role_kinds.size):
        work.roles[SEEN, role] = 0
