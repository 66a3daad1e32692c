"""Vector arithmetic on 32 numbers at a time, for kernels.

It is generated as LLVM vector operations because the compiler does not vectorise loops over arrays that may overlap.
All arrays are contiguous and one-dimensional. A *lane* is one of the 32 numbers; ``at`` is the index of the first lane.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils

from stream_masker.core.kernels.intrinsics import prefetch_line
from stream_masker.core.kernels.jit import intrinsic

VECTOR_LANES = 32
VECTOR_BYTES = 64
"""Bytes of a cache line."""


@intrinsic
def raise_lanes(_typing: Any, array: Any, _at: Any, _above: Any) -> Any:
    """Set ``array[at + i] = max(array[at + i], array[above + i] - 1)`` for all lanes i; integers."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        lanes = Vector(context, builder, signature.args[0], arguments[0])
        own, above = lanes.load(arguments[1]), lanes.load(arguments[2])
        less = builder.sub(above, ir.Constant(above.type, [1] * VECTOR_LANES))
        return lanes.store(builder.select(builder.icmp_signed(">", less, own), less, own), arguments[1])

    return types.void(array, types.int64, types.int64), generate


@intrinsic
def add_lanes(_typing: Any, array: Any, _at: Any, _other: Any) -> Any:
    """Add ``array[other + i]`` to ``array[at + i]`` for all lanes i; integers."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        lanes = Vector(context, builder, signature.args[0], arguments[0])
        return lanes.store(builder.add(lanes.load(arguments[1]), lanes.load(arguments[2])), arguments[1])

    return types.void(array, types.int64, types.int64), generate


@intrinsic
def add_scaled_lanes(_typing: Any, array: Any, _at: Any, other: Any, _from: Any, _factor: Any, _shift: Any) -> Any:
    """Add ``factor * (other[from + i] - shift)`` to ``array[at + i]`` for all lanes i; float64."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        own = Vector(context, builder, signature.args[0], arguments[0])
        other = Vector(context, builder, signature.args[2], arguments[2])
        shifted = builder.fsub(other.load(arguments[3]), other.repeat(arguments[5]))
        scaled = builder.fmul(other.repeat(arguments[4]), shifted)
        return own.store(builder.fadd(own.load(arguments[1]), scaled), arguments[1])

    return types.void(array, types.int64, other, types.int64, types.float64, types.float64), generate


@intrinsic
def add_product_lanes(
    _typing: Any, array: Any, _at: Any, one: Any, _first: Any, other: Any, _second: Any, _factor: Any, _shift: Any
) -> Any:
    """Add ``one[first + i] * factor * (other[second + i] - shift)`` to ``array[at + i]`` for all lanes i.

    All numbers are float64.
    """

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        own, one, other = (Vector(context, builder, signature.args[k], arguments[k]) for k in (0, 2, 4))
        shifted = builder.fsub(other.load(arguments[5]), other.repeat(arguments[7]))
        product = builder.fmul(one.load(arguments[3]), builder.fmul(other.repeat(arguments[6]), shifted))
        return own.store(builder.fadd(own.load(arguments[1]), product), arguments[1])

    integer, number = types.int64, types.float64
    return types.void(array, integer, one, integer, other, integer, number, number), generate


@intrinsic
def sum_of_products(_typing: Any, one: Any, other: Any) -> Any:
    """Return Σ ``one[i] * other[i]`` of two arrays of equal size and type, in that type.

    The order of the additions is the same on all processors: one sum for each lane, then halves of the lanes, then the
    numbers after the last whole vector.
    """

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        first, second = (Vector(context, builder, signature.args[k], arguments[k]) for k in (0, 1))
        return first.sum(
            lambda at: builder.fmul(first.load(at), second.load(at)),
            lambda at: builder.fmul(first.number(at), second.number(at)),
        )

    return one.dtype(one, other), generate


