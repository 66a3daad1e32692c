"""Machine instructions that numba does not name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

LANES = 32
"""Numbers that ``raise_lanes`` and ``add_lanes`` work on side by side."""

READ, KEEP, DATA = 0, 3, 1
"""Arguments of ``llvm.prefetch``: for reading, with high locality, of data (not instructions)."""


@intrinsic
def popcount(_typing, _word):  # type: ignore[no-untyped-def]
    """How many bits of a uint64 are set."""

    def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return builder.ctpop(arguments[0])

    return types.uint64(types.uint64), generate


@intrinsic
def highest_bit(_typing, _word):  # type: ignore[no-untyped-def]
    """The index, 0 … 63, of the highest set bit of a uint64 that is not 0."""

    def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        zeros = builder.ctlz(arguments[0], ir.Constant(ir.IntType(1), 1))
        return builder.sub(ir.Constant(ir.IntType(64), 63), zeros)

    return types.uint64(types.uint64), generate


@intrinsic
def prefetch(_typing, array, _index):  # type: ignore[no-untyped-def]
    """Asks the cache for the line that holds ``array[index]``, of a contiguous one-dimensional array."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        data = context.make_array(signature.args[0])(context, builder, arguments[0]).data
        byte = ir.IntType(8).as_pointer()
        numbers = [ir.Constant(ir.IntType(32), value) for value in (READ, KEEP, DATA)]
        kind = ir.FunctionType(ir.VoidType(), [byte, *(number.type for number in numbers)])
        call = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch")
        address = builder.bitcast(builder.gep(data, [arguments[1]]), byte)
        builder.call(call, [address, *numbers])
        return context.get_dummy_value()

    return types.void(array, types.int64), generate


@intrinsic
def raise_lanes(_typing, array, _to, _above):  # type: ignore[no-untyped-def]
    """``array[to + i] = max(array[to + i], array[above + i] - 1)`` for all lanes i; a contiguous array of integers."""

    def combine(builder: Any, own: Any, above: Any) -> Any:
        less = builder.sub(above, ir.Constant(above.type, [1] * LANES))
        return builder.select(builder.icmp_signed(">", less, own), less, own)

    return types.void(array, types.int64, types.int64), _on_lanes(combine)


@intrinsic
def add_lanes(_typing, array, _to, _other):  # type: ignore[no-untyped-def]
    """``array[to + i] += array[other + i]`` for all lanes i; a contiguous array of integers."""

    def combine(builder: Any, own: Any, other: Any) -> Any:
        return builder.add(own, other)

    return types.void(array, types.int64, types.int64), _on_lanes(combine)


def _on_lanes(combine: Callable[[Any, Any, Any], Any]) -> Callable[[Any, Any, Any, Any], Any]:
    """What generates code that puts the combination of two runs of lanes in the place of the first one."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        array = signature.args[0]
        lanes = ir.VectorType(context.get_value_type(array.dtype), LANES)
        data = context.make_array(array)(context, builder, arguments[0]).data
        own, other = (builder.bitcast(builder.gep(data, [at]), lanes.as_pointer()) for at in arguments[1:])
        align = array.dtype.bitwidth // 8
        result = combine(builder, builder.load(own, align=align), builder.load(other, align=align))
        builder.store(result, own, align=align)
        return context.get_dummy_value()

    return generate
