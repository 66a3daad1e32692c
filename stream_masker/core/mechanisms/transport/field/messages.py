"""Sums over the field of one record, by messages from the leaves of the tree to its root and back (Pearl 1988).

The message of a node c to its parent p is m_c(t_p) = Σ_{t_c} ψ_c(t_p, t_c)·u_c(t_c), with
u_c(t_c) = K_c(s_c, t_c)·Π m_d over the children d of c. Z is the sum of the root's u, which has the factor ρ. Messages
of leaves depend on one value of the record only and are computed in advance; those of inner nodes take a pass over the
pairs of their link.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from stream_masker.core.arrays import offsets_from_lengths
from stream_masker.core.dtypes import (
    BoolArray,
    Float32Array,
    Float32Matrix,
    Float64Array,
    Float64Matrix,
    Int32Array,
    Int32Matrix,
    Int64Array,
)
from stream_masker.core.kernels.jit import kernel, part, reduction
from stream_masker.core.mechanisms.transport.field.links import Links
from stream_masker.core.mechanisms.transport.products import FloatArray
from stream_masker.core.mechanisms.transport.sampling import fill_contexts
from stream_masker.core.mechanisms.transport.solver import gibbs

MESSAGE_SCALE = 1e8
"""A factor of ρ and ψ. Kernels are at least 10⁻³⁵, so that no message of a leaf underflows float32."""


class Layout(NamedTuple):
    """The tree of a field of q nodes, and where the arrays of ``Weights`` hold each node. A node has k_j + 1 values.

    * ``parents``: (q,) −1 for the root. ``leaves``: (q,) whether a node has no children. ``sizes``: (q,) k_j + 1.
    * ``values``: (q + 1,) where each node's values start in an array over all of them. ``inner``: (q + 1,) where the
      messages of inner nodes start. ``kernels``, ``messages``: (q + 1,) where the matrices of each node start;
      ``messages`` is empty for inner nodes and the root.
    * ``rows``: (q + 1,) where the offsets of each link start. ``entries``: (q + 1,) where its pairs start.
    * ``offsets``, ``partners``: the pairs of each link as compressed rows. ``originals``: (q,) the first node of the
      attribute of each node; others are its copies, with equal numbers (``transport.short``).
    """

    parents: Int64Array
    leaves: BoolArray
    sizes: Int64Array
    values: Int64Array
    inner: Int64Array
    kernels: Int64Array
    messages: Int64Array
    rows: Int64Array
    entries: Int64Array
    offsets: Int64Array
    partners: Int32Array
    originals: Int64Array

    @classmethod
    def of(cls, links: Links) -> Layout:
        """Create the layout of a tree."""
        sizes, parents = np.array(links.sizes), np.array(links.parents)
        above = np.where(parents >= 0, sizes[parents], 0)
        leaves = ~np.isin(np.arange(sizes.size), parents)
        pairs = [0, *(table.rows.size for table in links.tables)]
        return cls(
            parents,
            leaves,
            sizes,
            offsets_from_lengths(sizes),
            offsets_from_lengths(np.where(leaves, 0, above)),
            offsets_from_lengths(sizes * sizes),
            offsets_from_lengths(np.where(leaves, sizes * above, 0)),
            offsets_from_lengths(np.where(parents >= 0, above + 1, 0)),
            offsets_from_lengths(np.array(pairs)),
            np.concatenate([table.by_row.offsets for table in links.tables]),
            np.concatenate([table.columns for table in links.tables]).astype(np.int32),
            np.array([links.attributes.index(j) for j in links.attributes]),
        )


class Weights(NamedTuple):
    """The numbers of a field; ``Layout`` says where each node's are.

    * ``kernels``: float32 K_j, of the root times ρ·``MESSAGE_SCALE``. ``messages``: float32 the messages of each leaf,
      (k_c + 1, k_p + 1).
    * ``psi``: float64 ψ·``MESSAGE_SCALE``.
    """

    kernels: Float32Array
    messages: Float32Array
    psi: Float64Array

    @classmethod
    def of(
        cls,
        layout: Layout,
        kernels: list[Float32Matrix],
        root_scale: Float64Array,
        scales: list[Float64Array],
    ) -> Weights:
        """Create the numbers; ``kernels``: K_j of each node. ``scales``: ψ of each link."""
        rooted = kernels[0] * (root_scale * MESSAGE_SCALE).astype(np.float32)
        psi = np.concatenate(scales) * MESSAGE_SCALE
        messages = np.empty(int(layout.messages[-1]), np.float32)
        for node in np.flatnonzero(layout.leaves):
            offsets, partners, weights = link_of(layout, psi, int(node))
            shape = (int(layout.sizes[node]), int(layout.sizes[layout.parents[node]]))
            found = messages[layout.messages[node] : layout.messages[node + 1]].reshape(shape)
            first = layout.originals[node]
            if first < node:
                found[:] = messages[layout.messages[first] : layout.messages[first + 1]].reshape(shape)
            else:
                fill_contexts(offsets, partners, weights, kernels[node], found)
        return cls(np.concatenate([k.ravel() for k in (rooted, *kernels[1:])]), messages, psi)


def link_of(layout: Layout, psi: Float64Array, node: int) -> tuple[Int64Array, Int32Array, Float64Array]:
    """Return the offsets and partners of a node's link, and its part of numbers over all pairs."""
    pairs = slice(int(layout.entries[node]), int(layout.entries[node + 1]))
    return layout.offsets[layout.rows[node] : layout.rows[node + 1]], layout.partners[pairs], psi[pairs]


