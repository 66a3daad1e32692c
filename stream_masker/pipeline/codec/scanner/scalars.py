"""Scalars: strings, numbers, true, false and null. They are read, given to roles, and written or replaced."""

from __future__ import annotations

from typing import NamedTuple

from stream_masker.core.dtypes import UInt8Array
from stream_masker.core.kernels.jit import inlined, int64
from stream_masker.pipeline.codec.roles import NUMBER_ROLE
from stream_masker.pipeline.codec.scanner.buffers import (
    DECODED,
    FIRST_TRANSFORM_KIND,
    PLACEHOLDER_COUNT,
    PSEUDONYM_KIND,
    REWRITTEN_KIND,
    UNDECIDED,
    ScanBuffers,
)
from stream_masker.pipeline.codec.scanner.extraction import read_control, read_null, read_number, read_role
from stream_masker.pipeline.codec.scanner.items import Item, add_placeholder, drop_item, start_item
from stream_masker.pipeline.codec.scanner.lookups import InternArrays
from stream_masker.pipeline.codec.scanner.program import (
    ALPHA_FLAG,
    CONTROL_FLAGS,
    DROP_VALUE,
    FIRST_TRANSFORM,
    KEEP_VALUE,
    MASKED_ROLE,
    NOISE_KEY_FLAG,
    NULL_ACTION,
    PSEUDONYMIZE_VALUE,
    SCALAR_ACTION,
    UNSUPPORTED,
    Program,
)
from stream_masker.pipeline.codec.scanner.tokens import (
    FALSE,
    NULL,
    REWRITTEN,
    TEXT,
    TRUE,
    UNESCAPED,
    any_number_end,
    copy_bytes,
    number_end,
    put_string,
    string_end,
    word_end,
)


class Scalar(NamedTuple):
    """A scalar. after: the index after it; stop: after what is written of it, at most 0 if it is not a scalar;
    escapes: UNESCAPED, ESCAPED or REWRITTEN, also for a number; is_text: a string; is_word: true, false or null."""

    after: int
    stop: int
    escapes: int
    is_text: bool
    is_word: bool


@inlined
def read_scalar(data: UInt8Array, at: int, end: int) -> Scalar:
    """Return the scalar at an index."""
    first = data[at]
    if first == TEXT:
        stop, escapes = string_end(data, at + 1, end)
        return Scalar(stop + 1, stop + 1, escapes, True, False)
    if first == NULL or first == TRUE or first == FALSE:
        stop = word_end(data, at, end)
        return Scalar(stop, stop, UNESCAPED, False, True)
    after, stop = number_end(data, at, end)
    if stop > 0:
        return Scalar(after, stop, UNESCAPED, False, False)
    stop = any_number_end(data, at, end)
    return Scalar(stop, stop, REWRITTEN, False, False)


@inlined
def action_on(program: Program, state: int, is_null: bool) -> int:
    """Return what the field policy does with a scalar."""
    return int64(program.states[state, NULL_ACTION if is_null else SCALAR_ACTION])


@inlined
def extract_scalar(
    data: UInt8Array, item: Item, scalar: Scalar, program: Program, interned: InternArrays, buffers: ScanBuffers
) -> int:
    """Read a scalar as a noise key, an alpha, a counted field or a value to mask, if it is one.

    Return DECODED, UNDECIDED or NO_ROOM. A counted field that is true, false or null counts as not there.
    """
    is_null, is_escaped = data[item.value] == NULL, scalar.escapes != UNESCAPED
    start, size = text_of(item, scalar)
    flags, role = program.states[item.state, CONTROL_FLAGS], program.states[item.state, MASKED_ROLE]
    action = action_on(program, item.state, is_null)
    if scalar.is_word:
        flags &= NOISE_KEY_FLAG | ALPHA_FLAG
    if action == UNSUPPORTED or (flags and (is_escaped or scalar.is_word)):
        return UNDECIDED
    if flags:
        outcome = read_control(program, interned, buffers, flags, data, start, size, scalar.is_text)
        if outcome != DECODED:
            return outcome
    if role < 0:
        return UNDECIDED if action == PSEUDONYMIZE_VALUE and is_escaped else DECODED
    if is_null:
        return DECODED if read_null(program, buffers, role) else UNDECIDED
    is_number = program.role_kinds[role] == NUMBER_ROLE
    if is_escaped or is_number == scalar.is_text or scalar.is_word:
        return UNDECIDED
    if is_number:
        return DECODED if read_number(program, buffers, role, data, start, size) else UNDECIDED
    return read_role(program, interned, buffers, role, data, start, size)


@inlined
def text_of(item: Item, scalar: Scalar) -> tuple[int, int]:
    """Return the start and the size of a scalar's text, a string's without its quotes."""
    return (item.value + 1, scalar.stop - item.value - 2) if scalar.is_text else (item.value, scalar.stop - item.value)


@inlined
def write_scalar(
    data: UInt8Array, item: Item, scalar: Scalar, program: Program, buffers: ScanBuffers, depth: int, to: int
) -> int:
    """Write an item whose value is a scalar, or its placeholder, unless it is dropped. Return the index after it."""
    is_null, role = data[item.value] == NULL, program.states[item.state, MASKED_ROLE]
    action = action_on(program, item.state, is_null)
    if action == DROP_VALUE:
        drop_item(program, buffers, depth)
        return to
    to = start_item(data, item, buffers, depth, to)
    if action == KEEP_VALUE and (role < 0 or is_null) and (scalar.is_text or scalar.escapes == UNESCAPED):
        if scalar.escapes == REWRITTEN:
            return put_string(data, item.value, scalar.stop, buffers.out, to)
        return copy_bytes(data, item.value, scalar.stop - item.value, buffers.out, to)
    if role >= 0:
        buffers.placeholder_starts[buffers.counters[PLACEHOLDER_COUNT]] = to
        buffers.counters[PLACEHOLDER_COUNT] += 1
    elif action >= FIRST_TRANSFORM:
        kind = FIRST_TRANSFORM_KIND + action - FIRST_TRANSFORM
        add_placeholder(buffers, kind, item.value, scalar.after - item.value, to)
    else:
        start, size = text_of(item, scalar)
        add_placeholder(buffers, REWRITTEN_KIND if action == KEEP_VALUE else PSEUDONYM_KIND, start, size, to)
    return to
