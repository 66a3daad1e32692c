"""Eight bytes at once, from any place of an array of bytes: loads and stores that need no alignment."""

from __future__ import annotations

import sys
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

_WORD = ir.IntType(64)

if sys.byteorder != "little":
    raise ImportError("the kernels read words of bytes as little-endian machines do")


def _pointer(context: Any, builder: Any, array_type: Any, array: Any, at: Any) -> Any:
    data = context.make_array(array_type)(context, builder, array).data
    return builder.bitcast(builder.gep(data, [at]), _WORD.as_pointer())


@intrinsic
def word_at(typing_context, data, at):  # type: ignore[no-untyped-def]
    """The bytes ``data[at : at + 8]`` as one integer, the first byte lowest. All of them must be there."""

    def load(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        place = context.cast(builder, arguments[1], signature.args[1], types.int64)
        word = builder.load(_pointer(context, builder, signature.args[0], arguments[0], place))
        word.align = 1
        return word

    return types.uint64(data, at), load


@intrinsic
def put_word(typing_context, data, at, word):  # type: ignore[no-untyped-def]
    """Writes an integer to ``data[at : at + 8]``, the lowest byte first. All of them must be there."""

    def store(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        place = context.cast(builder, arguments[1], signature.args[1], types.int64)
        target = _pointer(context, builder, signature.args[0], arguments[0], place)
        builder.store(arguments[2], target).align = 1
        return context.get_dummy_value()

    return types.none(data, at, types.uint64), store


@intrinsic
def trailing_zeros(typing_context, word):  # type: ignore[no-untyped-def]
    """How many bits below the lowest one that is set are not; 64 for 0."""

    def count(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        return builder.cttz(arguments[0], cgutils.false_bit)

    return types.int64(types.uint64), count
