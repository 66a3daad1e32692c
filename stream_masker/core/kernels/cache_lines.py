"""Cache lines looked at whole, in a few instructions where the processor has such wide ones: rows of bits, and lines of
ancestors."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types

from stream_masker.core.kernels.intrinsics import LINE_BYTES
from stream_masker.core.kernels.jit import intrinsic

ROW_WORDS = 8
"""Words of a row of bits: one cache line."""

ANCESTOR_LINE = LINE_BYTES // 4
"""Numbers of a line of ancestors, one cache line: a concept's position and its path up to it, less than 0 for none."""
PATH_BITS = 8
"""The lowest bits of such a number: those of the path."""

BYTE, MARKS, NUMBER, WORD = (ir.IntType(bits) for bits in (8, 16, 32, 64))
BIT_ROW = ir.VectorType(WORD, ROW_WORDS)
NUMBERS, MARKS_OF_LINE = ir.VectorType(NUMBER, ANCESTOR_LINE), ir.VectorType(MARKS, ANCESTOR_LINE)
SIDES_OF_LINE = ir.VectorType(BYTE, 2 * ANCESTOR_LINE)


@intrinsic
def has_common_bit(_typing: Any, words: Any, _at: Any, mask: Any) -> Any:
    """Whether the row of eight words from ``at`` on and the eight words of a mask have a bit in common."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        row = _load(context, builder, signature.args[0], arguments[0], arguments[1], BIT_ROW)
        other = _load(context, builder, signature.args[2], arguments[2], ir.Constant(WORD, 0), BIT_ROW)
        differs = builder.icmp_unsigned("!=", builder.and_(row, other), _all(BIT_ROW, 0))
        bits = builder.bitcast(differs, ir.IntType(ROW_WORDS))
        return builder.icmp_unsigned("!=", bits, ir.Constant(ir.IntType(ROW_WORDS), 0))

    return types.boolean(words, types.int64, mask), generate


@intrinsic
def marked_on_line(_typing: Any, lines: Any, _at: Any, marks: Any) -> Any:
    """Which concepts of the line of ancestors from ``at`` on are marked: bit 2 · i + side tells of the i-th; uint64.

    marks: two bytes for each concept, one for each side.
    """

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        line = _load(context, builder, signature.args[0], arguments[0], arguments[1], NUMBERS)
        is_none = builder.icmp_signed("<", line, _all(NUMBERS, 0))
        places = builder.select(is_none, _all(NUMBERS, 0), builder.lshr(line, _all(NUMBERS, PATH_BITS)))
        data = context.make_array(signature.args[2])(context, builder, arguments[2]).data
        start = builder.bitcast(data, MARKS.as_pointer())
        found = _all(MARKS_OF_LINE, 0)
        for i in range(ANCESTOR_LINE):
            lane = ir.Constant(NUMBER, i)
            place = builder.gep(start, [builder.zext(builder.extract_element(places, lane), WORD)])
            found = builder.insert_element(found, builder.load(place, align=1), lane)
        sides = builder.bitcast(builder.select(is_none, _all(MARKS_OF_LINE, 0), found), SIDES_OF_LINE)
        is_marked = builder.icmp_unsigned("!=", sides, _all(SIDES_OF_LINE, 0))
        return builder.zext(builder.bitcast(is_marked, ir.IntType(2 * ANCESTOR_LINE)), WORD)

    return types.uint64(lines, types.int64, marks), generate


def _load(context: Any, builder: Any, kind: Any, array: Any, at: Any, vector: Any) -> Any:
    data = context.make_array(kind)(context, builder, array).data
    return builder.load(builder.bitcast(builder.gep(data, [at]), vector.as_pointer()), align=4)


def _all(vector: Any, number: int) -> Any:
    return ir.Constant(vector, [number] * vector.count)
