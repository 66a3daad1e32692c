"""The replacement engine for concepts in use in a tree: it draws from subtrees, and keeps nothing of single values.

It gives the replacements of ``engine``. ``core.replacement.tree`` finds the level, with the concepts of the window as
its candidates. The candidates of a level are a few ranges of ranks: one region for each ancestor of the value, and none
of them has the depth of another. A candidate is drawn from the ranges by the prefix sums of all frequencies.
The search for a level passes levels without candidates one by one, so the engine is fast in low trees only.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from stream_masker.core.distance import Distance
from stream_masker.core.dtypes import Float64Array, Int32Array, Int64Array, Int64Matrix, UInt8Array, UInt64Array
from stream_masker.core.kernels.jit import inlined, int64, kernel, part
from stream_masker.core.random.draws import index_below, mixed_word
from stream_masker.core.replacement.choice import LevelRule, RandomWords
from stream_masker.core.replacement.levels import Separation, level_of
from stream_masker.core.replacement.observed.draw import ATTEMPTS
from stream_masker.core.replacement.observed.frequencies import ConceptFrequencies
from stream_masker.core.replacement.ranks import RankRange
from stream_masker.core.replacement.rule import SIGN_DROPPED, Candidates, Replacement, ReplacementTask
from stream_masker.core.replacement.tree import (
    TREE_STEP,
    AncestorWalk,
    SignCondition,
    TreeArrays,
    meets_condition,
    replace_in_tree,
    sign_condition,
    subtree_span,
    tree_arrays,
    without_sign,
)

RANGES_OF_A_STEP = 3
"""The most ranges of one region: those beside the branch of the value and a branch towards the reference."""


class WeightedRanges(NamedTuple):
    """Ranges of ranks to draw from.

    cumulative: (m + 1,) the sums of the weights of the first k candidates, by rank. bounds: (3·height, 2) scratch
    memory: the first rank of each range, and the rank after its last one; ascending.
    """

    cumulative: Int64Array
    bounds: Int64Matrix


class ObservedTreeReplacer:
    """The ``Replacer`` for trees whose candidates are the concepts of a window.

    The distance depends on depths alone.
    """

    def __init__(self, distance: Distance, frequencies: ConceptFrequencies, *, calibrated: bool) -> None:
        """``calibrated``: the rounding. Raises ParameterError for a concept outside the taxonomy."""
        size = len(distance.taxonomy)
        frequencies.require_within(size)
        positions = frequencies.positions.astype(np.int32)
        rank = np.searchsorted(positions, np.arange(size + 1)).astype(np.int32)
        self._tree = tree_arrays(distance, Candidates(positions, rank))
        self._height = int(distance.taxonomy.depth.max())
        self._calibrated = calibrated
        self._cumulative = np.concatenate((np.zeros(1, np.int64), np.cumsum(frequencies.weights, dtype=np.int64)))

    def replace(self, task: ReplacementTask) -> Replacement:
        """Replace every value of the task."""
        rows = (task.codes, task.references, task.noise, task.rounding, task.ties)
        return Replacement(
            *replace_observed_in_tree(self._tree, self._cumulative, self._height, self._calibrated, *rows)
        )


@inlined
def separation_of(tree: TreeArrays, a: int, b: int) -> Separation:
    """Return the ``Separation`` of two concepts."""
    links = int64(tree.concepts[a].depth) + int64(tree.concepts[b].depth)
    while a != b:
        if a > b:
            a = int64(tree.concepts[a].parent)
        else:
            b = int64(tree.concepts[b].parent)
    depth = int64(tree.concepts[a].depth)
    return Separation(depth, links - 2 * depth)


@inlined
def strictly(condition: SignCondition) -> SignCondition:
    """Return the condition that candidates at the own distance do not meet."""
    return SignCondition(condition.sign, condition.reference, condition.meeting, condition.own_distance, False)


@inlined
def is_drawn_admissible(tree: TreeArrays, condition: SignCondition, candidate: int) -> bool:
    """Return whether the candidate at a position meets the sign condition."""
    if condition.sign == 0:
        return True
    there = separation_of(tree, candidate, condition.reference)
    return meets_condition(condition, level_of(tree.kind, there.depth, there.links))


@inlined
def meets_below(tree: TreeArrays, condition: SignCondition, subsumer: int, depth: int) -> bool:
    """Return whether candidates at a depth meet the sign condition, if ``subsumer`` is the depth of the least common
    subsumer of each with the reference."""
    links = depth + int64(tree.concepts[condition.reference].depth) - 2 * subsumer
    return meets_condition(condition, level_of(tree.kind, subsumer, links))


@inlined
def boundary_concept(tree: TreeArrays, condition: SignCondition, s: int, depth: int, outside: bool) -> int:
    """Return the highest concept on the path from s down to the reference, without s, that divides candidates at a
    depth: those below it meet the sign condition if and only if those beside it do not. -1 if there is none.

    outside: whether the candidates below s, but not below its child on the path, meet the condition.
    """
    t, found = condition.reference, int64(-1)
    while t != s:
        subsumer = int64(tree.concepts[t].depth)
        if subsumer <= depth and meets_below(tree, condition, subsumer, depth) != outside:
            found = t
        t = int64(tree.concepts[t].parent)
    return found


@inlined
def add_ranges(bounds: Int64Matrix, count: int, outer: RankRange, hole: RankRange, other: RankRange) -> int:
    """Append the ranks of ``outer`` that are in neither of two disjoint holes to ``count`` ranges.

    Return the new number of ranges. A hole lies in ``outer`` or is empty.
    """
    if hole.first > other.first:
        hole, other = other, hole
    first, end = outer.first, outer.first + outer.size
    for inner in (hole, other, RankRange(end, int64(0))):
        if inner.size > 0 or inner.first == end:
            if inner.first > first:
                bounds[count, 0], bounds[count, 1] = first, inner.first
                count += 1
            first = inner.first + inner.size
    return count


@part
def fill_ranges(
    tree: TreeArrays, walk: AncestorWalk, steps: int, level: Separation, condition: SignCondition, bounds: Int64Matrix
) -> int:
    """Write the candidates of a level that meet the sign condition as ranges of ranks, ascending.

    Return their number. level: the ``Separation`` of the value from one candidate of the level. Distances are equal if
    the ratios of links to depth are. The greater the depth of the subsumer, the greater is then that of the candidate.
    """
    none = RankRange(int64(0), int64(0))
    count = int64(0)
    for i in range(steps - 1, -1, -1):
        s, subsumer = walk.steps[i].concept, walk.steps[i].depth
        links = level.links * subsumer // level.depth
        if links < i or links * level.depth != level.links * subsumer:
            continue
        outer = subtree_span(tree, s, links - i)
        if outer.size == 0:
            continue
        hole = subtree_span(tree, walk.steps[i - 1].concept if i > 0 else int64(-1), links - i - 1)
        branch = none
        if condition.sign != 0:
            depth = subsumer + links - i
            meets = meets_below(tree, condition, min(subsumer, walk.steps[condition.meeting].depth), depth)
            if i == condition.meeting:
                t = boundary_concept(tree, condition, s, depth, meets)
                branch = subtree_span(tree, t, depth - int64(tree.concepts[t].depth))
            if not meets:
                outer, hole, branch = branch, none, none
        count = add_ranges(bounds, count, outer, hole, branch)
    return count


@inlined
def draw_from_ranges(ranges: WeightedRanges, count: int, word: np.uint64) -> int:
    """Return the rank of a candidate in the ranges, drawn by its weight."""
    cumulative, bounds = ranges
    total = int64(0)
    for i in range(count):
        total += cumulative[bounds[i, 1]] - cumulative[bounds[i, 0]]
    rest = index_below(word, total)
    i = 0
    weight = cumulative[bounds[0, 1]] - cumulative[bounds[0, 0]]
    while rest >= weight:
        rest -= weight
        i += 1
        weight = cumulative[bounds[i, 1]] - cumulative[bounds[i, 0]]
    low, high = int64(bounds[i, 0]), int64(bounds[i, 1]) - 1
    rest += cumulative[low]
    while low < high:
        middle = (low + high) >> 1
        if cumulative[middle + 1] <= rest:
            low = middle + 1
        else:
            high = middle
    return low


@part
def draw_observed_in_tree(
    tree: TreeArrays,
    walk: AncestorWalk,
    ranges: WeightedRanges,
    a: int,
    level: Separation,
    condition: SignCondition,
    tie: np.uint64,
) -> int:
    """Return the position of an admissible candidate of a level of the value a, like ``draw.draw_by_frequency``.

    A weak condition becomes the strict one if a candidate of the level meets that.
    """
    steps = int64(tree.concepts[a].depth)
    if condition.weak and condition.sign != 0:
        strict = strictly(condition)
        if fill_ranges(tree, walk, steps, level, strict, ranges.bounds) > 0:
            condition = strict
    count = fill_ranges(tree, walk, steps, level, without_sign(condition), ranges.bounds)
    for _ in range(ATTEMPTS):
        candidate = int64(tree.positions[draw_from_ranges(ranges, count, tie)])
        if is_drawn_admissible(tree, condition, candidate):
            return candidate
        tie = mixed_word(tie)
    count = fill_ranges(tree, walk, steps, level, condition, ranges.bounds)
    return int64(tree.positions[draw_from_ranges(ranges, count, tie)])


@kernel
def replace_observed_in_tree(
    tree: TreeArrays,
    cumulative: Int64Array,
    height: int,
    calibrated: bool,
    codes: Int32Array,
    references: Int32Array,
    noise: Float64Array,
    rounding: UInt64Array,
    ties: UInt64Array,
) -> tuple[Int32Array, Float64Array, UInt8Array]:
    """Return (codes, distances, flags) of a ``Replacement`` of k values, given the arrays of the ``ReplacementTask``.

    cumulative: of ``WeightedRanges``.
    """
    chosen = codes.copy()
    distances = np.zeros(codes.size, np.float64)
    flags = np.zeros(codes.size, np.uint8)
    walk = AncestorWalk(np.empty(height, TREE_STEP), np.empty((height, 2), np.float64))
    ranges = WeightedRanges(cumulative, np.empty((RANGES_OF_A_STEP * height, 2), np.int64))
    for n in range(codes.size):
        a = int64(codes[n])
        if a >= 0 and noise[n] != 0.0:
            r = int64(references[n]) if references[n] >= 0 else a
            words = RandomWords(rounding[n], ties[n])
            rule = LevelRule(abs(noise[n]), calibrated, tree.rank[a + 1] > tree.rank[a])
            choice = replace_in_tree(tree, walk, a, r, noise[n], rule, calibrated, words)
            distances[n], flags[n] = choice.distance, choice.flags
            if choice.candidate >= 0:
                level = separation_of(tree, a, int64(tree.positions[choice.candidate]))
                condition = sign_condition(tree, walk, a, r, noise[n], calibrated)
                if choice.flags & SIGN_DROPPED:
                    condition = without_sign(condition)
                chosen[n] = draw_observed_in_tree(tree, walk, ranges, a, level, condition, ties[n])
    return chosen, distances, flags
