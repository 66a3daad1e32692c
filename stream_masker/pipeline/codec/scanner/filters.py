"""Filters of paths, ``[?field=value]``, evaluated on a record's bytes.

A filter looks ahead into an element that has not been scanned yet. Its result does not matter if the bytes are not
JSON, or if a key occurs twice: the scanner then leaves the record undecided when it reaches the element.
"""

from __future__ import annotations

from typing import Final

from stream_masker.core.dtypes import UInt8Array
from stream_masker.core.kernels.jit import inlined
from stream_masker.pipeline.codec.scanner.program import Program
from stream_masker.pipeline.codec.scanner.tokens import NOT, after_space, same_bytes

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