def kernel_with_absent(
    squares: Float32Matrix, sharpness: float, power: float, extra: Float64Matrix | None
) -> Float32Matrix:
    """Return (k + 1, k + 1) float32: K for (k, k) sd², and for absent values, which move to themselves only.

    ``extra``: (k, k) additional exponents, or None.
    """
    size = len(squares)
    result = np.zeros((size + 1, size + 1), np.float32)
    result[:size, :size] = gibbs(squares, sharpness, power, extra)
    result[size, size] = 1.0
    return result


@part
def send_message(layout: Layout, psi: Float64Array, node: int, own: Float64Array, message: Float64Array) -> None:
    """Set the message of an inner node to its parent, (k_p + 1,); ``own``: (k_c + 1,) u of the node."""
    first = layout.rows[node]
    start = layout.entries[node]
    for a in range(message.size):
        total = 0.0
        for k in range(layout.offsets[first + a], layout.offsets[first + a + 1]):
            total += psi[start + k] * own[layout.partners[start + k]]
        message[a] = total


@part
def collect(layout: Layout, weights: Weights, record: Int32Array, own: Float64Array, inner: Float64Array) -> float:
    """Set u of the inner nodes and of the root in ``own``, and the messages of the inner nodes; return Z.

    ``record``: (q,) the values of a record.
    """
    for node in range(layout.parents.size - 1, -1, -1):
        if not layout.leaves[node]:
            found = own[layout.values[node] : layout.values[node + 1]]
            start = layout.kernels[node] + record[node] * found.size
            receive(layout, weights, record, node, inner, weights.kernels[start : start + found.size], found)
            if node > 0:
                send_message(layout, weights.psi, node, found, inner[layout.inner[node] : layout.inner[node + 1]])
    return total_of(own[: layout.sizes[0]])


@part
def receive(
    layout: Layout,
    weights: Weights,
    record: Int32Array,
    node: int,
    inner: Float64Array,
    row: Float32Array,
    found: Float64Array,
) -> None:
    """Set ``found``, (k_j + 1,), to a row of K times the messages of the node's children."""
    first = True
    for child in range(node + 1, layout.parents.size):
        if layout.parents[child] != node:
            continue
        if layout.leaves[child]:
            start = layout.messages[child] + record[child] * found.size
            receive_one(row, weights.messages[start : start + found.size], first, found)
        else:
            receive_one(row, inner[layout.inner[child] : layout.inner[child + 1]], first, found)
        first = False


@part
def receive_one(row: Float32Array, sent: FloatArray, first: bool, found: Float64Array) -> None:
    """Multiply ``found`` by a message; the first one sets it to the row times the message."""
    if first:
        for t in range(found.size):
            found[t] = np.float64(row[t]) * np.float64(sent[t])
    else:
        for t in range(found.size):
            found[t] *= np.float64(sent[t])


@part
def total_of(numbers: Float64Array) -> float:
    """Return a sum, in four parts, so that its additions do not wait for each other."""
    first, second, third, fourth = 0.0, 0.0, 0.0, 0.0
    end = numbers.size - numbers.size % 4
    for t in range(0, end, 4):
        first += numbers[t]
        second += numbers[t + 1]
        third += numbers[t + 2]
        fourth += numbers[t + 3]
    for t in range(end, numbers.size):
        first += numbers[t]
    return (first + second) + (third + fourth)


