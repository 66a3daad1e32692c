"""Operations on whole cache lines, for kernels: ancestor signatures and lines of ancestors.

They are LLVM vector operations because a loop over the elements would not be vectorised. A processor with wide
registers runs each in a few instructions.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types

from stream_masker.core.kernels.intrinsics import LINE_BYTES
from stream_masker.core.kernels.jit import intrinsic

SIGNATURE_WORDS = 8
"""uint64 words of an ancestor signature: one cache line."""

ANCESTOR_LINE = LINE_BYTES // 4
"""int32 entries of a line of ancestors: one cache line.

An entry is an ancestor's position << ``PATH_BITS`` | the links of the path up to it. A negative entry is not an
ancestor.
"""
PATH_BITS = 8
"""The number of low bits of an entry that hold the links of the path."""

BYTE, MARK_PAIR, ENTRY, WORD = (ir.IntType(bits) for bits in (8, 16, 32, 64))
SIGNATURE = ir.VectorType(WORD, SIGNATURE_WORDS)
ENTRIES, MARK_PAIRS = ir.VectorType(ENTRY, ANCESTOR_LINE), ir.VectorType(MARK_PAIR, ANCESTOR_LINE)
MARKS = ir.VectorType(BYTE, 2 * ANCESTOR_LINE)


@intrinsic
def has_common_bit(_typing: Any, words: Any, _at: Any, mask: Any) -> Any:
    """Return whether ``words[at : at + 8] & mask[:8]`` has any bit set; bool.

    words, mask: contiguous uint64 arrays; at: int64.
    """

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        own = _load(context, builder, signature.args[0], arguments[0], arguments[1], SIGNATURE)
        other = _load(context, builder, signature.args[2], arguments[2], ir.Constant(WORD, 0), SIGNATURE)
        differs = builder.icmp_unsigned("!=", builder.and_(own, other), _repeated(SIGNATURE, 0))
        bits = builder.bitcast(differs, ir.IntType(SIGNATURE_WORDS))
        return builder.icmp_unsigned("!=", bits, ir.Constant(ir.IntType(SIGNATURE_WORDS), 0))

    return types.boolean(words, types.int64, mask), generate


@intrinsic
def marked_on_line(_typing: Any, lines: Any, _at: Any, marks: Any) -> Any:
    """Return the marks of the ancestors on a line; uint64: bit 2 · i + side is set if ``marks[2 * x + side] != 0``.

    x is the position in the i-th entry. lines: a contiguous int32 array; the line starts at index ``at`` (int64).
    marks: a contiguous uint8 array with two bytes for each concept, one for each side.
    """

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        line = _load(context, builder, signature.args[0], arguments[0], arguments[1], ENTRIES)
        is_none = builder.icmp_signed("<", line, _repeated(ENTRIES, 0))
        positions = builder.select(is_none, _repeated(ENTRIES, 0), builder.lshr(line, _repeated(ENTRIES, PATH_BITS)))
        data = context.make_array(signature.args[2])(context, builder, arguments[2]).data
        start = builder.bitcast(data, MARK_PAIR.as_pointer())
        found = _repeated(MARK_PAIRS, 0)
        for i in range(ANCESTOR_LINE):
            lane = ir.Constant(ENTRY, i)
            pair = builder.gep(start, [builder.zext(builder.extract_element(positions, lane), WORD)])
            found = builder.insert_element(found, builder.load(pair, align=1), lane)
        sides = builder.bitcast(builder.select(is_none, _repeated(MARK_PAIRS, 0), found), MARKS)
        is_marked = builder.icmp_unsigned("!=", sides, _repeated(MARKS, 0))
        return builder.zext(builder.bitcast(is_marked, ir.IntType(2 * ANCESTOR_LINE)), WORD)

    return types.uint64(lines, types.int64, marks), generate


def _load(context: Any, builder: Any, kind: Any, array: Any, at: Any, vector: Any) -> Any:
    """Load the vector that starts at index ``at`` of an array; the data need only be aligned to 4 bytes."""
    data = context.make_array(kind)(context, builder, array).data
    return builder.load(builder.bitcast(builder.gep(data, [at]), vector.as_pointer()), align=4)


def _repeated(vector: Any, number: int) -> Any:
    return ir.Constant(vector, [number] * vector.count)
