"""JSON tokens (RFC 8259) in bytes: kernels that find where tokens end, and that write them as the encoder does.

The kernels depend only on ``data`` from ``at`` to ``end`` (exclusive), although they may read ``PADDING`` bytes more.
The result ``NOT`` (-1) means that the bytes are not a token, or one that these kernels might write unlike the encoder.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from stream_masker.core.dtypes import UInt8Array
from stream_masker.core.kernels.bits import lowest_bit, put_word, word_at
from stream_masker.core.kernels.jit import inlined, int64

NOT: Final = -1

OBJECT_OPENS, OBJECT_CLOSES, LIST_OPENS, LIST_CLOSES = 123, 125, 91, 93
COMMA, COLON, TEXT, FALSE, NULL, TRUE = 44, 58, 34, 102, 110, 116
"""The first bytes of tokens."""

PADDING: Final = 8
"""The number of zeros that must follow the last byte of an array, so that words of eight bytes can be read."""

LOW_BIT_OF_BYTES: Final = np.uint64(0x0101010101010101)
HIGH_BIT_OF_BYTES: Final = np.uint64(0x8080808080808080)
SPACES: Final = np.uint64(0x2020202020202020)
QUOTES: Final = np.uint64(0x2222222222222222)
BACKSLASHES: Final = np.uint64(0x5C5C5C5C5C5C5C5C)
"""Words of eight equal bytes."""

ALL: Final = np.uint64(0xFFFFFFFFFFFFFFFF)
ENDS: Final = np.array([(1 << (8 * size)) - 1 for size in range(8)], np.uint64)
"""Masks for the first ``size`` bytes of a word."""

UNESCAPED, ESCAPED, REWRITTEN = range(3)
"""Whether a string has no escapes, escapes that are written unchanged, or one that is written in another way."""

SHORT_ESCAPES: Final = np.zeros(256, np.uint8)
for _letter, _character in zip(b'"\\/bfnrt', b'"\\/\b\f\n\r\t', strict=True):
    SHORT_ESCAPES[_letter] = _character
"""The character of each one-letter escape; 0 for other letters."""

LETTERS_OF_ESCAPES: Final = np.array([117] * 32 + [0] * 96, np.uint8)
for _letter, _character in zip(b'"\\bfnrt', b'"\\\b\f\n\r\t', strict=True):
    LETTERS_OF_ESCAPES[_character] = _letter
"""The letter of the escape that an ASCII character is written as; 0 for characters that are not escaped."""

MAX_DIGITS: Final = 18
"""Every integer of up to this many digits fits into 64 bits."""

MAX_SIGNIFICANT: Final = 15
"""A decimal of up to this many significant digits is the shortest one that represents its 64-bit float."""

MAX_LEADING_ZEROS: Final = 3
"""A number with more zeros after the decimal point is written with an exponent."""

MAX_MAGNITUDE: Final = 308
MAX_EXPONENT_DIGITS: Final = 3

LEAST_OF_20_DIGITS: Final = np.uint64(10**19)
HIGH_BIT: Final = np.uint64(1 << 63)

TENS: Final = 10.0 ** np.arange(23)
"""The powers of ten that are exact 64-bit floats."""


@inlined
def after_space(data: UInt8Array, at: int, end: int) -> int:
    """Return the first index from ``at`` on that is not white space."""
    while at < end and data[at] <= 32 and (data[at] == 32 or data[at] == 10 or data[at] == 13 or data[at] == 9):
        at += 1
    return at


@inlined
def follows(data: UInt8Array, at: int, end: int, low: int, high: int) -> bool:
    """Return whether the byte at an index is between ``low`` and ``high``."""
    return at < end and low <= data[at] <= high


@inlined
def after_wide(data: UInt8Array, at: int, end: int) -> int:
    """Return the end of a non-ASCII character in UTF-8 (RFC 3629, section 4), or NOT."""
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
def hex_value(data: UInt8Array, at: int, end: int) -> int:
    """Return the value of four hexadecimal digits, or NOT."""
    if at + 4 > end:
        return NOT
    value = int64(0)
    for k in range(at, at + 4):
        byte = int64(data[k])
        if 48 <= byte <= 57:
            value = 16 * value + byte - 48
        elif 65 <= byte <= 70 or 97 <= byte <= 102:
            value = 16 * value + (byte & 7) + 9
        else:
            return NOT
    return value


@inlined
def escaped_character(data: UInt8Array, at: int, end: int) -> tuple[int, int]:
    """Return the character and the end of an escape; NOT for anything else, and for a lone surrogate."""
    what = int64(data[at + 1]) if at + 1 < end else 0
    if what != 117:
        short = int64(SHORT_ESCAPES[what])
        return (short, at + 2) if short else (NOT, NOT)
    value, after = hex_value(data, at + 2, end), at + 6
    if value < 0xD800 or value > 0xDFFF:
        return value, after
    low = hex_value(data, at + 8, end) if after + 1 < end and data[after] == 92 and data[after + 1] == 117 else NOT
    if value > 0xDBFF or low < 0xDC00 or low > 0xDFFF:
        return NOT, NOT
    return 0x10000 + ((value - 0xD800) << 10) + (low - 0xDC00), at + 12


@inlined
def after_escape(data: UInt8Array, at: int, end: int) -> tuple[int, bool]:
    r"""Return the end of an escape, or NOT; and whether it is written unchanged, unlike ``\/`` and ``\u...``."""
    character, after = escaped_character(data, at, end)
    if character < 0:
        return NOT, False
    return after, data[at + 1] != 117 and character != 47


@inlined
def put_character(character: int, out: UInt8Array, to: int) -> int:
    """Write a character of a string as the encoder does, in at most six bytes. Return the index after it."""
    if character >= 0x80:
        if character >= 0x10000:
            out[to], out[to + 1] = 0xF0 | character >> 18, 0x80 | (character >> 12 & 63)
            to += 2
        elif character >= 0x800:
            out[to] = 0xE0 | character >> 12
            to += 1
        if character >= 0x800:
            out[to] = 0x80 | (character >> 6 & 63)
        else:
            out[to] = 0xC0 | character >> 6
        out[to + 1] = 0x80 | (character & 63)
        return to + 2
    short = LETTERS_OF_ESCAPES[character]
    if short == 0:
        out[to] = character
        return to + 1
    out[to], out[to + 1] = 92, short
    if short != 117:
        return to + 2
    out[to + 2], out[to + 3], out[to + 4] = 48, 48, 48 + (character >> 4)
    low = character & 15
    out[to + 5] = 48 + low if low < 10 else 87 + low
    return to + 6


@inlined
def put_string(data: UInt8Array, at: int, stop: int, out: UInt8Array, to: int) -> int:
    """Write a valid string, from quote to quote, as the encoder does. Return the index after it."""
    while at < stop:
        if data[at] == 92:
            character, at = escaped_character(data, at, stop)
            to = put_character(character, out, to)
        else:
            out[to] = data[at]
            to += 1
            at += 1
    return to


@inlined
def after_plain(data: UInt8Array, at: int) -> int:
    """Return the first index from ``at`` on whose byte is not plain; eight bytes are compared at a time.

    A byte is not plain when it is a quote, a backslash, below a space or beyond ASCII. In each eight bytes the bit 7 of
    the first such byte is set in ``odd``, and never that of an earlier one. There must be one before the array's end.
    """
    while True:
        word = word_at(data, at)
        quote, backslash = word ^ QUOTES, word ^ BACKSLASHES
        below = (
            ((quote - LOW_BIT_OF_BYTES) & ~quote)
            | ((backslash - LOW_BIT_OF_BYTES) & ~backslash)
            | ((word - SPACES) & ~word)
        )
        odd = (below | word) & HIGH_BIT_OF_BYTES
        if odd:
            return at + (lowest_bit(odd) >> 3)
        at += 8


@inlined
def string_end(data: UInt8Array, at: int, end: int) -> tuple[int, int]:
    """Return the index of the closing quote, or NOT; and UNESCAPED, ESCAPED or REWRITTEN. at: after the opening
    quote."""
    escapes = UNESCAPED
    while at >= 0:
        at = after_plain(data, at)
        if at >= end or data[at] < 32:
            return NOT, escapes
        if data[at] == 34:
            return at, escapes
        if data[at] == 92:
            at, same = after_escape(data, at, end)
            escapes = max(escapes, ESCAPED if same else REWRITTEN)
        else:
            at = after_wide(data, at, end)
    return NOT, escapes


@inlined
def first_word(data: UInt8Array, start: int, size: int) -> np.uint64:
    """Return the first eight bytes of a text as one integer; a shorter text is followed by zeros."""
    return word_at(data, start) & (ENDS[size] if size < 8 else ALL)


@inlined
def same_bytes(data: UInt8Array, start: int, other: UInt8Array, at: int, size: int) -> bool:
    """Return whether ``size`` bytes of two arrays are equal."""
    for k in range(0, size, 8):
        differing = word_at(data, start + k) ^ word_at(other, at + k)
        if size - k < 8:
            differing &= ENDS[size - k]
        if differing:
            return False
    return True


@inlined
def copy_bytes(data: UInt8Array, start: int, size: int, out: UInt8Array, to: int) -> int:
    """Copy ``size`` bytes, and up to seven more. Return the index after the ``size`` bytes."""
    for k in range(0, size, 8):
        put_word(out, to + k, word_at(data, start + k))
    return to + size


@inlined
def after_digits(data: UInt8Array, at: int, end: int) -> int:
    """Return the first index from ``at`` on that is not a digit."""
    while at < end and 48 <= data[at] <= 57:
        at += 1
    return at


@inlined
def number_end(data: UInt8Array, at: int, end: int) -> tuple[int, int]:
    """Return the end of a number, and the end of what is written of it, which excludes final zeros of a fraction; or
    NOT.

    Exponents, integers of more than 18 digits, more than 15 significant digits, and minus zero are not covered.
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
        return (after, after) if whole <= MAX_DIGITS and (data[first] > 48 or first == at) else (NOT, NOT)
    return after, fraction_end(data, first, point, after)


