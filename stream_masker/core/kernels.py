"""Every compiled function of the core: numba's ``njit`` with one set of options.

numba compiles a kernel when it is first called and keeps it on disk: in ``$NUMBA_CACHE_DIR`` if set, else in
``__pycache__`` beside this file, else in the user's cache folder; nowhere if no folder can be written. Kernels run
without the interpreter lock and divide as NumPy does (x / 0 is inf or nan).

A kernel states its signature: ``int`` for integers of any width except uint64, ``np.uint64``, ``float`` for float64,
``bool``, an alias of ``core.arrays`` for an array.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple, TypeAlias, TypeVar, cast

import numpy as np
from numba import njit
from numba.core import event
from numpy.typing import NDArray

from stream_masker.core.arrays import (
    BoolArray,
    Float32Array,
    Float32Cube,
    Float64Array,
    Float64Cube,
    Float64Matrix,
    Int32Array,
    Int32Cube,
    Int32Matrix,
    Int64Array,
    Int64Matrix,
    UInt8Array,
    UInt64Array,
)

log = logging.getLogger(__name__)

F = TypeVar("F", bound=Callable[..., Any])
Words = TypeVar("Words", np.uint64, UInt64Array)

int64 = cast(Callable[[Any], int], np.int64)
"""NumPy's int64, typed as the ``int`` that signatures use for integers of any width."""


def kernel(function: F) -> F:
    """Compile a function; without a cache where no folder can be written."""
    options = {"nogil": True, "error_model": "numpy"}
    try:
        return cast(F, njit(cache=True, **options)(function))
    except RuntimeError:
        return cast(F, njit(**options)(function))


class CompilationNotice(event.Listener):  # type: ignore[misc]
    """Says once that kernels are compiled, which nobody sees otherwise."""

    def __init__(self) -> None:
        self._warn_once = lru_cache(log.warning)

    def on_start(self, event: Any) -> None:
        """Write the log line. numba calls this for each kernel that is not found on disk."""
        self._warn_once("compiling numerical code for the first use, about 15 seconds")

    def on_end(self, event: Any) -> None:
        """Do nothing; numba calls this when the kernel is compiled."""


event.register("numba:compile", CompilationNotice())


@kernel
def uniform(word: np.uint64) -> float:
    """Return a number in [0, 1) from the 53 high bits of a random word."""
    return int64(word >> np.uint64(11)) * (1.0 / 9007199254740992.0)


