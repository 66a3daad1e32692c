"""Sums of arrays, 32 numbers at a time, for kernels.

They are generated as LLVM vector operations because the compiler may not change the order of additions. All arrays are
contiguous and one-dimensional. A *lane* is one of the 32 numbers; ``at`` is the index of the first lane.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba.core import cgutils

from stream_masker.core.kernels.jit import intrinsic

VECTOR_LANES = 32


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
        vector = Vector(context, builder, signature.args[0], arguments[0])
        return vector.sum(vector.load, vector.number)

    return array.dtype(array), generate


class Vector:
    """Generates loads and sums of the lanes of one array."""

    def __init__(self, context: Any, builder: Any, array: Any, value: Any) -> None:
        """``array``: the numba type; ``value``: the LLVM value of the array."""
        self._context, self._builder = context, builder
        made = context.make_array(array)(context, builder, value)
        self._data, self._size = made.data, made.nitems
        self._align = array.dtype.bitwidth // 8
        self._type = ir.VectorType(context.get_value_type(array.dtype), VECTOR_LANES)

    def load(self, at: Any) -> Any:
        return self._builder.load(self._pointer(at), align=self._align)

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

    def _pointer(self, at: Any) -> Any:
        return self._builder.bitcast(self._builder.gep(self._data, [at]), self._type.as_pointer())
