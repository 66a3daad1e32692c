"""Draws from a field: the root's mask from its u, then each node's from the pairs of its parent's mask.

Candidates are visited in an order that does not depend on the window (``core.random.draws.accepts``), the near ones
first, so that a draw visits few of them: those of the root by their distance from its value, others by their places in
a preorder walk of the taxonomy. So a window that slid a little changes few masks.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from stream_masker.core.dtypes import (
    Float32Matrix,
    Float64Array,
    Float64Matrix,
    Int32Array,
    Int32Matrix,
    UInt16Matrix,
    UInt64Array,
    UInt64Matrix,
)
from stream_masker.core.kernels.jit import int64, kernel, part
from stream_masker.core.mechanisms.transport.field.links import Field
from stream_masker.core.mechanisms.transport.field.messages import Layout, Weights, collect, kernel_with_absent
from stream_masker.core.mechanisms.transport.sampling import fill_order, first_not_less
from stream_masker.core.random.draws import accepts, salts_of

ABSENT_PLACE = 2**30
"""The place of an absent value, after all others."""


class FieldChannel(NamedTuple):
    """The arrays of a field that masks.

    * ``layout``: with the partners of each value ordered by their places. ``places``: over all pairs, int32 these
      places; ``place_of``: over the values of all nodes, int32 those of the values; absent is the last one.
    * ``order``: (k_0 + 1, k_0 + 1) uint16, the order in which the root's candidates are visited. ``salts``: uint64,
      over the values of all nodes.
    """

    layout: Layout
    weights: Weights
    places: Int32Array
    place_of: Int32Array
    order: UInt16Matrix
    salts: UInt64Array

    @classmethod
    def of(
        cls,
        field: Field,
        squares: list[Float32Matrix],
        positions: list[Int32Array],
        preorders: list[Int32Array],
        extra: list[Float64Matrix | None],
        power: float,
        least: int,
    ) -> FieldChannel:
        """Create the channel of a field.

        By node: ``squares``, (k, k) sd²; ``positions``, (k,) of the values; ``preorders``, the place of each concept of
        the taxonomy; ``extra``, (k, k) additional exponents, or None. ``power``: γ. ``least``: the rows of a written
        pair.
        """
        layout = Layout.of(field.links)
        place_of = [np.append(w[p], np.int32(ABSENT_PLACE)) for w, p in zip(preorders, positions, strict=True)]
        scales, partners, places = [], [], []
        for node, table in enumerate(field.links.tables, start=1):
            order = np.lexsort((place_of[node][table.columns], table.rows))
            scales.append(np.where(field.links.written(node, least), field.scales[node - 1], 0.0)[order])
            partners.append(table.columns[order].astype(np.int32))
            places.append(place_of[node][partners[-1]])
        layout = layout._replace(partners=np.concatenate(partners))
        kernels = [
            kernel_with_absent(s, float(x), power, e) for s, x, e in zip(squares, field.sharpness, extra, strict=True)
        ]
        weights = Weights.of(layout, kernels, field.root_scale, scales)
        salts = np.concatenate([salts_of(np.append(p, np.int32(-1))) for p in positions])
        visited = _visited(kernels[0], squares[0])
        return cls(layout, weights, np.concatenate(places), np.concatenate(place_of), visited, salts)


def _visited(kernel_of_root: Float32Matrix, squares: Float32Matrix) -> UInt16Matrix:
    """Return (k_0 + 1, k_0 + 1) uint16: the candidates of each value of the root, the nearest first."""
    size = len(kernel_of_root)
    order, scratch = np.empty((size, size), np.uint16), np.empty((size, size), np.float32)
    distances = np.ones((size, size), np.float32)
    distances[:-1, :-1] = squares
    distances[-1, -1] = 0.0
    fill_order(kernel_of_root, distances, order, scratch)
    return order


@part
def draw_root(channel: FieldChannel, value: int, own: Float64Array, total: float, word: np.uint64) -> int:
    """Draw the root's mask; ``own``: (k_0 + 1,) its u, whose sum is ``total``."""
    order = channel.order[value]
    left = total
    chosen = int64(-1)
    for k in range(order.size):
        weight = own[order[k]]
        if weight > 0.0:
            chosen = int64(order[k])
            if accepts(word, channel.salts[chosen], weight, left):
                break
            left -= weight
    return chosen


@part
def draw_node(
    channel: FieldChannel,
    node: int,
    value: int,
    parent: int,
    own: Float64Array,
    left: float,
    word: np.uint64,
) -> int:
    """Draw a node's mask given its parent's, among the partners of that one, those of the nearest places first.

    * ``own``: over the values of all nodes, u of inner nodes. ``left``: the message of the node to the parent's mask.
    """
    layout, psi = channel.layout, channel.weights.psi
    base = layout.values[node]
    size = layout.sizes[node]
    row = channel.weights.kernels[layout.kernels[node] + value * size : layout.kernels[node] + (value + 1) * size]
    leaf = layout.leaves[node]
    first = layout.entries[node] + layout.offsets[layout.rows[node] + parent]
    end = layout.entries[node] + layout.offsets[layout.rows[node] + parent + 1]
    place = channel.place_of[base + value]
    above = first_not_less(channel.places, int64(first), int64(end), int64(place))
    below = above - 1
    chosen = int64(-1)
    while below >= first or above < end:
        if below < first or (above < end and channel.places[above] - place <= place - channel.places[below]):
            k = above
            above += 1
        else:
            k = below
            below -= 1
        b = layout.partners[k]
        weight = psi[k] * (np.float64(row[b]) if leaf else own[base + b])
        if weight > 0.0:
            chosen = int64(b)
            if accepts(word, channel.salts[base + b], weight, left):
                break
            left -= weight
    return chosen


@kernel
def draw_records(channel: FieldChannel, records: Int32Matrix, words: UInt64Matrix) -> Int32Matrix:
    """Return (n, q) int32: the indices of the masks of n records, k_j where absent; −1 for records that the field does
    not explain.

    * ``records``: (n, q) indices of values, k_j where absent. ``words``: (n, q).
    """
    layout = channel.layout
    result = np.full(records.shape, -1, np.int32)
    own = np.zeros(layout.values[-1], np.float64)
    inner = np.zeros(max(1, layout.inner[-1]), np.float64)
    for i in range(len(records)):
        record = records[i]
        masked = result[i]
        total = collect(layout, channel.weights, record, own, inner)
        if not total > 0.0:
            continue
        masked[0] = draw_root(channel, int64(record[0]), own[: layout.sizes[0]], total, words[i, 0])
        for node in range(1, record.size):
            above = layout.parents[node]
            parent = int64(masked[above])
            if layout.leaves[node]:
                sent = channel.weights.messages[layout.messages[node] + record[node] * layout.sizes[above] + parent]
                left = np.float64(sent)
            else:
                left = inner[layout.inner[node] + parent]
            masked[node] = draw_node(channel, node, int64(record[node]), parent, own, left, words[i, node])
    return result
