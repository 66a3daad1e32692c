"""Draws from the channel M(a*, b* | a, b) of a transport of pairs.

First a* is drawn with weights K_A(a, a*)·C(a*, b), where C(a*, b) = Σ ψ(a*, b*)·K_B(b*, b) is computed in advance, then
b* with weights K_B(b, b*)·ψ(a*, b*) over the partners b* of a*. The sum of the first weights is (Kψ)(a, b), that of the
second is C(a*, b), so neither takes a pass of its own.

Kψ is computed in advance for all pairs of values, because most incoming records are not tuples of the window.
A pair is accepted with the probability r_A·r_B of its factors (``transport.scaling.binding``), and drawn again
otherwise; after ``PAIR_ATTEMPTS`` it is drawn from the weights with factors, over all tuples.

Candidates are drawn one after the other (``core.random.draws.accepts``), the near ones first, so that a draw visits few
of them. Their order does not depend on the window, so that a window that slid a little changes few masks.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from stream_masker.core.dtypes import (
    Float32Matrix,
    Float64Array,
    Int32Array,
    Int64Array,
    UInt16Matrix,
    UInt64Array,
)
from stream_masker.core.kernels.intrinsics import prefetch
from stream_masker.core.kernels.jit import int64, kernel, part
from stream_masker.core.mechanisms.transport.scaling.binding import Binding, factor_of
from stream_masker.core.mechanisms.transport.scaling.products import fill_contexts
from stream_masker.core.mechanisms.transport.scaling.solver import Kernels
from stream_masker.core.mechanisms.transport.scaling.table import Table
from stream_masker.core.random.draws import accepts, mixed_word, salts_of, uniform

PREFETCHED_PAIRS = 8
"""How many pairs ahead of their use arrays are prefetched. The data that locate them are prefetched twice as far
ahead."""
PREFETCHED_DISTANCES = 24
"""Distances are prefetched this many values ahead of their use."""
PREFETCHED_CANDIDATES = 4
"""The number of candidates of a pair whose contexts are prefetched."""
DISTANCE_STEPS = 1 << 11
"""The number of steps of sd² by which candidates are ordered."""
PAIR_ATTEMPTS = 128
"""How often a pair is drawn before its law is computed in full."""
ACCEPTANCE = np.uint64(0x5851F42D4C957F2D)
"""What tells the random word of an acceptance from those of values."""
GREATEST_CONTEXT = 1e30
"""The greatest C, to which ψ is scaled: K is at least 10⁻³⁵, so that no product underflows float32."""


class PairChannel(NamedTuple):
    """The arrays of a transport of pairs of k_A × k_B values with m tuples.

    * ``partners``: (m,) int32, the tuples as compressed rows. ``places``: (m,) int32, the places of the partners,
      ascending within a row. ``place_of``: (k_B,) int32, those of all values: their indices in a preorder walk of the
      taxonomy, in which values that are near each other have near places.
    * ``offsets``: (k_A + 1,) int64, the first partner of each row. ``lesser``: (k_A, k_B) uint16, the number of
      partners of each a* whose places are less than that of each b. So the partners nearest to b are found without a
      search, whose branches are mispredicted.
    * ``psi``: (m,) float64 ψ, up to a factor. ``totals``: (k_A, k_B) float32 Kψ.
    * ``second``: (k_B, k_B) float32 K_B. ``context``: (k_B, k_A) float32 Cᵀ.
    * ``order``: (k_A, k_A) uint16, the order in which the candidates a* of each a are visited. ``first``: (k_A, k_A)
      float32 K_A in this order.
    * ``first_salts``, ``second_salts``: (k_A,) and (k_B,) uint64 (``core.random.draws.accepts``).
    * ``first_factors``, ``second_factors``: the factors of both attributes, by tuple.
    """

    partners: Int32Array
    places: Int32Array
    place_of: Int32Array
    offsets: Int64Array
    lesser: UInt16Matrix
    psi: Float64Array
    totals: Float32Matrix
    second: Float32Matrix
    context: Float32Matrix
    order: UInt16Matrix
    first: Float32Matrix
    first_salts: UInt64Array
    second_salts: UInt64Array
    first_factors: Binding
    second_factors: Binding

    @classmethod
    def of(
        cls,
        table: Table,
        psi: Float64Array,
        kernels: Kernels,
        binding: tuple[Binding, Binding],
        squares: Float32Matrix,
        positions: tuple[Int32Array, Int32Array],
        place_of: Int32Array,
    ) -> PairChannel:
        """Create the channel of a table's ψ, with its kernels and factors.

        ``squares``: (k_A, k_A) sd² ≤ 1 of the first attribute. ``positions``: of the values of both attributes.
        ``place_of``: (k_B,) int32, the places of the values of the second one.
        """
        ordered = np.lexsort((place_of[table.columns], table.rows))
        offsets, partners = table.by_row.offsets, table.columns[ordered].astype(np.int32)
        scaled = psi[ordered] * (GREATEST_CONTEXT / psi.sum())
        first, second = kernels.first, kernels.second
        context = np.empty((second.shape[1], first.shape[0]), np.float32)
        fill_contexts(offsets, partners, scaled, kernels.second_masks, context)
        totals: Float32Matrix = first @ context.T
        order, weights = np.empty(first.shape, np.uint16), np.empty(first.shape, np.float32)
        fill_order(first, squares, order, weights)
        places, lesser = place_of[partners], np.empty(table.shape, np.uint16)
        fill_lesser(offsets, places, place_of, np.argsort(place_of), lesser)
        first_salts, second_salts = map(salts_of, positions)
        first_factors, second_factors = (each.ordered(ordered) for each in binding)
        return cls(
            partners,
            places,
            place_of,
            offsets,
            lesser,
            scaled,
            totals,
            second,
            context,
            order,
            weights,
            first_salts,
            second_salts,
            first_factors,
            second_factors,
        )


@kernel
def fill_order(first: Float32Matrix, squares: Float32Matrix, order: UInt16Matrix, ordered: Float32Matrix) -> None:
    """Set ``order`` and ``first`` of a channel, from K_A and sd²; equals are ordered by index."""
    size = first.shape[1]
    starts = np.empty(DISTANCE_STEPS + 2, np.int64)
    for a in range(first.shape[0]):
        starts[:] = 0
        for new in range(size):
            starts[int64(squares[a, new] * np.float32(DISTANCE_STEPS)) + 1] += 1
        for step in range(DISTANCE_STEPS):
            starts[step + 1] += starts[step]
        for new in range(size):
            step = int64(squares[a, new] * np.float32(DISTANCE_STEPS))
            place = starts[step]
            starts[step] += 1
            order[a, place] = new
            ordered[a, place] = first[a, new]


@kernel
def fill_lesser(
    offsets: Int64Array, places: Int32Array, place_of: Int32Array, ordered: Int64Array, lesser: UInt16Matrix
) -> None:
    """Set ``lesser`` of a channel; ``ordered``: (k_B,), the values of the second attribute in the order of places."""
    for a in range(lesser.shape[0]):
        k = offsets[a]
        row = lesser[a]
        for b in ordered:
            while k < offsets[a + 1] and places[k] < place_of[b]:
                k += 1
            row[b] = k - offsets[a]


@part
def first_not_less(numbers: Int32Array, low: int, high: int, bound: int) -> int:
    """Return the index of the first of the numbers, ascending, from ``low`` on that is not less; ``high`` if there is
    none."""
    while low < high:
        middle = (low + high) >> 1
        if numbers[middle] < bound:
            low = middle + 1
        else:
            high = middle
    return low


@part
def tuple_index(offsets: Int64Array, partners: Int32Array, a: int, b: int) -> int:
    """Return the index of tuple (a, b), −1 if there is none."""
    k = first_not_less(partners, offsets[a], offsets[a + 1], b)
    return k if k < offsets[a + 1] and partners[k] == b else int64(-1)


@part
def draw_first(channel: PairChannel, a: int, b: int, word: np.uint64) -> int:
    """Draw a*; a and b are indices of values. −1 if all weights are 0."""
    context = channel.context[b]
    weights = channel.first[a]
    order = channel.order[a]
    left = np.float64(channel.totals[a, b])
    for k in range(order.size):
        chosen = int64(order[k])
        weight = np.float64(weights[k]) * np.float64(context[chosen])
        if accepts(word, channel.first_salts[chosen], weight, left) and weight > 0.0:
            return chosen
        left -= weight
    for k in range(order.size - 1, -1, -1):
        if np.float64(weights[k]) * np.float64(context[order[k]]) > 0.0:
            return int64(order[k])
    return int64(-1)


@part
def draw_second(channel: PairChannel, new: int, b: int, word: np.uint64) -> int:
    """Draw a tuple (a*, b*) of a*, and return its index: those of the nearest places first, so that few are visited."""
    weights = channel.second[b]
    left = np.float64(channel.context[b, new])
    place = channel.place_of[b]
    first, end = channel.offsets[new], channel.offsets[new + 1]
    above = first + int64(channel.lesser[new, b])
    below = above - 1
    last = int64(-1)
    while below >= first or above < end:
        if below < first or (above < end and channel.places[above] - place <= place - channel.places[below]):
            k = above
            above += 1
        else:
            k = below
            below -= 1
        candidate = int64(channel.partners[k])
        weight = channel.psi[k] * np.float64(weights[candidate])
        if weight > 0.0:
            last = k
            if accepts(word, channel.second_salts[candidate], weight, left):
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
    left, new, last = 0.0, int64(-1), int64(-1)
    for visit in range(2):
        for rank in range(channel.order.shape[1]):
            row = int64(channel.order[a, rank])
            for k in range(channel.offsets[row], channel.offsets[row + 1]):
                other = channel.partners[k]
                weight = channel.psi[k] * np.float64(channel.first[a, rank]) * np.float64(channel.second[b, other])
                weight *= factors_of(channel, k, a, b)
                if visit == 0:
                    left += weight
                elif weight > 0.0:
                    new, last = row, k
                    salt = channel.first_salts[row] ^ mixed_word(channel.second_salts[other])
                    if accepts(word, salt, weight, left):
                        return new, last
                    left -= weight
    return new, last


@part
def draw_pair_again(channel: PairChannel, a: int, b: int, word: np.uint64) -> tuple[int, int]:
    """Draw a* and the index of a tuple, after a first one that was not accepted."""
    for _ in range(PAIR_ATTEMPTS):
        word = mixed_word(word)
        new = draw_first(channel, a, b, word)
        k = draw_second(channel, new, b, mixed_word(~word))
        if uniform(mixed_word(word ^ ACCEPTANCE)) < factors_of(channel, k, a, b):
            return new, k
    return draw_among_all(channel, a, b, mixed_word(word))


@part
def prefetch_first(channel: PairChannel, a: Int32Array, b: Int32Array, i: int) -> None:
    """Prefetch what ``draw_first`` reads first: the order of pair i's candidates, and the contexts of a pair before."""
    if i < a.size and a[i] >= 0 and b[i] >= 0:
        prefetch(channel.order[a[i]], int64(0))
        prefetch(channel.first[a[i]], int64(0))
        prefetch(channel.totals[a[i]], int64(b[i]))
    i -= PREFETCHED_PAIRS
    if i < a.size and a[i] >= 0 and b[i] >= 0:
        context = channel.context[b[i]]
        order = channel.order[a[i]]
        for k in range(min(PREFETCHED_CANDIDATES, order.size)):
            prefetch(context, int64(order[k]))