@inlined
def any_number_end(data: UInt8Array, at: int, end: int) -> int:
    """Return the end of a number that a decoder reads without an error, written in any way; or NOT.

    Integers have 64 bits. Other numbers are below 10^``MAX_MAGNITUDE``, so that their float is finite.
    """
    first = at + 1 if data[at] == 45 else at
    point = after_digits(data, first, end)
    whole = point - first
    if whole == 0 or (data[first] == 48 and whole > 1):
        return NOT
    fraction = point < end and data[point] == 46
    after = after_digits(data, point + 1, end) if fraction else point
    if fraction and after == point + 1:
        return NOT
    if after < end and (data[after] == 69 or data[after] == 101):
        signed = after + 1 < end and (data[after + 1] == 43 or data[after + 1] == 45)
        digits = after + 2 if signed else after + 1
        after = after_digits(data, digits, end)
        if after == digits or after > digits + MAX_EXPONENT_DIGITS:
            return NOT
        exponent = int64(0)
        if data[digits - 1] != 45:
            for k in range(digits, after):
                exponent = 10 * exponent + int64(data[k]) - 48
            whole += exponent
    elif not fraction:
        return after if is_long(data, first, whole, first > at) else NOT
    return after if whole <= MAX_MAGNITUDE else NOT


@inlined
def is_long(data: UInt8Array, first: int, digits: int, negative: bool) -> bool:
    """Return whether an integer of ``digits`` digits fits into 64 bits. ``negative``: whether it has a minus sign."""
    if digits > 20:
        return False
    value = np.uint64(0)
    for k in range(first, first + digits):
        value = value * np.uint64(10) + np.uint64(int64(data[k]) - 48)
    if digits == 20:
        return bool(not negative and data[first] == 49 and value >= LEAST_OF_20_DIGITS)
    return bool(not negative or value <= HIGH_BIT)


