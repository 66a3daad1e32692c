"""Draws from the channel M(a*, b* | a, b) of a transport of pairs.

First a* is drawn with weights K_A(a, a*)·C(a*, b), where C(a*, b) = Σ ψ(a*, b*)·K_B(b*, b) is computed in advance, as
is their sum (Kψ)(a, b), then b* with weights K_B(b, b*)·ψ(a*, b*) over the partners b* of a*, whose sum is C(a*, b).
A pair is accepted with the probability r_A·r_B of its factors, and drawn again otherwise; after ``PAIR_ATTEMPTS`` it is
drawn from the weights with factors, over all tuples.

Candidates are drawn one after the other (``kernels.draws.accepts``), the near ones first, so that a draw visits few
of them. Their order does not depend on the window, so that a window that slid a little changes few masks.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from stream_masker.core.dtypes import (
    Float32Array,
    Float32Matrix,
    Float64Array,
    Int32Array,
    Int64Array,
    UInt16Matrix,
    UInt64Array,
)
from stream_masker.core.kernels.draws import accepts, mixed_word, salts_of, uniform
from stream_masker.core.kernels.jit import borrowing, inlined, int64, part
from stream_masker.core.mechanisms.transport.scaling.solver import Scaling
from stream_masker.core.mechanisms.transport.scaling.table import Binding, factor_of

DISTANCE_STEPS = 1 << 11
"""The number of steps of sd² by which candidates are ordered."""
PAIR_ATTEMPTS = 128
"""How often a pair is drawn before its law is computed in full."""
ACCEPTANCE = np.uint64(0x5851F42D4C957F2D)
"""What tells the random word of an acceptance from those of values."""
GREATEST_CONTEXT = 1e30
"""The greatest C, to which ψ is scaled: K is at least 10⁻³⁵, so that no product underflows float32."""


class FirstChannel(NamedTuple):
    """The arrays of draws of a*, of k_A × k_B values; of an attribute alone, k_B = 1.

    * ``totals``: (k_A, k_B) float32 Kψ. ``context``: (k_B, k_A) float32 Cᵀ.
    * ``order``: (k_A, k_A) uint16, the order in which the candidates a* of each a are visited. ``kernel``: (k_A, k_A)
      float32 K_A in this order.
    * ``salts``: (k_A,) uint64 (``core.kernels.draws.accepts``).
    """

    totals: Float32Matrix
    context: Float32Matrix
    order: UInt16Matrix
    kernel: Float32Matrix
    salts: UInt64Array

    @classmethod
    def none(cls) -> FirstChannel:
        """Return a channel of no values."""
        empty = np.empty((0, 0), np.float32)
        return cls(empty, empty, np.empty((0, 0), np.uint16), empty, np.empty(0, np.uint64))


class PairChannel(NamedTuple):
    """The arrays of a transport of pairs of k_A × k_B values with m tuples.

    * ``offsets``, ``partners``: the tuples as compressed rows. ``place_of``: (k_B,) int32, the indices of values in a
      preorder walk of the taxonomy, in which values that are near each other have near places. ``places``: (m,) int32,
      those of the partners, ascending within a row.
    * ``psi``: (m,) float64 ψ, up to a factor. ``second``: (k_B, k_B) float32 K_B.
    * ``salts``: (k_B,) uint64 (``core.kernels.draws.accepts``).
    * ``first_factors``, ``second_factors``: the factors of both attributes, by tuple.
    """

    first: FirstChannel
    partners: Int32Array
    places: Int32Array
    place_of: Int32Array
    offsets: Int64Array
    psi: Float64Array
    second: Float32Matrix
    salts: UInt64Array
    first_factors: Binding
    second_factors: Binding

    @classmethod
    def of(
        cls,
        solved: Scaling,
        squares: Float32Matrix,
        positions: tuple[Int32Array, Int32Array],
        place_of: Int32Array,
    ) -> PairChannel:
        """Create the channel of a transport; of a single attribute, with a kernel that holds its factors.

        ``squares``: (k_A, k_A) sd² ≤ 1 of the first attribute. ``positions``: of the values of both attributes.
        ``place_of``: (k_B,) int32, the places of the values of the second one.
        """
        table, first, binding = solved.problem.table, solved.kernels.first, solved.binding
        if solved.problem.lone:
            factors, first = binding[0], first.copy()
            first[factors.values, np.repeat(table.rows, np.diff(factors.offsets))] *= factors.factors
            binding = (Binding.none(table.rows.size),) * 2
        ordered = np.lexsort((place_of[table.columns], table.rows))
        partners = table.columns[ordered].astype(np.int32)
        scaled = solved.psi * (GREATEST_CONTEXT / solved.psi.sum())
        context = table.by_row.sums(scaled, solved.kernels.second_masks)
        steps = (squares * np.float32(DISTANCE_STEPS)).astype(np.uint16)
        order = np.argsort(steps, axis=1, kind="stable").astype(np.uint16)
        first_factors, second_factors = (each.ordered(ordered) for each in binding)
        in_order = np.take_along_axis(first, order, axis=1)
        return cls(
            FirstChannel(first @ context.T, context, order, in_order, salts_of(positions[0])),
            partners,
            place_of[partners],
            place_of,
            table.by_row.offsets,
            scaled[ordered],
            solved.kernels.second,
            salts_of(positions[1]),
            first_factors,
            second_factors,
        )


@part
def tuple_index(offsets: Int64Array, partners: Int32Array, a: int, b: int) -> int:
    """Return the index of tuple (a, b), −1 if there is none."""
    low, high = offsets[a], offsets[a + 1]
    while low < high:
        middle = (low + high) >> 1
        if partners[middle] < b:
            low = middle + 1
        else:
            high = middle
    return low if low < offsets[a + 1] and partners[low] == b else int64(-1)


@part
def draw_first(channel: FirstChannel, a: int, b: int, word: np.uint64) -> int:
    """Draw a*; a and b are indices of values. −1 if all weights are 0."""
    context = channel.context[b]
    weights = channel.kernel[a]
    order = channel.order[a]
    left = np.float64(channel.totals[a, b])
    for k in range(order.size):
        chosen = int64(order[k])
        weight = np.float64(weights[k]) * np.float64(context[chosen])
        if accepts(word, channel.salts[chosen], weight, left) and weight > 0.0:
            return chosen
        left -= weight
    for k in range(order.size - 1, -1, -1):
        if np.float64(weights[k]) * np.float64(context[order[k]]) > 0.0:
            return int64(order[k])
    return int64(-1)


@part
def draw_second(channel: PairChannel, new: int, b: int, word: np.uint64) -> int:
    """Draw a tuple (a*, b*) of a*, and return its index."""
    first, end, place = channel.offsets[new], channel.offsets[new + 1], channel.place_of[b]
    span = (first, first + int64(np.searchsorted(channel.places[first:end], place)), end)
    partners, places, left = channel.partners, channel.places, np.float64(channel.first.context[b, new])
    return draw_nearest(
        channel.second, b, partners, places, channel.psi, int64(0), span, place, left, word, channel.salts
    )


@inlined
def draw_nearest(
    kernel: Float32Matrix,
    b: int,
    partners: Int32Array,
    places: Int32Array,
    psi: Float32Array | Float64Array,
    shift: int,
    span: tuple[int, int, int],
    place: int,
    left: float,
    word: np.uint64,
    salts: UInt64Array,
) -> int:
    """Draw one of the partners of a* with weights K_B(b, b*)·ψ, the nearest places first, so that few are visited.

    Return its index in ``partners``; −1 if all weights are 0.

    * ``partners``, ``places``: of all tuples. ``psi``: ψ of tuple k is at k + ``shift``.
    * ``span``: the first tuple of a*, the first whose place is at least ``place``, that of b, and the end.
    * ``left``: the sum of the weights.
    """
    first, above, end = span
    below, last = above - 1, int64(-1)
    while below >= first or above < end:
        if below < first or (above < end and places[above] - place <= place - places[below]):
            k = above
            above += 1
        else:
            k = below
            below -= 1
        candidate = int64(partners[k])
        weight = np.float64(psi[k + shift]) * np.float64(kernel[b, candidate])
        if weight > 0.0:
            last = k
            if accepts(word, salts[candidate], weight, left):
                break
            left -= weight
    return last


@part
def factors_of(channel: PairChannel, k: int, a: int, b: int) -> float:
    """Return r_A·r_B of a tuple, for the pair (a, b)."""
    return factor_of(channel.first_factors, k, a) * factor_of(channel.second_factors, k, b)


@part
def draw_among_all(channel: PairChannel, a: int, b: int, word: np.uint64) -> tuple[int, int]:
    """Draw a* and the index of a tuple (a*, b*) from the weights with factors of all tuples."""
    first, left, new, last = channel.first, 0.0, int64(-1), int64(-1)
    for visit in range(2):
        for rank in range(first.order.shape[1]):
            row = int64(first.order[a, rank])
            for k in range(channel.offsets[row], channel.offsets[row + 1]):
                other = channel.partners[k]
                weight = channel.psi[k] * np.float64(first.kernel[a, rank]) * np.float64(channel.second[b, other])
                weight *= factors_of(channel, k, a, b)
                if visit == 0:
                    left += weight
                elif weight > 0.0:
                    new, last = row, k
                    salt = first.salts[row] ^ mixed_word(channel.salts[other])
                    if accepts(word, salt, weight, left):
                        return new, last
                    left -= weight
    return new, last


@part
def draw_pair_again(channel: PairChannel, a: int, b: int, word: np.uint64) -> tuple[int, int]:
    """Draw a* and the index of a tuple, after a first one that was not accepted."""
    for _ in range(PAIR_ATTEMPTS):
        word = mixed_word(word)
        new = draw_first(channel.first, a, b, word)
        k = draw_second(channel, new, b, mixed_word(~word))
        if uniform(mixed_word(word ^ ACCEPTANCE)) < factors_of(channel, k, a, b):
            return new, k
    return draw_among_all(channel, a, b, mixed_word(word))


@borrowing
def draw_pairs(
    channel: PairChannel,
    a: Int32Array,
    b: Int32Array,
    words_a: UInt64Array,
    words_b: UInt64Array,
    new_a: Int32Array,
    new_b: Int32Array,
) -> int:
    """Draw the masks of n pairs of indices of values, (n,) each. Return how many have none, because a value is absent
    or all weights are 0: their ``new_a`` and ``new_b`` stay as they are."""
    left = a.size
    for i in range(a.size):
        if a[i] >= 0 and b[i] >= 0:
            own, other = int64(a[i]), int64(b[i])
            new = draw_first(channel.first, own, other, words_a[i])
            if new >= 0:
                k = draw_second(channel, new, other, words_b[i])
                accepted = factors_of(channel, k, own, other)
                if accepted < 1.0 and uniform(mixed_word(words_a[i] ^ words_b[i] ^ ACCEPTANCE)) >= accepted:
                    new, k = draw_pair_again(channel, own, other, words_a[i] ^ mixed_word(words_b[i]))
                new_a[i], new_b[i] = new, channel.partners[k]
                left -= 1
    return left


@borrowing
def draw_pair(channel: PairChannel, before: Int32Array, words: UInt64Array, after: Int32Array) -> int:
    """Do what ``draw_pairs`` does for one pair; (2,) each."""
    return draw_pairs(channel, before[:1], before[1:], words[:1], words[1:], after[:1], after[1:])


@borrowing
def draw_alone(channel: FirstChannel, a: Int32Array, words: UInt64Array, new: Int32Array) -> None:
    """Draw the masks that are missing, −1 in ``new``, of n indices of values of one attribute, (n,) each."""
    for i in range(a.size):
        if a[i] >= 0 and new[i] < 0:
            new[i] = draw_first(channel, int64(a[i]), int64(0), words[i])
