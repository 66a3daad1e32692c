"""Rows of bits, a cache line each, compared in one instruction where the processor has one so wide."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

ROW_WORDS = 8
"""Words of a row of bits: one cache line."""

WORD = ir.IntType(64)
ROW = ir.VectorType(WORD, ROW_WORDS)


@intrinsic
def has_common_bit(_typing, words, _at, mask):  # type: ignore[no-untyped-def]
    """Whether the row of eight words from ``at`` on and the eight words of a mask have a bit in common."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        row = _load(context, builder, signature.args[0], arguments[0], arguments[1])
        other = _load(context, builder, signature.args[2], arguments[2], ir.Constant(WORD, 0))
        differs = builder.icmp_unsigned("!=", builder.and_(row, other), ir.Constant(ROW, [0] * ROW_WORDS))
        bits = builder.bitcast(differs, ir.IntType(ROW_WORDS))
        return builder.icmp_unsigned("!=", bits, ir.Constant(ir.IntType(ROW_WORDS), 0))

    return types.boolean(words, types.int64, mask), generate


def _load(context: Any, builder: Any, kind: Any, array: Any, at: Any) -> Any:
    data = context.make_array(kind)(context, builder, array).data
    return builder.load(builder.bitcast(builder.gep(data, [at]), ROW.as_pointer()), align=8)