@inlined
def fraction_end(data: UInt8Array, first: int, point: int, after: int) -> int:
    """Return the end of what is written of a decimal; NOT if it may be written in another way."""
    last = after
    while last > point + 2 and data[last - 1] == 48:
        last -= 1
    leading = point + 1
    if data[first] == 48:
        while leading < last and data[leading] == 48:
            leading += 1
    few = leading - point - 1 <= MAX_LEADING_ZEROS
    digits = last - leading + (0 if data[first] == 48 else point - first)
    return last if after > point + 1 and few and digits <= MAX_SIGNIFICANT else NOT


@inlined
def number_value(data: UInt8Array, start: int, size: int) -> float:
    """Return the 64-bit float of a number that ``number_end`` covers: the quotient of two exact floats, correctly
    rounded."""
    digits, fraction, pointed = int64(0), 0, False
    for at in range(start, start + size):
        byte = int64(data[at])
        if 48 <= byte <= 57:
            digits = 10 * digits + byte - 48
            fraction += 1 if pointed else 0
        else:
            pointed |= byte == 46
    value = np.float64(digits) / TENS[fraction]
    return -value if data[start] == 45 else value


@inlined
def word_end(data: UInt8Array, at: int, end: int) -> int:
    """Return the end of ``true``, ``false`` or ``null``, or NOT."""
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
