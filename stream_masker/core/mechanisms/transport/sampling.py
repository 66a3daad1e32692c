"""Draws from the channel M(a*, b* | a, b) of a transport of pairs.

First a* is drawn with weights K_A(a, a*)·C(a*, b), where C(a*, b) = Σ ψ(a*, b*)·K_B(b*, b) is computed in advance, then
b* with weights K_B(b, b*)·ψ(a*, b*) over the partners b* of a*. The sum of the first weights is (Kψ)(a, b), that of the
second is C(a*, b), so neither takes a pass of its own. Candidates are visited in falling order of the weights that
they usually have, so that a draw visits few of them.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from stream_masker.core.dtypes import (
    Float32Array,
    Float32Matrix,
    Float64Array,
    Float64Matrix,
    Int32Array,
    Int64Array,
    UInt16Matrix,
    UInt64Array,
)
from stream_masker.core.kernels.jit import int64, kernel, part
from stream_masker.core.mechanisms.transport import products
from stream_masker.core.mechanisms.transport.table import Table
from stream_masker.core.random.draws import uniform

SORTED = 128
"""The number of candidates that are visited in falling order of their usual weights; others follow by index."""


class PairChannel(NamedTuple):
    """The arrays of a transport of pairs of k_A × k_B values with m tuples.

    * ``offsets``, ``partners``: the tuples as compressed rows: (k_A + 1,) int64 and (m,) int32, ascending.
    * ``psi``, ``totals``: (m,) float64 ψ and Kψ.
    * ``first``: (k_A, k_A) float32 K_A. ``second``: (k_B, k_B) float32 K_B. ``context``: (k_B, k_A) float32 Cᵀ.
    * ``order``: (k_A, k_A) uint16, the order in which the candidates a* of each a are visited.
    """

    offsets: Int64Array
    partners: Int32Array
    psi: Float64Array
    totals: Float64Array
    first: Float32Matrix
    second: Float32Matrix
    context: Float32Matrix
    order: UInt16Matrix

    @classmethod
    def of(cls, table: Table, psi: Float64Array, first: Float64Matrix, second: Float64Matrix) -> PairChannel:
        """Create the channel of a table's ψ, with K_A and K_B."""
        entries = table.by_row
        context = products.transposed(products.row_products(entries.offsets, entries.columns, psi, second))
        totals = products.entry_products(entries.offsets, entries.columns, first, context)
        usual = np.bincount(table.rows, psi, minlength=table.shape[0])
        return cls(
            entries.offsets,
            entries.columns.astype(np.int32),
            psi,
            totals,
            first.astype(np.float32),
            second.astype(np.float32),
            context.astype(np.float32),
            visiting_order(first * usual),
        )


def visiting_order(weights: Float64Matrix) -> UInt16Matrix:
    """(k, k) uint16: the columns of each row, those with the greatest weights first, the others in any order."""
    size = weights.shape[1]
    head = min(SORTED, size)
    order = np.argpartition(-weights, head - 1, axis=1)
    best = np.take_along_axis(weights, order[:, :head], axis=1)
    order[:, :head] = np.take_along_axis(order[:, :head], np.argsort(-best, axis=1, kind="stable"), axis=1)
    return np.ascontiguousarray(order, dtype=np.uint16)


@part
def tuple_index(offsets: Int64Array, partners: Int32Array, a: int, b: int) -> int:
    """The index of tuple (a, b), −1 if there is none."""
    low = offsets[a]
    end = offsets[a + 1]
    high = end
    while low < high:
        middle = (low + high) >> 1
        if partners[middle] < b:
            low = middle + 1
        else:
            high = middle
    return low if low < end and partners[low] == b else int64(-1)


@part
def total_weight(weights: Float32Array, context: Float32Array) -> float:
    """Σ weights·context."""
    total = 0.0
    for k in range(weights.size):
        total += weights[k] * context[k]
    return total


@part
def draw_first(channel: PairChannel, a: int, b: int, word: np.uint64) -> int:
    """Draw a*; a and b are indices of values."""
    weights = channel.first[a]
    context = channel.context[b]
    known = tuple_index(channel.offsets, channel.partners, a, b)
    total = channel.totals[known] if known >= 0 else total_weight(weights, context)
    left = uniform(word) * total
    order = channel.order[a]
    chosen = int64(-1)
    for k in range(order.size):
        candidate = int64(order[k])
        weight = np.float64(weights[candidate]) * np.float64(context[candidate])
        if weight > 0.0:
            chosen = candidate
            left -= weight
            if left < 0.0:
                break
    return chosen


@part
def draw_second(channel: PairChannel, new: int, b: int, word: np.uint64) -> int:
    """Draw b* among the partners of a*, the value b first."""
    weights = channel.second[b]
    left = uniform(word) * np.float64(channel.context[b, new])
    same = tuple_index(channel.offsets, channel.partners, new, b)
    chosen = int64(-1)
    if same >= 0 and channel.psi[same] > 0.0:
        chosen = int64(b)
        left -= channel.psi[same] * np.float64(weights[b])
        if left < 0.0:
            return chosen
    for k in range(channel.offsets[new], channel.offsets[new + 1]):
        weight = channel.psi[k] * np.float64(weights[channel.partners[k]])
        if weight > 0.0 and k != same:
            chosen = int64(channel.partners[k])
            left -= weight
            if left < 0.0:
                break
    return chosen


@kernel
def draw_pairs(
    channel: PairChannel, a: Int32Array, b: Int32Array, words_a: UInt64Array, words_b: UInt64Array
) -> tuple[Int32Array, Int32Array]:
    """(n,) int32 each: the indices of the masked values of n pairs; −1 for pairs with an absent value."""
    new_a = np.full(a.size, -1, np.int32)
    new_b = np.full(a.size, -1, np.int32)
    for i in range(a.size):
        if a[i] >= 0 and b[i] >= 0:
            new_a[i] = draw_first(channel, int64(a[i]), int64(b[i]), words_a[i])
            new_b[i] = draw_second(channel, int64(new_a[i]), int64(b[i]), words_b[i])
    return new_a, new_b


@kernel
def draw_values(channel: PairChannel, a: Int32Array, words: UInt64Array) -> Int32Array:
    """(n,) int32: the indices of the masked values of one attribute, whose second attribute has a single value."""
    new = np.full(a.size, -1, np.int32)
    for i in range(a.size):
        if a[i] >= 0:
            new[i] = draw_first(channel, int64(a[i]), int64(0), words[i])
    return new


@kernel
def total_squared_distance(squares: Float32Matrix, before: Int32Array, after: Int32Array) -> float:
    """Σ sd² over the indices of values before and after masking, without absent ones."""
    total = 0.0
    for i in range(before.size):
        if before[i] >= 0:
            total += np.float64(squares[before[i], after[i]])
    return total