@kernel
def mixed_word(word: Words) -> Words:
    """Return another random word, or others in the shape of an array, by the finalizer of SplitMix64."""
    word = word + np.uint64(0x9E3779B97F4A7C15)
    word = (word ^ (word >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    word = (word ^ (word >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return word ^ (word >> np.uint64(31))


@kernel
def draw_product(
    order: Int64Array, near: Float32Array, weights: Float32Array, left: float, salts: UInt64Array, word: np.uint64
) -> int:
    """Return a candidate c = order[k] drawn with weights near[k] · weights[c], whose sum is ``left``.

    Candidates are visited in order, near ones first, so that a draw visits few. Each is accepted with its share of the
    weight that is left. Its random number depends on the word and on its salt alone. So a small change of the weights
    changes few draws: the decision on a candidate changes only with the probability by which its own share changed.
    """
    last = int64(order[0])
    for k in range(order.size):
        candidate = int64(order[k])
        weight = np.float64(near[k]) * np.float64(weights[candidate])
        if weight > 0.0:
            last = candidate
            mixed = (word ^ salts[candidate]) * np.uint64(0xBF58476D1CE4E5B9)
            mixed = (mixed ^ (mixed >> np.uint64(32))) * np.uint64(0x94D049BB133111EB)
            if uniform(mixed) * left < weight:
                break
            left -= weight
    return last


class Products(NamedTuple):
    """What draws are made from: the candidate c = order[i, k] has the weight near[i, k] · weights[row, c].

    * ``order``: (r, v) the candidates in the order in which they are visited. ``near``: (r, v), floats.
    * ``weights``: (w, v), floats. ``salts``: (v,) uint64, the salt of each candidate.
    """

    order: NDArray[np.integer]
    near: NDArray[np.floating]
    weights: NDArray[np.floating]
    salts: UInt64Array


@kernel
def draw_products(
    given: Products, orders: Int64Array, rows: Int64Array, totals: Float64Array, words: UInt64Array
) -> Int64Array:
    """Return (n,) int64: a candidate for each word; all arguments are (n,).

    ``orders``, ``rows``: its order, and its row of weights. ``totals``: the sum of its weights.
    """
    drawn = np.empty(words.size, np.int64)
    for i in range(words.size):
        order, near, weights = given.order[orders[i]], given.near[orders[i]], given.weights[rows[i]]
        drawn[i] = draw_product(order, near, weights, totals[i], given.salts, words[i])
    return drawn


IndexMatrix: TypeAlias = np.ndarray[tuple[int, int], np.dtype[np.uint8 | np.uint16 | np.uint32]]
IndexArray: TypeAlias = NDArray[np.uint8 | np.uint16 | np.uint32]

LINK_BITS = 32
LINK_MASK = (1 << LINK_BITS) - 1


@kernel
def fill_pairs(
    levels: Int32Array,
    scale: Int32Matrix,
    by_counts: bool,
    a: Int32Array,
    b: Int32Array,
    depth: Int32Array,
    offsets: Int64Array,
    ancestors: Int32Array,
    paths: Int32Array,
) -> None:
    """Fill ``levels``, (n,), with those of n pairs of positions.

    The ancestors of both concepts are merged in descending order, so the deepest common ancestors come first.
    """
    for i in range(a.size):
        p, q = offsets[a[i]], offsets[b[i]]
        end_p, end_q = offsets[a[i] + 1], offsets[b[i] + 1]
        both = end_p - p + end_q - q
        common, deepest, links = 0, 0, 0
        while p < end_p and q < end_q:
            first, second = ancestors[p], ancestors[q]
            if first == second:
                if not by_counts and depth[first] < deepest:
                    break
                total = int64(paths[p]) + int64(paths[q])
                if depth[first] > deepest or (depth[first] == deepest and total < links):
                    deepest, links = int64(depth[first]), total
                common += 1
            p += first >= second
            q += second >= first
        levels[i] = scale[common, both - 2 * common] if by_counts else scale[deepest, links]


@kernel
def fill_by_subsumers(
    rows: IndexMatrix,
    places: Int64Array,
    scale: Int32Matrix,
    sources: Int32Array,
    targets: Int32Array,
    member: Int32Array,
    parent_offsets: Int64Array,
    parents: Int32Array,
    depth: Int32Array,
    offsets: Int64Array,
    ancestors: Int32Array,
    paths: Int32Array,
) -> None:
    """Fill the rows at k places with the levels of k sources and t targets, from their least common subsumers.

    The members are the targets and their ancestors, parents first. The best subsumer that a member shares with a source
    is the member itself, if it subsumes the source, or that of one of its parents, one link farther. It is kept as
    ``depth · 2³² − links``, which prefers greater depth, then fewer links.

    sources: (k,) positions. targets: (t,) members. member: (m,) of each position, -1 for none. parent_offsets, parents:
    the parents of each member, as members. depth: of each position.
    """
    best = np.empty(parent_offsets.size - 1, np.int64)
    for i in range(sources.size):
        best[:] = 0
        for k in range(offsets[sources[i]], offsets[sources[i] + 1]):
            if member[ancestors[k]] >= 0:
                best[member[ancestors[k]]] = (int64(depth[ancestors[k]]) << LINK_BITS) - paths[k]
        for c in range(best.size):
            for k in range(parent_offsets[c], parent_offsets[c + 1]):
                best[c] = max(best[c], best[parents[k]] - 1)
        for t in range(targets.size):
            deepest = (best[targets[t]] + LINK_MASK) >> LINK_BITS
            rows[places[i], t] = scale[deepest, (deepest << LINK_BITS) - best[targets[t]]]


TRUNCATED = 1
SIGN_DROPPED = 2

STRIDE = 32
"""Places between two entries of ``Orders.sums``."""

LONG, MORE_DRAWS = 4_096, 64
"""The classes of a level from which on it has more draws before it is visited, and their number."""

FEW = 64
"""The most admissible classes that are visited one by one, instead of those around a value in their order."""


class Orders(NamedTuple):
    """Candidate classes as k concepts see them, nearest first.

    * ``rows``: (k, c) the level of every class of the table from each concept.
    * ``order``: (k, n) the candidate classes by level, those of one level by their first candidate.
    * ``starts``: (k, L + 1) int32, the first place in ``order`` of each level; n at the end.
    * ``sums``: (k, n // STRIDE + 1) int64, the weight of all places before each ``STRIDE``-th.
    """

    rows: IndexMatrix
    order: IndexMatrix
    starts: Int32Matrix
    sums: Int64Matrix


class ClassMembers(NamedTuple):
    """The candidates of each of c classes.

    * ``weights``: (c,) int64, the weight of a class in draws. ``used``: bool, whether it has candidates, up to the last
      class that has.
    * ``members``: int32 positions; those of class j are ``members[starts[j]:starts[j + 1]]``.
    """

    weights: Int64Array
    used: BoolArray
    starts: Int64Array
    members: Int32Array


class Rule(NamedTuple):
    """What decides on replacements.

    * ``orders``: of the candidates. ``classes``: the candidates of each class.
    * ``levels``: (L,) the distances. ``class_of``: (m,) int32, the class of each concept. ``is_candidate``: (m,) bool.
    * ``calibrated``: the rounding. ``weak``: whether classes as far from the reference as the value are admissible.
    """

    orders: Orders
    classes: ClassMembers
    levels: Float64Array
    class_of: Int32Array
    is_candidate: BoolArray
    calibrated: bool
    weak: bool


class View(NamedTuple):
    """A value and its reference, with the levels from the reference that meet the condition of its sign.

    * ``i``, ``r``: the value and its reference among the concepts of ``Orders``.
    * ``low``, ``high``: a class is admissible at the levels ``low`` … ``high - 1``.
    * ``first``, ``end``: it is preferred at the levels ``first`` … ``end - 1``.
    """

    i: int
    r: int
    low: int
    high: int
    first: int
    end: int


@kernel
def fill_orders(orders: Orders, weights: Int64Array, some: Int64Array, wanted: Int32Array) -> None:
    """Fill the orders of ``wanted`` concepts by counting sorts.

    ``some``: (n,) the candidate classes by their first candidates. ``weights``: (c,) those of all classes.
    """
    for i in wanted:
        row, order, starts, sums = orders.rows[i], orders.order[i], orders.starts[i], orders.sums[i]
        starts[:] = 0
        for j in some:
            starts[int64(row[j]) + 1] += 1
        starts[:] = np.cumsum(starts)
        places = starts.copy()
        for j in some:
            order[places[row[j]]] = j
            places[row[j]] += 1
        total = int64(0)
        for q in range(sums.size):
            sums[q] = total
            for j in order[q * STRIDE : (q + 1) * STRIDE]:
                total += weights[j]


@kernel
def draw_candidate(orders: Orders, classes: ClassMembers, view: View, level: int, tie: np.uint64) -> int:
    """Draw an admissible candidate of a level by weight, from the preferred ones if there are any.

    The first draws are from the whole level, one or, in a long level, ``MORE_DRAWS``. Only if they give no preferred
    one, the level is visited class by class.
    """
    weights, beside, order = classes.weights, orders.rows[view.r], orders.order[view.i]
    start, end = int64(orders.starts[view.i, level]), int64(orders.starts[view.i, level + 1])
    is_long, before, total, sums = end - start > 2 * STRIDE, int64(0), int64(0), orders.sums[view.i]
    for p in range(end // STRIDE * STRIDE if is_long else start, end):
        total += weights[order[p]]
    if is_long:
        before = sums[start // STRIDE]
        for p in range(start // STRIDE * STRIDE, start):
            before += weights[order[p]]
        total += sums[end // STRIDE] - before
    j, rest, is_drawn, draws = int64(0), int64(0), False, 1 if end - start < LONG else MORE_DRAWS
    while draws > 0 and not is_drawn:
        rest, place = int64(uniform(tie) * total), start
        if is_long:
            low = int64(np.searchsorted(sums, before + rest, side="right")) - 1
            rest, place = before + rest - sums[low], low * STRIDE
        while rest >= weights[order[place]]:
            rest -= weights[order[place]]
            place += 1
        j = int64(order[place])
        is_drawn = view.first <= int64(beside[j]) < view.end
        draws, tie = draws - 1, mixed_word(tie)
    if not is_drawn:
        preferred, admissible = int64(0), int64(0)
        for p in range(start, end):
            j = int64(order[p])
            other = int64(beside[j])
            preferred += weights[j] if view.first <= other < view.end else int64(0)
            admissible += weights[j] if view.low <= other < view.high else int64(0)
        low, high = (view.first, view.end) if preferred > 0 else (view.low, view.high)
        rest = int64(uniform(tie) * (preferred if preferred > 0 else admissible))
        for p in range(start, end):
            j = int64(order[p])
            if low <= int64(beside[j]) < high:
                if rest < weights[j]:
                    break
                rest -= weights[j]
    size = classes.starts[j + 1] - classes.starts[j]
    return int64(classes.members[classes.starts[j] + rest % size])


@kernel
def replace_values(
    rule: Rule,
    indices: Int32Array,
    references: Int32Array,
    own_levels: Int32Array,
    codes: Int32Array,
    noise: Float64Array,
    rounding: UInt64Array,
    ties: UInt64Array,
) -> tuple[Int32Array, Float64Array, UInt8Array, tuple[int, float, float, int, int, int]]:
    """Return the masks, distances and flags of n values, and the sums of ``batch.Distortion``.

    * ``indices``, ``references``: (n,) the values and their references among the concepts of ``orders``; -1 for none.
    * ``own_levels``: (n,) the level of each value from its reference, or -1 for that of its class.
    * ``codes``: (n,) positions. ``noise``: (n,) ε. ``rounding``, ``ties``: (n,) random words.
    """
    masks, distances, flags = codes.copy(), np.zeros(codes.size), np.zeros(codes.size, np.uint8)
    orders, classes, levels, class_of, is_candidate, calibrated, weak = rule
    rows, order, starts = orders.rows, orders.order, orders.starts
    for k in range(codes.size):
        if codes[k] < 0 or noise[k] == 0.0:
            continue
        i, r, target = int64(indices[k]), int64(references[k]), abs(noise[k])
        own = int64(own_levels[k]) if own_levels[k] >= 0 else int64(rows[r, class_of[codes[k]]])
        r, farther, nearer = (i, False, False) if r < 0 or own == 0 else (r, noise[k] > 0.0, noise[k] < 0.0)
        first, end = own + 1 if farther else int64(0), own if nearer else int64(levels.size)
        low, high, above, below = first - int64(weak and farther), end + int64(weak and nearer), int64(-1), int64(-1)
        split = int64(np.searchsorted(levels, target))
        for is_free in (False, True):
            if is_free:
                low, high, first, end = int64(0), int64(levels.size), int64(0), int64(levels.size)
            if starts[r, high] - starts[r, low] > FEW:
                place = int64(starts[i, split])
                while place < order.shape[1] and not low <= int64(rows[r, order[i, place]]) < high:
                    place += 1
                above = int64(rows[i, order[i, place]]) if place < order.shape[1] else above
                place = int64(starts[i, split]) - 1
                while place >= starts[i, 1] and not low <= int64(rows[r, order[i, place]]) < high:
                    place -= 1
                below = int64(rows[i, order[i, place]]) if place >= starts[i, 1] else below
            else:
                for place in range(starts[r, low], starts[r, high]):
                    level = int64(rows[i, order[r, place]])
                    if level >= split:
                        above = level if above < 0 else min(above, level)
                    elif level > 0:
                        below = max(below, level)
            if above >= 0 or below >= 0:
                flags[k] = SIGN_DROPPED if is_free else 0
                break
        level = max(above, below)
        if above < 0:
            flags[k] |= TRUNCATED
        elif calibrated and (below >= 0 or is_candidate[codes[k]]):
            lo, hi = levels[below] if below >= 0 else 0.0, levels[above]
            level = above if uniform(rounding[k]) < (target * target - lo * lo) / (hi * hi - lo * lo) else below
        if level > 0:
            view = View(i, r, low, high, first, end)
            distances[k], masks[k] = levels[level], draw_candidate(orders, classes, view, level, ties[k])
    values, truncated, unsigned, unchanged, squared_distance, squared_noise = 0, 0, 0, 0, 0.0, 0.0
    for k in range(codes.size):
        if codes[k] >= 0:
            values += 1
            squared_distance += distances[k] ** 2
            squared_noise += noise[k] ** 2
            truncated += int64(flags[k] & TRUNCATED != 0)
            unsigned += int64(flags[k] & SIGN_DROPPED != 0)
            unchanged += int64(masks[k] == codes[k])
    return masks, distances, flags, (values, squared_distance, squared_noise, truncated, unsigned, unchanged)


NEARER, FARTHER, EQUAL = 0, 1, 2
"""Sides of classes: nearer to the reference than the value, farther, or as far."""


class Situations(NamedTuple):
    """S values with their references, and what each may become.

    A *cell* of the noise is its sign (0 for ε < 0, 1 for ε > 0) and the largest of L ascending distances that |ε|
    exceeds; the first distance is 0. A cell leads to one of two distances.

    * ``rows``: (k, c) levels of classes from anchors. ``compact``: the index of each level among the distances.
    * ``grid``: (L,) float64, the distances.
    * ``totals``: (c,) float64, the weight of each class.
    * ``values``, ``references``: (S,) int32, rows; that of a value without reference is its own. ``classes``: (S,)
      those of the values.
    * ``shares``: (S, 2, 3, L) float64, for each sign, side and distance what is drawn for a unit of weight; at distance
      0 it is 1.
    * ``high``, ``low``: (S, 2, L) int32, the distances to which a cell leads; low 0 keeps the value. ``up``: (S, 2, L)
      float64, the probability of the higher one.
    """

    rows: IndexMatrix
    compact: Int32Array
    grid: Float64Array
    totals: Float64Array
    values: Int32Array
    references: Int32Array
    classes: Int32Array
    shares: NDArray[np.float64]
    high: Int32Cube
    low: Int32Cube
    up: Float64Cube


@kernel
def add_weights(given: Situations, classes: Int64Array, sums: Float64Cube) -> None:
    """Add the weights of some classes to (S, 3, L) sums, by their side and distance in each situation."""
    for s in range(given.values.size):
        near, beside = given.rows[given.values[s]], given.rows[given.references[s]]
        own = beside[given.classes[s]]
        for j in classes:
            side = int64(EQUAL) if beside[j] == own else int64(beside[j] > own)
            sums[s, side, given.compact[near[j]]] += given.totals[j]


@kernel
def add_likelihoods(
    given: Situations,
    cells: Float64Array,
    shares: Float64Array,
    rows: Int64Array,
    classes: Int64Array,
    to: Float64Matrix,
) -> None:
    """Add to a row of (n, K) the share of each situation times its probability to become each of K ``classes``.

    ``cells``: (L,) the probability of each cell of either sign. ``shares``, ``rows``: (S,) each.
    """
    size = cells.size
    for s in range(shares.size):
        chances = np.zeros((3, size))  # of a class of weight 1, by its side and distance
        for sign in range(2):
            reached = np.zeros(size + 1)
            for i in range(size):
                reached[given.high[s, sign, i]] += cells[i] * given.up[s, sign, i]
                reached[given.low[s, sign, i]] += cells[i] * (1.0 - given.up[s, sign, i])
            chances += shares[s] * given.shares[s, sign] * reached[:size]
        near, beside = given.rows[given.values[s]], given.rows[given.references[s]]
        own, sums = beside[given.classes[s]], to[rows[s]]
        for k in range(classes.size):
            j = classes[k]
            level, side = given.compact[near[j]], int64(EQUAL) if beside[j] == own else int64(beside[j] > own)
            sums[k] += chances[side, level] * (given.totals[j] if level > 0 else 1.0)


@kernel
def fill_chances(given: Situations, s: int, j: int, chances: Float64Matrix, cells: Int64Matrix) -> None:
    """Fill (2, L) with P(class j | situation s, cell), at the cells where it can be positive.

    These cells of each sign are next to the distance of the class. ``cells``: (2, 2), the first one and the end.
    """
    level, r = int64(given.compact[given.rows[given.values[s], j]]), given.references[s]
    beside, own = given.rows[r, j], given.rows[r, given.classes[s]]
    side, weight = int64(EQUAL) if beside == own else int64(beside > own), given.totals[j] if level > 0 else 1.0
    for sign in range(2):
        start, end, share = level, level, weight * given.shares[s, sign, side, level]
        while share > 0.0 and start > 0 and given.high[s, sign, start - 1] == level:
            start -= 1
            chances[sign, start] = share * given.up[s, sign, start]
        while share > 0.0 and end < chances.shape[1] and given.low[s, sign, end] == level:
            chances[sign, end] = share * (1.0 - given.up[s, sign, end])
            end += 1
        cells[sign, 0], cells[sign, 1] = start, end


@kernel
def pair_likelihoods(
    first: Situations,
    classes_first: Int32Array,
    second: Situations,
    classes_second: Int32Array,
    cells: Float64Cube,
) -> Float64Matrix:
    """Return (n, t) float64: the probability that t situations, and those beside them, become n pairs of classes.

    ``cells``: (2, L, M) the probabilities of the cells of both noises, of equal and of opposite signs.
    """
    result = np.zeros((classes_first.size, first.values.size))
    one, other = np.zeros((2, first.up.shape[2])), np.zeros((2, second.up.shape[2]))
    near, far = np.zeros((2, 2), np.int64), np.zeros((2, 2), np.int64)
    for t in range(first.values.size):
        for n in range(classes_first.size):
            j, k = classes_first[n], classes_second[n]
            if n == 0 or j != classes_first[n - 1]:
                fill_chances(first, t, j, one, near)
            if n == 0 or k != classes_second[n - 1]:
                fill_chances(second, t, k, other, far)
            for sign in range(2):
                for i in range(near[sign, 0], near[sign, 1]):
                    both = 0.0
                    for opposite in range(2):
                        drawn = sign ^ opposite
                        for m in range(far[drawn, 0], far[drawn, 1]):
                            both += cells[opposite, i, m] * other[drawn, m]
                    result[n, t] += one[sign, i] * both
    return result


REDRAWN, SECOND, AGAIN = map(np.uint64, (0x5851F42D4C957F2D, 0x14057B7EF767814F, 0x9E6C63D0876A9A47))
"""Constants that give the draws of one record different random words."""


class Tree(NamedTuple):
    """The laws of an attribute's k_B values given k_A values of the root, on a tree of N nodes (``transport.given``).

    Node x < k_B is value x. Blocks, chapters and the root follow, so that the values of a node, and the nodes below it,
    stand next to each other.

    * ``laws``: (2, k_A, N) float32, the mass of each node in P(b | a), and in P(b* | a*).
    * ``redraw_chance``: (k_A,) float32 η, by a*.
    * ``lines``: (levels, k_B) int64, the nodes of each value: itself, its block, its chapter, the root.
    * ``first``, ``end``: (N,) int64, the values of a node. ``salts``: (N,) uint64.
    * ``children``: (N + 1,) int64, those of node n are ``children[n]`` … ``children[n + 1] − 1``; a value has none.
    * ``entries``: (k_B·(levels − 1) + 1,) int64, where the numbers begin that ``couple`` returns, by value, then by
      level, one for each child of the node of the level above; at the end their number E.
    """

    laws: Float32Cube
    redraw_chance: Float32Array
    lines: Int64Matrix
    first: Int64Array
    end: Int64Array
    children: Int64Array
    salts: UInt64Array
    entries: Int64Array


@kernel
def couple(tree: Tree, roots: Int64Array, shares: Float64Array, new: int) -> Float32Array:
    """Return (E,) P(b, n | a*) by the coupling of ``draw_given``, before repeats and redraws, at ``entries``.

    n is the first node of the line of b* that is not on the line of b, or b itself if both are the same.

    * ``roots``, ``shares``: (m,) the values of the root, and P(a | a*). ``new``: a*.
    """
    q, nodes, joint = tree.laws[1, new], tree.first.size, np.zeros(tree.entries[-1], np.float32)
    won, gains, known = np.zeros(nodes), np.zeros(nodes, np.float32), np.full(nodes, -1)
    for k in range(roots.size):
        p = tree.laws[0, roots[k]]
        for x in np.flatnonzero(p[: tree.lines.shape[1]]):
            together, node = shares[k] * np.float64(p[x]), nodes - 1
            for level in range(tree.lines.shape[0] - 2, -1, -1):
                below, start, end = int64(tree.lines[level, x]), tree.children[node], tree.children[node + 1]
                at = tree.entries[x * (tree.lines.shape[0] - 1) + level] - start
                old, drawn = 1.0 / np.float64(p[node]), 1.0 / np.float64(q[node])
                if known[node] != k:
                    known[node], won[node] = k, 0.0
                    for c in range(start, end):
                        gains[c] = max(np.float64(q[c]) * drawn - np.float64(p[c]) * old, 0.0)
                        won[node] += gains[c]
                staying = min(np.float64(q[below]) * drawn / (np.float64(p[below]) * old), 1.0)
                if staying < 1.0 and won[node] > 0.0:
                    leaving = np.float32(together * (1.0 - staying) / won[node])
                    for c in range(start, end):
                        joint[at + c] += leaving * gains[c]
                together *= staying
                if together == 0.0:
                    break
                if level == 0:
                    joint[at + x] += np.float32(together)
                node = below
    return joint


@kernel
def draw_given(
    tree: Tree,
    root: Int64Array,
    root_new: Int64Array,
    values: Int32Array,
    words: UInt64Array,
    lengths: Int64Array,
) -> Int32Array:
    """Return (m,) int32: the masks of values that are drawn given the value of their record's root, and its mask.

    * ``root``, ``root_new``: (n,) indices of n records. ``lengths``: (n,) their numbers of values.
    * ``values``, ``words``: (m,), record by record. If all values of a record differ, so do their masks, as far as the
      law allows. A repeated mask is drawn again from its block or, if nothing else of the block is left, one level up.
    """
    (levels, size), top, result = tree.lines.shape, tree.first.size - 1, np.empty(values.size, np.int32)
    weights, seen, taken = np.zeros(top + 1, np.float32), np.full(size, -1), np.full(size, -1)
    nodes, ones, stop = np.arange(top + 1), np.ones(top + 1, np.float32), 0
    for i in range(root.size):
        p, q, unlike = tree.laws[0, root[i]], tree.laws[1, root_new[i]], True
        start, stop = stop, stop + lengths[i]
        for k in range(start, stop):
            unlike, seen[values[k]] = unlike and seen[values[k]] != i, i
        for k in range(start, stop):
            word, x, node, level = words[k], int64(values[k]), top, levels - 1
            is_redrawn = uniform(mixed_word(word ^ REDRAWN)) < tree.redraw_chance[root_new[i]]
            place, together = uniform(word), p[x] > 0.0 and not is_redrawn
            while together and level > 0:
                below, first, end = int64(tree.lines[level - 1, x]), tree.children[node], tree.children[node + 1]
                old, drawn, won = 1.0 / np.float64(p[node]), 1.0 / np.float64(q[node]), 0.0
                staying = min(np.float64(q[below]) * drawn / (np.float64(p[below]) * old), 1.0)
                together = place < staying
                if together:
                    place, node, level = place / staying, below, level - 1
                    continue
                for c in range(first, end):
                    weights[c] = max(np.float64(q[c]) * drawn - np.float64(p[c]) * old, 0.0)
                    won += weights[c]
                if won > 0.0:  # but for a rounding error
                    level -= 1
                    node = draw_product(nodes[first:end], ones, weights, won, tree.salts, word)
            drawn_by = mixed_word(word)
            while level > 0:  # down from where it has parted
                level -= 1
                parts = nodes[tree.children[node] : tree.children[node + 1]]
                node = draw_product(parts, ones, q, np.float64(q[node]), tree.salts, drawn_by)
                drawn_by = mixed_word(drawn_by)
            level = 0
            while unlike and taken[node] == i and level < levels - 1:
                level, total = level + 1, 0.0
                above = tree.lines[level, node]
                for other in range(tree.first[above], tree.end[above]):
                    weights[other] = q[other] if taken[other] != i else np.float32(0.0)
                    total += weights[other]
                if total > 0.0:
                    others = nodes[tree.first[above] : tree.end[above]]
                    node = draw_product(others, ones, weights, total, tree.salts, mixed_word(word ^ AGAIN))
            taken[node], result[k] = i, node
    return result