@part
def prefetch_second(channel: PairChannel, new: Int32Array, b: Int32Array, i: int) -> None:
    """Prefetch what ``draw_second`` reads first: the entry of ``lesser`` of pair i, and, of a pair before, C(a*, b) and
    K_B of the two partners of nearest places."""
    if i < new.size and new[i] >= 0:
        prefetch(channel.lesser[new[i]], int64(b[i]))
    i -= PREFETCHED_PAIRS
    if i < new.size and new[i] >= 0:
        prefetch(channel.context[b[i]], int64(new[i]))
        weights = channel.second[b[i]]
        above = channel.offsets[new[i]] + int64(channel.lesser[new[i], b[i]])
        prefetch(weights, int64(channel.partners[max(above - 1, 0)]))
        prefetch(weights, int64(channel.partners[min(above, channel.partners.size - 1)]))


@kernel
def draw_pairs(
    channel: PairChannel, a: Int32Array, b: Int32Array, words_a: UInt64Array, words_b: UInt64Array
) -> tuple[Int32Array, Int32Array]:
    """Return (n,) int32 each: the indices of the masked values of n pairs; −1 for pairs with an absent value."""
    new_a = np.full(a.size, -1, np.int32)
    new_b = np.full(a.size, -1, np.int32)
    for i in range(a.size):
        prefetch_first(channel, a, b, i + 2 * PREFETCHED_PAIRS)
        if a[i] >= 0 and b[i] >= 0:
            new_a[i] = draw_first(channel, int64(a[i]), int64(b[i]), words_a[i])
    for i in range(a.size):
        prefetch_second(channel, new_a, b, i + 2 * PREFETCHED_PAIRS)
        if new_a[i] >= 0:
            k = draw_second(channel, int64(new_a[i]), int64(b[i]), words_b[i])
            accepted = factors_of(channel, k, int64(a[i]), int64(b[i]))
            if accepted < 1.0 and uniform(mixed_word(words_a[i] ^ words_b[i] ^ ACCEPTANCE)) >= accepted:
                again, k = draw_pair_again(channel, int64(a[i]), int64(b[i]), words_a[i] ^ mixed_word(words_b[i]))
                new_a[i] = again
            new_b[i] = channel.partners[k]
    return new_a, new_b


