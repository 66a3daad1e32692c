"""Machine instructions that numba does not offer: unaligned words, bits, prefetching, and whole cache lines."""

from __future__ import annotations

import sys
from typing import Any, TypeVar

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numpy.typing import NDArray

from stream_masker.core.kernels.jit import intrinsic

if sys.byteorder != "little":
    raise ImportError("the kernels need a little-endian processor")

READ, KEEP, DATA = 0, 3, 1
"""Arguments of ``llvm.prefetch``: read access, high locality, data cache (not instructions)."""

LINE_BYTES = 64
"""Bytes of a cache line."""

IrType = TypeVar("IrType", bound=np.generic)


def on_lines(size: int, kind: type[IrType], fill: int = 0) -> NDArray[IrType]:
    """Return (size,) equal numbers, aligned to a cache line.

    NumPy allocates large arrays on huge pages; kernels do not.
    """
    spare = LINE_BYTES // np.dtype(kind).itemsize
    memory = np.empty(size + spare, kind)
    start = -(memory.ctypes.data // memory.itemsize) % spare
    memory[:] = fill
    return memory[start : start + size]


@intrinsic
def word_at(_typing: Any, data: Any, _at: Any) -> Any:
    """Return the 8 bytes ``data[at : at + 8]`` as a little-endian uint64. data: uint8; at: int64, with any
    alignment."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.load(_word_of(context, builder, signature, arguments), align=1)

    return types.uint64(data, types.int64), generate


@intrinsic
def put_word(_typing: Any, data: Any, _at: Any, _word: Any) -> Any:
    """Write a uint64 to the 8 bytes ``data[at : at + 8]``, little-endian. data: uint8; at: int64, any alignment."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        builder.store(arguments[2], _word_of(context, builder, signature, arguments)).align = 1
        return context.get_dummy_value()

    return types.none(data, types.int64, types.uint64), generate


def _word_of(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    """Return a pointer to the word at index ``arguments[1]`` of the array of bytes ``arguments[0]``."""
    start = context.make_array(signature.args[0])(context, builder, arguments[0]).data
    return builder.bitcast(builder.gep(start, [arguments[1]]), ir.IntType(64).as_pointer())


@intrinsic
def lowest_bit(_typing: Any, _word: Any) -> Any:
    """Return the index, 0 … 63, of the lowest set bit of a uint64 that is not 0; int64."""

    def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return builder.cttz(arguments[0], ir.Constant(ir.IntType(1), 1))

    return types.int64(types.uint64), generate


@intrinsic
def multiply_high(_typing: Any, _one: Any, _other: Any) -> Any:
    """Return the upper 64 bits of the product of two uint64; uint64."""

    def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        wide = ir.IntType(128)
        product = builder.mul(*(builder.zext(value, wide) for value in arguments))
        return builder.trunc(builder.lshr(product, ir.Constant(wide, 64)), ir.IntType(64))

    return types.uint64(types.uint64, types.uint64), generate


@intrinsic
def popcount(_typing: Any, _word: Any) -> Any:
    """Return the number of set bits of a uint64; uint64."""

    def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return builder.ctpop(arguments[0])

    return types.uint64(types.uint64), generate


@intrinsic
def highest_bit(_typing: Any, _word: Any) -> Any:
    """Return the index, 0 … 63, of the highest set bit of a uint64 that is not 0; uint64."""

    def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        zeros = builder.ctlz(arguments[0], ir.Constant(ir.IntType(1), 1))
        return builder.sub(ir.Constant(ir.IntType(64), 63), zeros)

    return types.uint64(types.uint64), generate


@intrinsic
def prefetch(_typing: Any, array: Any, _index: Any) -> Any:
    """Prefetch the cache line of ``array[index]``. array: contiguous, one-dimensional; index: int64."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        data = context.make_array(signature.args[0])(context, builder, arguments[0]).data
        prefetch_line(builder, builder.gep(data, [arguments[1]]))
        return context.get_dummy_value()

    return types.void(array, types.int64), generate


def prefetch_line(builder: Any, address: Any) -> None:
    """Generate the prefetch of the cache line of an address."""
    byte = ir.IntType(8).as_pointer()
    numbers = [ir.Constant(ir.IntType(32), value) for value in (READ, KEEP, DATA)]
    kind = ir.FunctionType(ir.VoidType(), [byte, *(number.type for number in numbers)])
    call = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch")
    builder.call(call, [builder.bitcast(address, byte), *numbers])


SIGNATURE_WORDS = 8
"""uint64 words of an ancestor signature: one cache line.

Operations on whole lines are LLVM vector operations, because a loop over the elements would not be vectorised.
"""

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
        line = _load(context, builder, signature.args[0], arguments[0], arguments[1], SIGNATURE)
        other = _load(context, builder, signature.args[2], arguments[2], ir.Constant(WORD, 0), SIGNATURE)
        differs = builder.icmp_unsigned("!=", builder.and_(line, other), _repeated(SIGNATURE, 0))
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
        pairs = _repeated(MARK_PAIRS, 0)
        for i in range(ANCESTOR_LINE):
            lane = ir.Constant(ENTRY, i)
            pair = builder.gep(start, [builder.zext(builder.extract_element(positions, lane), WORD)])
            pairs = builder.insert_element(pairs, builder.load(pair, align=1), lane)
        sides = builder.bitcast(builder.select(is_none, _repeated(MARK_PAIRS, 0), pairs), MARKS)
        is_marked = builder.icmp_unsigned("!=", sides, _repeated(MARKS, 0))
        return builder.zext(builder.bitcast(is_marked, ir.IntType(2 * ANCESTOR_LINE)), WORD)

    return types.uint64(lines, types.int64, marks), generate


def _load(context: Any, builder: Any, kind: Any, array: Any, at: Any, vector: Any) -> Any:
    """Load the vector that starts at index ``at`` of an array; the data need only be aligned to 4 bytes."""
    data = context.make_array(kind)(context, builder, array).data
    return builder.load(builder.bitcast(builder.gep(data, [at]), vector.as_pointer()), align=4)


def _repeated(vector: Any, number: int) -> Any:
    return ir.Constant(vector, [number] * vector.count)
