"""Machine instructions that numba does not name, on words of bytes and of bits."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic


@intrinsic
def word_at(_typing, data, _at):  # type: ignore[no-untyped-def]
    """The uint64 of the eight bytes that begin anywhere in an array of bytes, little-endian."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        start = context.make_array(signature.args[0])(context, builder, arguments[0]).data
        pointer = builder.bitcast(builder.gep(start, [arguments[1]]), ir.IntType(64).as_pointer())
        return builder.load(pointer, align=1)

    return types.uint64(data, types.int64), generate


@intrinsic
def lowest_bit(_typing, _word):  # type: ignore[no-untyped-def]
    """The index, 0 … 63, of the lowest set bit of a uint64 that is not 0; int64."""

    def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return builder.cttz(arguments[0], ir.Constant(ir.IntType(1), 1))

    return types.int64(types.uint64), generate