@intrinsic
def sum_of(_typing: Any, array: Any) -> Any:
    """Return the sum of an array in its type, in the order of ``sum_of_products``."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        own = Vector(context, builder, signature.args[0], arguments[0])
        return own.sum(own.load, own.number)

    return array.dtype(array), generate


@intrinsic
def prefetch_lanes(_typing: Any, array: Any, _at: Any) -> Any:
    """Prefetch the cache lines of the lanes."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        data = context.make_array(signature.args[0])(context, builder, arguments[0]).data
        step = max(1, VECTOR_BYTES * 8 // signature.args[0].dtype.bitwidth)
        for lane in range(0, VECTOR_LANES, step):
            prefetch_line(builder, builder.gep(data, [builder.add(arguments[1], ir.Constant(ir.IntType(64), lane))]))
        return context.get_dummy_value()

    return types.void(array, types.int64), generate


class Vector:
    """Generates loads and stores of lanes of one array."""

    def __init__(self, context: Any, builder: Any, array: Any, value: Any) -> None:
        """``array``: the numba type; ``value``: the LLVM value of the array."""
        self._context, self._builder = context, builder
        made = context.make_array(array)(context, builder, value)
        self._data, self._size = made.data, made.nitems
        self._align = array.dtype.bitwidth // 8
        self._type = ir.VectorType(context.get_value_type(array.dtype), VECTOR_LANES)

    def load(self, at: Any) -> Any:
        return self._builder.load(self._pointer(at), align=self._align)

    def store(self, lanes: Any, at: Any) -> Any:
        """Store lanes. Return the result of an intrinsic that returns None."""
        self._builder.store(lanes, self._pointer(at), align=self._align)
        return self._context.get_dummy_value()

    def number(self, at: Any) -> Any:
        """Return a single number."""
        return self._builder.load(self._builder.gep(self._data, [at]))

    def sum(self, lanes: Callable[[Any], Any], number: Callable[[Any], Any]) -> Any:
        """Return the sum of what ``lanes`` returns for the whole vectors, and ``number`` for the numbers after them."""
        builder, width = self._builder, ir.Constant(self._size.type, VECTOR_LANES)
        whole = builder.sub(self._size, builder.urem(self._size, width))
        total = cgutils.alloca_once_value(builder, ir.Constant(self._type, [0.0] * VECTOR_LANES))
        with cgutils.for_range_slice(builder, ir.Constant(whole.type, 0), whole, width) as (at, _):
            builder.store(builder.fadd(builder.load(total), lanes(at)), total)
        rest = cgutils.alloca_once_value(builder, self._halved(builder.load(total)))
        with cgutils.for_range_slice(builder, whole, self._size, ir.Constant(whole.type, 1)) as (at, _):
            builder.store(builder.fadd(builder.load(rest), number(at)), rest)
        return builder.load(rest)

    def _halved(self, lanes: Any) -> Any:
        """Return the sum of the lanes: the upper half is added to the lower one until a single lane is left."""
        builder, width, index = self._builder, VECTOR_LANES, ir.IntType(32)
        while width > 1:
            width //= 2
            nothing = ir.Constant(lanes.type, ir.Undefined)
            halves = [
                builder.shuffle_vector(
                    lanes, nothing, ir.Constant(ir.VectorType(index, width), list(range(start, start + width)))
                )
                for start in (0, width)
            ]
            lanes = builder.fadd(*halves)
        return builder.extract_element(lanes, ir.Constant(index, 0))

    def repeat(self, number: Any) -> Any:
        """Return a vector with the same number in all lanes."""
        nothing, index = ir.Constant(self._type, ir.Undefined), ir.IntType(32)
        first = self._builder.insert_element(nothing, number, ir.Constant(index, 0))
        return self._builder.shuffle_vector(
            first, nothing, ir.Constant(ir.VectorType(index, VECTOR_LANES), [0] * VECTOR_LANES)
        )

    def _pointer(self, at: Any) -> Any:
        return self._builder.bitcast(self._builder.gep(self._data, [at]), self._type.as_pointer())
