"""JSON's tokens (RFC 8259) in bytes: kernels that find their ends, and refuse what is not surely written back as it is.

Every one reads ``data`` from ``at`` to before ``end`` and nowhere else; ``NOT`` (-1) says that the token is none, or
none that these kernels vouch for.
"""

from __future__ import annotations

import secrets
from typing import Final

import numpy as np

from stream_masker.core.compiling import inlined, kernel

NOT: Final = -1

PLAIN, QUOTE, BACKSLASH, CONTROL, WIDE = range(5)
"""Kinds of bytes in a string."""

KINDS: Final = np.array(
    [
        CONTROL if byte < 32 else QUOTE if byte == 34 else BACKSLASH if byte == 92 else WIDE if byte > 127 else PLAIN
        for byte in range(256)
    ],
    np.uint8,
)

MOST_DIGITS: Final = 18
"""Integers of so many digits surely have 64 bits."""

MOST_SIGNIFICANT: Final = 15
"""Of so many significant digits every decimal is the shortest that reads as its 64-bit float."""

MOST_LEADING: Final = 3
"""Zeros behind the point of a small number before it is written with an exponent."""

SEED: Final = np.uint64(secrets.randbits(64))
"""What hashes start from, so that nobody can look for texts that collide."""

PRIME: Final = np.uint64(0x9E3779B97F4A7C15)
TURN: Final = np.uint64(29)


@inlined
def after_space(data, at, end):  # type: ignore[no-untyped-def]
    """The first place from ``at`` on that is no white space."""
    while at < end and (data[at] == 32 or data[at] == 10 or data[at] == 13 or data[at] == 9):
        at += 1
    return at


@inlined
def follows(data, at, end, low, high):  # type: ignore[no-untyped-def]
    """Whether a byte in a range stands at a place."""
    return at < end and low <= data[at] <= high


@inlined
def after_wide(data, at, end):  # type: ignore[no-untyped-def]
    """The end of a character beyond ASCII in UTF-8, exactly (RFC 3629: section 4), or NOT."""
    first = data[at]
    if 0xC2 <= first <= 0xDF:
        return at + 2 if follows(data, at + 1, end, 0x80, 0xBF) else NOT
    low = 0xA0 if first == 0xE0 else 0x90 if first == 0xF0 else 0x80
    high = 0x9F if first == 0xED else 0x8F if first == 0xF4 else 0xBF
    if not (follows(data, at + 1, end, low, high) and follows(data, at + 2, end, 0x80, 0xBF)):
        return NOT
    if 0xE0 <= first <= 0xEF:
        return at + 3
    return at + 4 if 0xF0 <= first <= 0xF4 and follows(data, at + 3, end, 0x80, 0xBF) else NOT


@inlined
def after_escape(data, at, end):  # type: ignore[no-untyped-def]
    """The end of an escape that is written back as it is (not ``\\/`` nor ``\\u...``), or NOT."""
    if at + 1 >= end:
        return NOT
    what = data[at + 1]
    short = what == 34 or what == 92 or what == 98 or what == 102 or what == 110 or what == 114 or what == 116
    return at + 2 if short else NOT


@inlined
def string_end(data, at, end):  # type: ignore[no-untyped-def]
    """(place of the closing quote, whether there are escapes); ``at``: behind the opening quote."""
    escaped = False
    while at < end:
        kind = KINDS[data[at]]
        if kind == PLAIN:
            at += 1
        elif kind == QUOTE:
            return at, escaped
        elif kind == CONTROL:
            return NOT, escaped
        else:
            escaped |= kind == BACKSLASH
            at = after_wide(data, at, end) if kind == WIDE else after_escape(data, at, end)
            if at < 0:
                return NOT, escaped
    return NOT, escaped


@inlined
def key_end(data, at, end):  # type: ignore[no-untyped-def]
    """(place of the closing quote, hash) of a key without escapes."""
    found = SEED
    while at < end:
        kind = KINDS[data[at]]
        if kind == QUOTE:
            return at, found ^ (found >> TURN)
        after = at + 1
        if kind != PLAIN:
            after = after_wide(data, at, end) if kind == WIDE else NOT
            if after < 0:
                return NOT, found
        while at < after:
            found = (found ^ np.uint64(data[at])) * PRIME
            at += 1
    return NOT, found


@inlined
def text_hash(data, start, size):  # type: ignore[no-untyped-def]
    """The hash of some bytes; of a key the same as ``key_end`` gives."""
    found = SEED
    for at in range(start, start + size):
        found = (found ^ np.uint64(data[at])) * PRIME
    return found ^ (found >> TURN)


@kernel
def hash_of(data, size):  # type: ignore[no-untyped-def]
    """``text_hash`` of the first bytes, for Python."""
    return text_hash(data, 0, size)


@inlined
def same_bytes(data, start, other, at, size):  # type: ignore[no-untyped-def]
    """Whether ``size`` bytes of two arrays are the same."""
    for k in range(size):
        if data[start + k] != other[at + k]:
            return False
    return True


@inlined
def after_digits(data, at, end):  # type: ignore[no-untyped-def]
    """The first place from ``at`` on that holds no digit."""
    while at < end and 48 <= data[at] <= 57:
        at += 1
    return at


@inlined
def number_end(data, at, end):  # type: ignore[no-untyped-def]
    """(end, end of what is written of it: a fraction's last zeros are not) of a number, or (NOT, NOT).

    Left to others: exponents, integers of more than 18 digits, more than 15 significant digits, minus zero.
    """
    first = at + 1 if data[at] == 45 else at
    point = after_digits(data, first, end)
    whole = point - first
    if whole == 0 or (data[first] == 48 and whole > 1):
        return NOT, NOT
    fraction = point < end and data[point] == 46
    after = after_digits(data, point + 1, end) if fraction else point
    if after < end and (data[after] == 69 or data[after] == 101):
        return NOT, NOT
    if not fraction:
        return (after, after) if whole <= MOST_DIGITS and (data[first] > 48 or first == at) else (NOT, NOT)
    return after, fraction_end(data, first, point, after)


@inlined
def fraction_end(data, first, point, after):  # type: ignore[no-untyped-def]
    """The end of what is written of a decimal; NOT for one that may be written otherwise."""
    last = after
    while last > point + 2 and data[last - 1] == 48:
        last -= 1
    leading = point + 1
    if data[first] == 48:
        while leading < last and data[leading] == 48:
            leading += 1
    few = leading - point - 1 <= MOST_LEADING
    digits = last - leading + (0 if data[first] == 48 else point - first)
    return last if after > point + 1 and few and digits <= MOST_SIGNIFICANT else NOT


@inlined
def word_end(data, at, end):  # type: ignore[no-untyped-def]
    """The end of ``true``, ``false`` or ``null``, or NOT."""
    first = data[at]
    size = 5 if first == 102 else 4
    if at + size > end:
        return NOT
    if first == 102:
        right = data[at + 1] == 97 and data[at + 2] == 108 and data[at + 3] == 115 and data[at + 4] == 101
    elif first == 116:
        right = data[at + 1] == 114 and data[at + 2] == 117 and data[at + 3] == 101
    else:
        right = first == 110 and data[at + 1] == 117 and data[at + 2] == 108 and data[at + 3] == 108
    return at + size if right else NOT
