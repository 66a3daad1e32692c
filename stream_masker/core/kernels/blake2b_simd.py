"""The compression function of BLAKE2b (RFC 7693: section 3.2) for eight messages at a time.

It is generated as LLVM vector operations because the compiler does not vectorise a loop over lanes. A *lane* is one of
the eight messages. Arrays are contiguous uint64; word w of lane i is at index 8 · w + i.
"""

from __future__ import annotations

from typing import Any, TypeAlias

from llvmlite import ir
from numba import types

from stream_masker.core.kernels.jit import intrinsic

MESSAGE_LANES = 8
ALIGN = 8
"""Alignment of the arrays, in bytes."""

VECTOR_INITIAL_STATE: tuple[int, ...] = (
    0x6A09E667F3BCC908,
    0xBB67AE8584CAA73B,
    0x3C6EF372FE94F82B,
    0xA54FF53A5F1D36F1,
    0x510E527FADE682D1,
    0x9B05688C2B3E6C1F,
    0x1F83D9ABFB41BD6B,
    0x5BE0CD19137E2179,
)
"""The initialisation vector (RFC 7693: section 2.6)."""

VECTOR_SCHEDULE: tuple[tuple[int, ...], ...] = (
    (0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15),
    (14, 10, 4, 8, 9, 15, 13, 6, 1, 12, 0, 2, 11, 7, 5, 3),
    (11, 8, 12, 0, 5, 2, 15, 13, 10, 14, 3, 6, 7, 1, 9, 4),
    (7, 9, 3, 1, 13, 12, 11, 14, 2, 6, 5, 10, 4, 0, 15, 8),
    (9, 0, 5, 7, 2, 4, 10, 15, 14, 1, 11, 12, 6, 8, 3, 13),
    (2, 12, 6, 10, 0, 11, 8, 3, 4, 13, 7, 5, 15, 14, 1, 9),
    (12, 5, 1, 15, 14, 13, 4, 10, 0, 7, 6, 3, 9, 2, 8, 11),
    (13, 11, 7, 14, 12, 1, 3, 9, 5, 0, 15, 4, 8, 6, 2, 10),
    (6, 15, 14, 9, 11, 3, 0, 8, 12, 2, 13, 7, 1, 4, 10, 5),
    (10, 2, 8, 4, 7, 6, 1, 5, 15, 11, 9, 14, 3, 12, 13, 0),
    (0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15),
    (14, 10, 4, 8, 9, 15, 13, 6, 1, 12, 0, 2, 11, 7, 5, 3),
)
"""The message schedule of the twelve rounds (RFC 7693: section 2.7)."""

COLUMNS_AND_DIAGONALS = (
    (0, 4, 8, 12),
    (1, 5, 9, 13),
    (2, 6, 10, 14),
    (3, 7, 11, 15),
    (0, 5, 10, 15),
    (1, 6, 11, 12),
    (2, 7, 8, 13),
    (3, 4, 9, 14),
)
"""The words that each of the eight mixing steps of a round combines."""

VECTOR = ir.VectorType(ir.IntType(64), MESSAGE_LANES)
IrValues: TypeAlias = list[Any]


@intrinsic
def mix_last_blocks(_typing: Any, state: Any, words: Any, lengths: Any) -> Any:
    """Update the states of eight messages, (8 · 8,), with their last blocks.

    words: (16 · 8,) the blocks. lengths: (8,) bytes of each message up to the end of its last block.
    """

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        h, m, t = (_Rows(context, builder, kind, value) for kind, value in zip(signature.args, arguments, strict=True))
        _compress(builder, h, [m.load(i) for i in range(16)], t.load(0))
        return context.get_dummy_value()

    return types.void(state, words, lengths), generate


class _Rows:
    """Generates loads and stores of the words of one array, all lanes at a time."""

    def __init__(self, context: Any, builder: Any, array: Any, value: Any) -> None:
        self._builder = builder
        self._data = context.make_array(array)(context, builder, value).data

    def load(self, row: int) -> Any:
        return self._builder.load(self._pointer(row), align=ALIGN)

    def store(self, row: int, vector: Any) -> None:
        self._builder.store(vector, self._pointer(row), align=ALIGN)

    def _pointer(self, row: int) -> Any:
        at = self._builder.gep(self._data, [ir.Constant(ir.IntType(64), row * MESSAGE_LANES)])
        return self._builder.bitcast(at, VECTOR.as_pointer())


def _constant(word: int) -> Any:
    return ir.Constant(VECTOR, [word] * MESSAGE_LANES)


def _compress(builder: Any, state: _Rows, words: IrValues, length: Any) -> None:
    h = [state.load(i) for i in range(8)]
    v = h + [_constant(word) for word in VECTOR_INITIAL_STATE]
    v[12] = builder.xor(v[12], length)
    v[14] = builder.not_(v[14])
    for order in VECTOR_SCHEDULE:
        for turn, places in enumerate(COLUMNS_AND_DIAGONALS):
            _mix(builder, v, places, words[order[2 * turn]], words[order[2 * turn + 1]])
    for i in range(8):
        state.store(i, builder.xor(h[i], builder.xor(v[i], v[i + 8])))


def _mix(builder: Any, v: IrValues, places: tuple[int, ...], x: Any, y: Any) -> None:
    """Apply the mixing function G (RFC 7693: section 3.1)."""
    a, b, c, d = places
    for word, first, second in ((x, 32, 24), (y, 16, 63)):
        v[a] = builder.add(builder.add(v[a], v[b]), word)
        v[d] = _rotated(builder, builder.xor(v[d], v[a]), first)
        v[c] = builder.add(v[c], v[d])
        v[b] = _rotated(builder, builder.xor(v[b], v[c]), second)


def _rotated(builder: Any, vector: Any, bits: int) -> Any:
    """Rotate each lane to the right by ``bits`` bits."""
    right = builder.lshr(vector, _constant(bits))
    return builder.or_(right, builder.shl(vector, _constant(64 - bits)))