@kernel
def draw_values(channel: PairChannel, a: Int32Array, words: UInt64Array) -> Int32Array:
    """Return (n,) int32: the indices of the masked values of one attribute, whose second attribute has a single
    value."""
    new = np.full(a.size, -1, np.int32)
    for i in range(a.size):
        if a[i] >= 0:
            new[i] = draw_first(channel, int64(a[i]), int64(0), words[i])
    return new


class MaskedSums(NamedTuple):
    """Sums over the values of one column: how many are present, how many are unchanged, and Σ sd²."""

    present: int
    unchanged: int
    squared_distance: float


@kernel
def masked_sums(
    squares: Float32Matrix,
    positions: Int32Array,
    before: Int32Array,
    after: Int32Array,
    codes: Int32Array,
    masked: Int32Array,
) -> tuple[MaskedSums, Int32Array]:
    """Decode the masks of n values, and return their sums, and the rows whose distance is not in them.

    * ``squares``: (k, k) sd². ``positions``: (k,) of the values. ``before``, ``after``: (n,) the indices of values and
      masks. ``codes``: (n,) the positions of the values, which differ from ``positions[before]`` where a value is none
      of the k: these rows are returned. ``masked``: (n,) set to the positions of the masks, −1 where absent.
    """
    present, unchanged, others = 0, 0, 0
    squared = 0.0
    rows = np.empty(codes.size, np.int32)
    for i in range(codes.size):
        ahead = min(i + PREFETCHED_DISTANCES, codes.size - 1)
        if before[ahead] >= 0:
            prefetch(squares[before[ahead]], int64(after[ahead]))
        masked[i] = -1
        if codes[i] >= 0:
            present += 1
            masked[i] = positions[after[i]]
            if masked[i] == codes[i]:
                unchanged += 1
            elif positions[before[i]] == codes[i]:
                squared += np.float64(squares[before[i], after[i]])
            else:
                rows[others] = i
                others += 1
    return MaskedSums(present, unchanged, squared), rows[:others]
