"""Cache lines of the index: ancestor signatures and lines of ancestors."""

from __future__ import annotations

import numpy as np

from stream_masker.core.dtypes import Int32Array, UInt8Array, UInt64Array
from stream_masker.core.kernels.jit import int64, part

SIGNATURE_WORDS = 8
"""uint64 words of an ancestor signature."""

ANCESTOR_LINE = 16
"""int32 entries of a line of ancestors.

An entry is an ancestor's position << ``PATH_BITS`` | the links of the path up to it. A negative entry is not an
ancestor.
"""
PATH_BITS = 8
"""The number of low bits of an entry that hold the links of the path."""


@part
def has_common_bit(words: UInt64Array, at: int, mask: UInt64Array) -> bool:
    """Return whether ``words[at : at + 8] & mask[:8]`` has any bit set."""
    found = np.uint64(0)
    for i in range(SIGNATURE_WORDS):
        found |= words[at + i] & mask[i]
    return bool(found != np.uint64(0))


@part
def marked_on_line(lines: Int32Array, at: int, marks: UInt8Array) -> np.uint64:
    """Return the marks of the ancestors on a line: bit 2 · i + side is set if ``marks[2 * x + side] != 0``.

    x is the position in the i-th entry. The line starts at index ``at``. marks: two bytes for each concept, one for
    each side.
    """
    word = np.uint64(0)
    for i in range(ANCESTOR_LINE):
        if lines[at + i] >= 0:
            x = int64(lines[at + i]) >> PATH_BITS
            for side in range(2):
                if marks[2 * x + side] != 0:
                    word |= np.uint64(1) << np.uint64(2 * i + side)
    return word
