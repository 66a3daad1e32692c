"""Replacements in a tree, without looking at its concepts one by one.

In a tree sd(c, a) depends on two depths alone: that of the least common subsumer of c and a, and that of c. So the
concepts at one distance of a are a union of *regions*: the descendants, at one depth, of an ancestor s of a, less those
below the child of s on the way to a. The tree's numbering makes these ranges of positions.

From each ancestor, levels ascend with the links. So the levels next to |ε| are found by a *step* for each ancestor,
placed where its distances reach |ε|; from there steps go up and down until a level has admissible candidates.

Against a reference r, with M the least common subsumer of a and r, a region is equally far from r throughout, but for
that of s = M where r lies below M: it splits along the way from M to r in the same manner. The others are admissible
from some number of links on (farther) or up to some (nearer), so that the steps keep to these.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from stream_masker.core.distance import Distance
from stream_masker.core.dtypes import (
    Float64Array,
    Float64Matrix,
    Int32Array,
    Int32Matrix,
    Int64Matrix,
    UInt8Array,
    UInt64Array,
)
from stream_masker.core.kernels.jit import inlined, int64, kernel, part
from stream_masker.core.random.draws import index_below, uniform
from stream_masker.core.replacement.levels import NONE_ADMISSIBLE, first_links, is_beyond, level_of, slope, takes_upper
from stream_masker.core.replacement.rule import SIGN_DROPPED, TRUNCATED, Candidates, Replacement, ReplacementTask

PARENT, DEPTH, SPANS = range(3)
"""Columns of ``TreeArrays.concepts``."""

SELF, AT, PATH, LEAST, MOST, UP, DOWN = range(7)
"""Columns of ``AncestorWalk.steps``."""

ABOVE, BELOW = range(2)
"""Sides of a step: the next level that is not nearer than the target, and the next one that is."""


class TreeArrays(NamedTuple):
    """The tree for the kernels. kind: of the distance. positions: of candidates; rank: candidates before a position.

    concepts: (m + 1, 4) int32: parent, depth, and where a concept's ranges begin in spans (n, 2): the candidates k
    levels below it, by the first one's rank and their number.
    """

    kind: int
    concepts: Int32Matrix
    spans: Int32Matrix
    positions: Int32Array
    rank: Int32Array


class AncestorWalk(NamedTuple):
    """Room for the ancestors of one value, itself the first.

    steps: (height, 7) int64: position, depth, links from the value up to it, the fewest and the most links in all of a
    concept to look at, and those of the levels at hand. levels: (height, 2) these levels, inf and -1 for none.
    """

    steps: Int64Matrix
    levels: Float64Matrix


class TreeReplacer:
    """The ``Replacer`` of trees, for distances that depend on depths alone (``tree_distance``)."""

    def __init__(self, distance: Distance, *, candidates: str, calibrated: bool) -> None:
        """``candidates``: all or leaves; ``calibrated``: the rounding."""
        tau = distance.taxonomy
        self._calibrated = calibrated
        self._height = int(tau.depth.max())
        self._tree = _tree(distance, Candidates.of(tau, candidates))

    def replace(self, task: ReplacementTask) -> Replacement:
        rows = (task.codes, task.references, task.noise, task.rounding, task.ties)
        return Replacement(*replace_all_in_tree(self._tree, self._height, self._calibrated, *rows))


def _tree(distance: Distance, eligible: Candidates) -> TreeArrays:
    tau = distance.taxonomy
    concepts = np.zeros((len(tau) + 1, 4), np.int32)
    concepts[:-1, PARENT], concepts[:-1, DEPTH] = tau.tree.parent, tau.depth
    concepts[:, SPANS] = tau.tree.level_offsets
    low, high = eligible.rank[tau.tree.level_lo], eligible.rank[tau.tree.level_hi]
    spans = np.ascontiguousarray(np.stack((low, high - low), axis=1))
    return TreeArrays(distance.kind, concepts, spans, eligible.positions, eligible.rank)


@inlined
def subtree_span(tree: TreeArrays, s: int, level: int) -> tuple[int, int]:
    """The candidates ``level`` levels below s: the rank of the first and their number; none for s = -1."""
    k = tree.concepts[s, SPANS] + level
    if s < 0 or level < 0 or k >= tree.concepts[s + 1, SPANS]:
        return int64(0), int64(0)
    return int64(tree.spans[k, 0]), int64(tree.spans[k, 1])


@inlined
def climb(tree: TreeArrays, steps: Int64Matrix, a: int) -> int:
    """Writes the way from a up to the root; returns its number of steps."""
    count = 0
    s = a
    while s >= 0:
        steps[count, SELF], steps[count, AT], steps[count, PATH] = s, tree.concepts[s, DEPTH], count
        s = int64(tree.concepts[s, PARENT])
        count += 1
    return count


@inlined
def meeting(tree: TreeArrays, steps: Int64Matrix, r: int) -> int:
    """The step that is the least common subsumer of the value and r."""
    i = 0
    while steps[i, SELF] != r:
        if steps[i, SELF] > r:
            i += 1
        else:
            r = int64(tree.concepts[r, PARENT])
    return i


@part
def level_bound(tree: TreeArrays, steps: Int64Matrix, count: int, case: tuple[int, int, int, float]) -> None:
    """Writes between how many links in all each step's regions are to be looked at: at least 1, and at most as many as
    lead down to its lowest descendants; with a sign, those that can be admissible.

    At or below the meeting of a and r, a candidate over step i is farther from r than a where it has more links down
    from i than a has, nearer where fewer. Above, it shares with r what it shares with a.
    """
    sign, r, meet, own = case
    ratio = slope(tree.kind, own)
    for i in range(count):
        s = steps[i, SELF]
        least = max(i, 1)
        most = i + tree.concepts[s + 1, SPANS] - tree.concepts[s, SPANS] - 1
        if sign != 0 and i <= meet:
            if sign > 0:
                least = max(least, 2 * i + 1)
            elif i < meet or s == r:
                most = min(most, 2 * i - 1)
        elif sign != 0:
            depth = steps[i, AT]
            links = first_links(tree.kind, depth, own, ratio, sign > 0) - (tree.concepts[r, DEPTH] - depth)
            least = max(least, i + links) if sign > 0 else least
            most = min(most, i + links - 1) if sign < 0 else most
        steps[i, LEAST], steps[i, MOST] = least, most


@inlined
def rank_place(kind: int, walk: AncestorWalk, i: int, target: float, ratio: float) -> None:
    """Puts step i where its distances reach the target."""
    steps = walk.steps
    depth, least, most = steps[i, AT], steps[i, LEAST], steps[i, MOST]
    links = max(int64(min(depth * ratio, np.float64(max(most, 0)))) + 1, least)
    above = level_of(kind, depth, links)
    below = level_of(kind, depth, links - 1)
    while links > least and below >= target:
        links -= 1
        above = below
        below = level_of(kind, depth, links - 1)
    while links <= most and above < target:
        links += 1
        below = above
        above = level_of(kind, depth, links)
    steps[i, UP], steps[i, DOWN] = links, links - 1
    walk.levels[i, ABOVE] = above if links <= most else np.inf
    walk.levels[i, BELOW] = below if least < links <= most + 1 else -1.0


@inlined
def next_level(walk: AncestorWalk, count: int, side: int) -> float:
    """The least level above the target, or the greatest below it."""
    found = walk.levels[0, side]
    for i in range(1, count):
        level = walk.levels[i, side]
        if (level < found) == (side == ABOVE):
            found = level
    return found


@inlined
def advance(kind: int, walk: AncestorWalk, count: int, side: int, level: float) -> None:
    """Takes the steps that are on a level to their next one."""
    steps = walk.steps
    for i in range(count):
        if walk.levels[i, side] == level:
            if side == ABOVE:
                steps[i, UP] += 1
                there = steps[i, UP] <= steps[i, MOST]
                walk.levels[i, side] = level_of(kind, steps[i, AT], steps[i, UP]) if there else np.inf
            else:
                steps[i, DOWN] -= 1
                there = steps[i, DOWN] >= steps[i, LEAST]
                walk.levels[i, side] = level_of(kind, steps[i, AT], steps[i, DOWN]) if there else -1.0


@inlined
def passing(first: int, one: tuple[int, int], other: tuple[int, int], index: int) -> int:
    """The index-th rank from ``first`` on that lies in neither of two ranges (first, size)."""
    if one[0] > other[0]:
        one, other = other, one
    rank = first + index
    if rank >= one[0]:
        rank += one[1]
    return rank + other[1] if rank >= other[0] else rank


@inlined
def pick(
    tree: TreeArrays, steps: Int64Matrix, i: int, links: int, case: tuple[int, int, int, float], index: int
) -> tuple[int, int]:
    """(the number of admissible candidates so many links from the value over step i, the rank of the index-th)."""
    sign, r, meet, own = case
    s = steps[i, SELF]
    depth = steps[i, AT]
    level = links - steps[i, PATH]
    first, size = subtree_span(tree, s, level)
    nearer = subtree_span(tree, steps[i - 1, SELF] if i > 0 else int64(-1), level - 1)
    beside = (int64(0), int64(0))
    total, found = int64(0), int64(-1)
    if sign != 0 and i == meet and r != s:
        t, child = r, int64(-1)
        down = tree.concepts[r, DEPTH] - depth
        links_to_r = level + down
        while t != s:
            start, there = subtree_span(tree, t, level - down)
            inner = subtree_span(tree, child, level - down - 1)
            there -= inner[1]
            if there > 0 and is_beyond(sign, level_of(tree.kind, depth + down, links_to_r - 2 * down), own):
                if total <= index < total + there:
                    found = passing(start, inner, (int64(0), int64(0)), index - total)
                total += there
            child, t, down = t, int64(tree.concepts[t, PARENT]), down - 1
        beside = subtree_span(tree, child, level - 1)
    there = size - nearer[1] - beside[1]
    if there > 0 and not (sign < 0 and i == meet and level >= steps[i, PATH]):
        if total <= index < total + there:
            found = passing(first, nearer, beside, index - total)
        total += there
    return total, found


@inlined
def draw_in_tree_levels(
    tree: TreeArrays,
    walk: AncestorWalk,
    count: int,
    side: int,
    level: float,
    case: tuple[int, int, int, float],
    tie: np.uint64,
) -> int:
    """The rank of one of the admissible candidates on a level, uniformly; -1 if there is none."""
    total = int64(0)
    for i in range(count):
        if walk.levels[i, side] == level:
            total += pick(tree, walk.steps, i, walk.steps[i, UP + side], case, int64(-1))[0]
    found = int64(-1)
    if total > 0:
        index = index_below(tie, total)
        for i in range(count):
            if walk.levels[i, side] == level:
                there, found = pick(tree, walk.steps, i, walk.steps[i, UP + side], case, index)
                if index < there:
                    break
                index -= there
    return found


@inlined
def is_any_above(
    tree: TreeArrays, walk: AncestorWalk, count: int, level: float, case: tuple[int, int, int, float]
) -> bool:
    """Whether any level from ``level`` up has an admissible candidate; moves steps."""
    while level < np.inf and draw_in_tree_levels(tree, walk, count, ABOVE, level, case, np.uint64(0)) < 0:
        advance(tree.kind, walk, count, ABOVE, level)
        level = next_level(walk, count, ABOVE)
    return level < np.inf


@part
def choose_tree_level(
    tree: TreeArrays,
    walk: AncestorWalk,
    count: int,
    case: tuple[int, int, int, float],
    rule: tuple[float, bool, bool],
    words: tuple[np.uint64, np.uint64],
) -> tuple[int, float, int]:
    """(rank of a* or -1 for the value itself, its distance, flags), or flags ``NONE_ADMISSIBLE``.

    The two levels next to the target are supposed to have admissible candidates until the one that is chosen proves not
    to. This is the rule of ``candidates``: levels farther apart only make the choice that was taken more likely.
    """
    target, calibrated, stays = rule
    level_bound(tree, walk.steps, count, case)
    ratio = slope(tree.kind, target)
    for i in range(count):
        rank_place(tree.kind, walk, i, target, ratio)
    above, below = next_level(walk, count, ABOVE), next_level(walk, count, BELOW)
    chance = uniform(words[0])
    while above < np.inf or below >= 0.0:
        lo = max(below, 0.0)
        forced = not calibrated or (below < 0.0 and not stays)
        if above < np.inf and (forced or takes_upper(chance, lo, above, target)):
            found = draw_in_tree_levels(tree, walk, count, ABOVE, above, case, words[1])
            if found >= 0:
                return found, above, 0
            advance(tree.kind, walk, count, ABOVE, above)
            above = next_level(walk, count, ABOVE)
        elif below < 0.0:
            return int64(-1), 0.0, 0 if is_any_above(tree, walk, count, above, case) else NONE_ADMISSIBLE
        else:
            found = draw_in_tree_levels(tree, walk, count, BELOW, below, case, words[1])
            if found >= 0:
                return found, lo, 0 if is_any_above(tree, walk, count, above, case) else TRUNCATED
            advance(tree.kind, walk, count, BELOW, below)
            below = next_level(walk, count, BELOW)
    return int64(-1), 0.0, NONE_ADMISSIBLE


@inlined
def replace_in_tree(
    tree: TreeArrays,
    walk: AncestorWalk,
    a: int,
    r: int,
    noise: float,
    calibrated: bool,
    words: tuple[np.uint64, np.uint64],
) -> tuple[int, float, int]:
    """(rank of a* or -1 for a itself, sd(a, a*), flags) of one value; r = a for no sign condition."""
    sign = int64(0) if r == a else (int64(1) if noise > 0.0 else int64(-1))
    count = climb(tree, walk.steps, a)
    meet, own = 0, 0.0
    if sign != 0:
        meet = meeting(tree, walk.steps, r)
        links = tree.concepts[a, DEPTH] + tree.concepts[r, DEPTH] - 2 * walk.steps[meet, AT]
        own = level_of(tree.kind, walk.steps[meet, AT], links)
    rule = (abs(noise), calibrated, tree.rank[a + 1] > tree.rank[a])
    found, distance, flags = choose_tree_level(tree, walk, count, (sign, r, meet, own), rule, words)
    if flags == NONE_ADMISSIBLE and sign != 0:
        found, distance, flags = choose_tree_level(tree, walk, count, (int64(0), r, meet, own), rule, words)
        flags = flags if flags == NONE_ADMISSIBLE else flags | SIGN_DROPPED
    return found, distance, TRUNCATED if flags == NONE_ADMISSIBLE else flags


@kernel
def replace_all_in_tree(
    tree: TreeArrays,
    height: int,
    calibrated: bool,
    codes: Int32Array,
    references: Int32Array,
    noise: Float64Array,
    rounding: UInt64Array,
    ties: UInt64Array,
) -> tuple[Int32Array, Float64Array, UInt8Array]:
    """Replaces k values: their new positions, distances and flags."""
    chosen = codes.copy()
    distances = np.zeros(codes.size, np.float64)
    flags = np.zeros(codes.size, np.uint8)
    walk = AncestorWalk(np.empty((height, 7), np.int64), np.empty((height, 2), np.float64))
    for n in range(codes.size):
        a = int64(codes[n])
        if a >= 0 and noise[n] != 0.0:
            r = int64(references[n]) if references[n] >= 0 else a
            words = (rounding[n], ties[n])
            found, distances[n], flags[n] = replace_in_tree(tree, walk, a, r, noise[n], calibrated, words)
            if found >= 0:
                chosen[n] = tree.positions[found]
    return chosen, distances, flags
