"""Compiled swaps: of ordered values (2019: Algorithm 1), and with the nearest units (2019: algorithms 2 and 3)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from stream_masker.core.dtypes import (
    BoolMatrix,
    Int32Array,
    Int64Array,
    Int64Matrix,
    UInt64Array,
    UInt64Matrix,
)
from stream_masker.core.kernels.jit import inlined, int64, kernel, part

PARTNER_WORD = 0
TIED_PARTNER_WORD = 1
TIE_WORD = 2
REFERENCE_WORD = 3
"""The four random words of a value: two draw its partner, one breaks ties in ranks, one draws the next reference."""
FIRST_REFERENCE_WORD = TIE_WORD
"""The word that draws the first reference by algorithms 2 and 3, which have no ties in ranks."""
STAY_BIT = np.uint64(1)
"""The bit of ``PARTNER_WORD``, which ``draw_below`` does not use, that keeps a value whose swap is forced."""


@inlined
def draw_below(word: np.uint64, size: int) -> int:
    """Return a uniform integer in 0 … size − 1, from the 53 high bits of a random word."""
    return int64(np.float64(word >> np.uint64(11)) * 2.0**-53 * size)


@kernel
def uniform_below(word: np.uint64, size: int) -> int:
    """``draw_below``, for Python."""
    return draw_below(word, size)


@kernel
def swap_in_range(order: Int64Array, codes: Int32Array, owners: Int64Array, k: int, words: UInt64Matrix) -> Int64Array:
    """Return (n,) int64 partners by Algorithm 1 of 2019, lines 5 to 12.

    ``order``: (n,) int64, the values by rank. Each unswapped value swaps with a random unswapped one of another owner
    among the next k values; its partner is itself if there is none. If all of these have one code, which is not its
    own, it stays with probability 1/2.
    """
    n = order.size
    partners = np.arange(n)
    swapped = np.zeros(n, np.bool_)
    open_entries = np.empty(min(k, n), np.int64)
    for i in range(n):
        if swapped[i]:
            continue
        a = order[i]
        count = 0
        for later in range(i + 1, min(i + k, n - 1) + 1):
            if not swapped[later] and owners[order[later]] != owners[a]:
                open_entries[count] = later
                count += 1
        swapped[i] = True
        if count and words[a, PARTNER_WORD] & STAY_BIT:
            only = codes[order[open_entries[0]]]
            forced = only != codes[a]
            for c in range(1, count):
                forced = forced and codes[order[open_entries[c]]] == only
            if forced:
                count = 0
        if count:
            later = open_entries[draw_below(words[a, PARTNER_WORD], count)]
            swapped[later] = True
            partners[a] = order[later]
            partners[order[later]] = a
    return partners


@kernel
def swap_in_order(order: Int64Array, owners: Int64Array) -> Int64Array:
    """Return (n,) int64 partners: each unswapped value swaps with the next unswapped one of another owner.

    ``order``: (n,) int64, the values in random order.
    """
    n = order.size
    partners = np.arange(n)
    swapped = np.zeros(n, np.bool_)
    for i in range(n):
        if swapped[i]:
            continue
        a = order[i]
        later = i + 1
        while later < n and (swapped[later] or owners[order[later]] == owners[a]):
            later += 1
        if later < n:
            swapped[later] = True
            partners[a] = order[later]
            partners[order[later]] = a
    return partners


class SwapUnits(NamedTuple):
    """n units that swap, with at most one value in each of c columns: records, or the single values of one attribute.

    * ``values``: (c, n) int64, indices of the columns' values in their rows of distances; the last one if missing.
    * ``rows``: (c, n) int64, the offset in ``distances`` of the row of each value.
    * ``distances``: int32, the columns' tables of distances in units of 1/``UNIT``, concatenated.
    * ``owners``: (n,) int64; units of one owner never swap with each other.
    * ``partner_words``, ``tied_partner_words``: (c, n) uint64. ``reference_words``: (n,) uint64.
    """

    values: Int64Matrix
    rows: Int64Matrix
    distances: Int32Array
    owners: Int64Array
    partner_words: UInt64Matrix
    tied_partner_words: UInt64Matrix
    reference_words: UInt64Array


@part
def measure_units(units: SwapUnits, reference: int, distances: Int64Array) -> None:
    """Fill ``distances``, (n,) int64, with c times the distance from the reference to each unit (equation 9)."""
    for i in range(distances.size):
        distances[i] = 0
    for j in range(units.values.shape[0]):
        row = units.rows[j, reference]
        for i in range(distances.size):
            distances[i] += units.distances[row + units.values[j, i]]


@part
def is_forced(units: SwapUnits, j: int, reference: int, candidates: Int64Array, count: int) -> bool:
    """Return whether all candidates have one value of column j, which is not that of the reference."""
    only = units.values[j, candidates[0]]
    for c in range(1, count):
        if units.values[j, candidates[c]] != only:
            return False
    return only != units.values[j, reference]


@part
def draw_partner(
    units: SwapUnits,
    j: int,
    reference: int,
    k: int,
    unswapped: BoolMatrix,
    distances: Int64Array,
    bound: int,
    candidates: Int64Array,
) -> int:
    """Return a unit of the swapping interval with an unswapped value of column j (Algorithm 1, lines 15 and 17).

    ``bound``: the distance of the k-th nearest unit. Of the units at that distance, as many belong to the interval as
    complete it. Those with an unswapped value come first, and are drawn uniformly. Return −1 if there is none, and with
    probability 1/2 if the swap is forced. ``candidates``: scratch, (n,) int64.
    """
    tied_places = k
    inside = 0
    for i in range(distances.size):
        if i != reference and distances[i] < bound:
            tied_places -= 1
            if unswapped[j, i] and units.owners[i] != units.owners[reference]:
                candidates[inside] = i
                inside += 1
    count = inside
    for i in range(distances.size):
        if distances[i] == bound and i != reference and unswapped[j, i] and units.owners[i] != units.owners[reference]:
            candidates[count] = i
            count += 1
    word = units.partner_words[j, reference]
    if count == 0 or (word & STAY_BIT and is_forced(units, j, reference, candidates, count)):
        return -1
    drawn = draw_below(word, inside + min(tied_places, count - inside))
    if drawn >= inside:
        drawn = inside + draw_below(units.tied_partner_words[j, reference], count - inside)
    return candidates[drawn]


@part
def most_distant_unit(unswapped: BoolMatrix, distances: Int64Array, word: np.uint64, candidates: Int64Array) -> int:
    """Return the farthest unit with unswapped values (equations 7 and 12); −1 if there is none.

    Among several, one is drawn. ``candidates``: scratch, (n,) int64.
    """
    best = int64(-1)
    count = 0
    for i in range(distances.size):
        if distances[i] >= best and unswapped[:, i].any():
            count = 0 if distances[i] > best else count
            best = distances[i]
            candidates[count] = i
            count += 1
    return candidates[draw_below(word, count)] if count else int64(-1)


@kernel
def swap_nearest(
    units: SwapUnits, reference: int, k: int, unswapped: BoolMatrix, partners: Int64Matrix, references: Int64Array
) -> int:
    """Swap by Algorithm 3 of 2019, lines 6 to 12, and return the number of references.

    With one column it is Algorithm 2, lines 4 to 8.

    * ``reference``: the most distant unit. ``k``: the length of the interval, less than n.
    * ``unswapped``: (c, n) bool, the values that are present; all are labelled as swapped at the end.
    * ``partners``: (c, n) int64, initially each unit itself; replaced by the unit that it exchanges this value with.
    * ``references``: (n,) int64, filled with the references in their order.
    """
    columns, n = unswapped.shape
    distances = np.empty(n, np.int64)
    candidates = np.empty(n, np.int64)
    count = 0
    while reference >= 0:
        measure_units(units, reference, distances)
        distances[reference] = -1
        bound = np.partition(distances, k)[k]
        for j in range(columns):
            if unswapped[j, reference]:
                unswapped[j, reference] = False
                partner = draw_partner(units, j, reference, k, unswapped, distances, bound, candidates)
                if partner >= 0:
                    unswapped[j, partner] = False
                    partners[j, reference] = partner
                    partners[j, partner] = reference
        references[count] = reference
        count += 1
        reference = most_distant_unit(unswapped, distances, units.reference_words[reference], candidates)
    return count