@part
def pass_on(
    layout: Layout,
    weights: Weights,
    node: int,
    belief: Float64Array,
    message: Float64Array,
    own: Float64Array,
    pairs: Float64Array,
    scratch: Float64Array,
) -> None:
    """Replace u of an inner node by its belief, and add the beliefs of its pairs.

    * ``belief``: (k_p + 1,) that of its parent. ``message``: (k_p + 1,) what it sent. ``own``: (k_c + 1,) u.
    * ``pairs``: over all pairs, added to. ``scratch``: (k_c + 1,), overwritten.
    """
    first = layout.rows[node]
    start = layout.entries[node]
    for t in range(own.size):
        scratch[t] = 0.0
    for a in range(message.size):
        if message[a] > 0.0:
            share = belief[a] / message[a]
            for k in range(layout.offsets[first + a], layout.offsets[first + a + 1]):
                b = layout.partners[start + k]
                part_of_belief = share * weights.psi[start + k] * own[b]
                pairs[start + k] += part_of_belief
                scratch[b] += part_of_belief
    for t in range(own.size):
        own[t] = scratch[t]


@kernel
def accumulate(
    layout: Layout,
    weights: Weights,
    records: Int32Matrix,
    shares: Float64Array,
    moved: Float32Array,
    reached: Float32Array,
    pairs: Float64Array,
) -> Float64Array:
    """Add the beliefs of n records, weighted by their shares, and return (n,) float64 Z.

    * ``moved``: like ``kernels``, the law of (s_j, t_j) of the root and of inner nodes. ``reached``: like ``messages``,
      the law of (s_c, t_p) of leaves. ``pairs``: (pairs,) the law of the pairs of inner nodes.
    """
    totals = np.empty(len(records), np.float64)
    own = np.zeros(layout.values[-1], np.float64)
    inner = np.zeros(max(1, layout.inner[-1]), np.float64)
    scratch = np.empty(layout.values[-1], np.float64)
    for i in range(len(records)):
        record = records[i]
        totals[i] = collect(layout, weights, record, own, inner)
        if not totals[i] > 0.0:
            continue
        share = shares[i] / totals[i]
        for t in range(layout.sizes[0]):
            own[t] *= share
        for node in range(layout.parents.size):
            if layout.leaves[node]:
                continue
            size = layout.sizes[node]
            belief = own[layout.values[node] : layout.values[node + 1]]
            start = layout.kernels[node] + record[node] * size
            row = moved[start : start + size]
            for t in range(size):
                row[t] += np.float32(belief[t])
            for child in range(node + 1, layout.parents.size):
                if layout.parents[child] != node:
                    continue
                if layout.leaves[child]:
                    start = layout.messages[child] + record[child] * size
                    into = reached[start : start + size]
                    for t in range(size):
                        into[t] += np.float32(belief[t])
                else:
                    message = inner[layout.inner[child] : layout.inner[child + 1]]
                    found = own[layout.values[child] : layout.values[child + 1]]
                    pass_on(layout, weights, child, belief, message, found, pairs, scratch[: found.size])
    return totals


@reduction
def entry_dots(offsets: Int64Array, columns: Int32Array, left: Float32Matrix, right: Float32Matrix) -> Float64Array:
    """Return (entries,) float64: Σ_v left[a, v]·right[b, v] for each entry (a, b) of compressed rows."""
    result = np.empty(columns.size, np.float64)
    for a in range(offsets.size - 1):
        x = left[a]
        for k in range(offsets[a], offsets[a + 1]):
            y = right[columns[k]]
            total = np.float32(0.0)
            for v in range(x.size):
                total += x[v] * y[v]
            result[k] = np.float64(total)
    return result


@reduction
def move_sums(joint: Float64Matrix, squares: Float32Matrix, half: float) -> Float64Array:
    """Return (3,) float64: Σ P, Σ P·sd², and the covariance of sd² and sd^γ given the value, times Σ P.

    * ``joint``: (k + 1, k + 1) P of present and absent values and their masks; the sums are over present ones.
    * ``squares``: (k, k) sd². ``half``: γ / 2, 1 or 2.
    """
    result = np.zeros(3, np.float64)
    for s in range(squares.shape[0]):
        mass, moved, powers, products = 0.0, 0.0, 0.0, 0.0
        row, distances = joint[s], squares[s]
        for t in range(distances.size):
            square = np.float64(distances[t])
            power = square * square if half == 2.0 else square
            weight = row[t]
            mass += weight
            moved += weight * square
            powers += weight * power
            products += weight * square * power
        if mass > 0.0:
            result[0] += mass
            result[1] += moved
            result[2] += products - moved * powers / mass
    return result
