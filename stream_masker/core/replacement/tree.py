"""The replacement engine for trees, for distances that depend on depths alone. It never visits all concepts.

In a tree, sd(c, a) depends on two depths: that of the least common subsumer of c and a, and that of c. So the concepts
at one distance of a are a union of *regions*. A region consists of the descendants, at one depth, of an ancestor s of
a, except those below the child of s on the path to a. The numbering of the tree makes it a few ranges of positions.

From each ancestor, distances ascend with the links. So the levels next to |ε| are found with a *step* for each
ancestor, placed where its distances reach |ε|; from there the steps move up and down until a level has admissible
candidates.

For a reference r, let M be the least common subsumer of a and r. All concepts of a region are equally far from r,
except in the regions of s = M if r is below M: these are divided along the path from M to r in the same way. The other
regions of a step are admissible from some number of links on (farther) or up to some number (nearer), which bounds the
step.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from stream_masker.core.distance import Distance
from stream_masker.core.dtypes import Float64Array, Float64Matrix, Int32Array, RecordArray, UInt8Array, UInt64Array
from stream_masker.core.kernels.jit import inlined, int64, kernel, part
from stream_masker.core.random.draws import index_below, uniform
from stream_masker.core.replacement.choice import NONE_ADMISSIBLE, Choice, LevelRule, RandomWords
from stream_masker.core.replacement.levels import first_links, is_beyond, level_of, slope, takes_upper
from stream_masker.core.replacement.ranks import SPAN, RankRange, skip_ranges
from stream_masker.core.replacement.rule import SIGN_DROPPED, TRUNCATED, Candidates, Replacement, ReplacementTask

TREE_CONCEPT = np.dtype([("parent", np.int32), ("depth", np.int32), ("first_span", np.int32), ("padding", np.int32)])
"""A concept: its parent, -1 for the root; its depth, 1 for the root; the index of its first span."""

TREE_STEP = np.dtype(
    [
        ("concept", np.int64),
        ("depth", np.int64),
        ("least", np.int64),
        ("most", np.int64),
        ("above", np.int64),
        ("below", np.int64),
    ]
)
"""The step of an ancestor: its position and depth; the fewest and the most links between the value and a candidate over
it; the links of its next region that is not nearer than the target, and of the next one that is."""

ABOVE, BELOW = range(2)
"""Sides of a step: columns of ``AncestorWalk.levels``."""


class TreeArrays(NamedTuple):
    """A tree of m concepts as kernels read it.

    kind: of the distance (``core.distance.kernels``).
    concepts: (m + 1,) ``TREE_CONCEPT``; the last one only ends the spans.
    spans: array of ``SPAN``; span ``concepts[s].first_span + k`` is that of the candidates k levels below s.
    positions: the position of each candidate, by rank. rank: (m + 1,) the number of candidates before each position.
    """

    kind: int
    concepts: RecordArray
    spans: RecordArray
    positions: Int32Array
    rank: Int32Array


class AncestorWalk(NamedTuple):
    """Scratch memory for one value.

    steps: (height,) ``TREE_STEP``; step i is the ancestor i links above the value.
    levels: (height, 2) the distance of each step's next region on each side; inf above and -1 below if there is none.
    """

    steps: RecordArray
    levels: Float64Matrix


class SignCondition(NamedTuple):
    """The sign condition of one value: sign is 1 for farther, -1 for nearer, 0 for none.

    meeting: the step of the least common subsumer of the value and the reference. own_distance: between them. weak:
    whether candidates at the own distance meet the condition, too.
    """

    sign: int
    reference: int
    meeting: int
    own_distance: float
    weak: bool


class TreeReplacer:
    """The ``Replacer`` for trees of any height, for distances that depend on depths alone (``tree_distance``)."""

    def __init__(self, distance: Distance, *, candidates: str, calibrated: bool) -> None:
        """``candidates``: all or leaves; ``calibrated``: the rounding."""
        tau = distance.taxonomy
        self._calibrated = calibrated
        self._height = int(tau.depth.max())
        self._tree = tree_arrays(distance, Candidates.of(tau, candidates))

    def replace(self, task: ReplacementTask) -> Replacement:
        """Replace every value of the task."""
        rows = (task.codes, task.references, task.noise, task.rounding, task.ties)
        return Replacement(*replace_all_in_tree(self._tree, self._height, self._calibrated, *rows))


def tree_arrays(distance: Distance, eligible: Candidates) -> TreeArrays:
    """Return the tree of the taxonomy of a distance, with the candidates."""
    tau = distance.taxonomy
    concepts = np.zeros(len(tau) + 1, TREE_CONCEPT)
    concepts["parent"][:-1], concepts["depth"][:-1] = tau.tree.parent, tau.depth
    concepts["first_span"] = tau.tree.level_offsets
    low, high = eligible.rank[tau.tree.level_lo], eligible.rank[tau.tree.level_hi]
    spans = np.empty(low.size, SPAN)
    spans["first"], spans["size"] = low, high - low
    return TreeArrays(distance.kind, concepts, spans, eligible.positions, eligible.rank)


@inlined
def subtree_span(tree: TreeArrays, s: int, level: int) -> RankRange:
    """Return the candidates ``level`` levels below s; empty if s is -1 or there is no such level."""
    k = tree.concepts[s].first_span + level
    if s < 0 or level < 0 or k >= tree.concepts[s + 1].first_span:
        return RankRange(int64(0), int64(0))
    return RankRange(int64(tree.spans[k].first), int64(tree.spans[k].size))


@inlined
def climb(tree: TreeArrays, steps: RecordArray, a: int) -> int:
    """Write a step for each ancestor, from a up to the root. Return their number."""
    count = 0
    s = a
    while s >= 0:
        steps[count].concept = s
        steps[count].depth = tree.concepts[s].depth
        s = int64(tree.concepts[s].parent)
        count += 1
    return count


@inlined
def meeting_step(tree: TreeArrays, steps: RecordArray, r: int) -> int:
    """Return the step of the least common subsumer of the value and r."""
    i = 0
    while steps[i].concept != r:
        if steps[i].concept > r:
            i += 1
        else:
            r = int64(tree.concepts[r].parent)
    return i


@inlined
def sign_condition(tree: TreeArrays, walk: AncestorWalk, a: int, r: int, noise: float, weak: bool) -> SignCondition:
    """Return the sign condition of a value, whose ancestors ``walk`` holds; r = a for none."""
    if r == a:
        return SignCondition(int64(0), r, int64(0), 0.0, weak)
    meeting = int64(meeting_step(tree, walk.steps, r))
    depth = walk.steps[meeting].depth
    own_distance = level_of(tree.kind, depth, tree.concepts[a].depth + tree.concepts[r].depth - 2 * depth)
    return SignCondition(int64(1) if noise > 0.0 else int64(-1), r, meeting, own_distance, weak)


@inlined
def without_sign(condition: SignCondition) -> SignCondition:
    """Return a condition that every candidate meets."""
    return SignCondition(int64(0), condition.reference, condition.meeting, condition.own_distance, condition.weak)


@inlined
def meets_condition(condition: SignCondition, distance: float) -> bool:
    """Return whether a candidate at a distance from the reference meets a sign condition whose sign is not 0."""
    own_distance = condition.own_distance
    return is_beyond(condition.sign, distance, own_distance) or (condition.weak and distance == own_distance)


@part
def bound_steps(tree: TreeArrays, steps: RecordArray, count: int, condition: SignCondition) -> None:
    """Write ``least`` and ``most`` of each step.

    There is at least 1 link, and at most as many as lead to the lowest descendants. A sign condition excludes more: at
    or below the meeting of a and r, a candidate over step i is farther from r than a is if it has more links down from
    step i than a has, nearer if fewer. Above the meeting it shares with r what it shares with a.
    """
    sign, r, meeting, own_distance, weak = condition
    equal = int64(weak)
    ratio = slope(tree.kind, own_distance)
    for i in range(count):
        s = steps[i].concept
        least = max(i, 1)
        most = i + tree.concepts[s + 1].first_span - tree.concepts[s].first_span - 1
        if sign != 0 and i <= meeting:
            if sign > 0:
                least = max(least, 2 * i + 1 - equal)
            elif i < meeting or s == r:
                most = min(most, 2 * i - 1 + equal)
        elif sign != 0:
            depth = steps[i].depth
            links = first_links(tree.kind, depth, own_distance, ratio, (sign > 0) != weak)
            links -= tree.concepts[r].depth - depth
            least = max(least, i + links) if sign > 0 else least
            most = min(most, i + links - 1) if sign < 0 else most
        steps[i].least = least
        steps[i].most = most


@inlined
def place_step(kind: int, walk: AncestorWalk, i: int, target: float, ratio: float) -> None:
    """Places step i where its distances reach the target. ratio: ``slope`` of the target."""
    step = walk.steps[i]
    depth, least, most = step.depth, step.least, step.most
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
    step.above = links
    step.below = links - 1
    walk.levels[i, ABOVE] = above if links <= most else np.inf
    walk.levels[i, BELOW] = below if least < links <= most + 1 else -1.0


@inlined
def next_level(walk: AncestorWalk, count: int, side: int) -> float:
    """Return the least level above the target, or the greatest below it."""
    found = walk.levels[0, side]
    for i in range(1, count):
        level = walk.levels[i, side]
        if (level < found) == (side == ABOVE):
            found = level
    return found


@inlined
def advance(kind: int, walk: AncestorWalk, count: int, side: int, level: float) -> None:
    """Move the steps that are on a level to their next region on that side."""
    for i in range(count):
        if walk.levels[i, side] == level:
            step = walk.steps[i]
            if side == ABOVE:
                step.above += 1
                walk.levels[i, side] = level_of(kind, step.depth, step.above) if step.above <= step.most else np.inf
            else:
                step.below -= 1
                walk.levels[i, side] = level_of(kind, step.depth, step.below) if step.below >= step.least else -1.0


@inlined
def region_candidate(
    tree: TreeArrays, steps: RecordArray, i: int, links: int, condition: SignCondition, index: int
) -> tuple[int, int]:
    """Return (number of admissible candidates at ``links`` links from the value over step i, rank of the one with an
    index).

    The rank is -1 if the index is not below the number.
    """
    sign, r, meeting = condition.sign, condition.reference, condition.meeting
    s = steps[i].concept
    depth = steps[i].depth
    level = links - i
    first, size = subtree_span(tree, s, level)
    below_child = subtree_span(tree, steps[i - 1].concept if i > 0 else int64(-1), level - 1)
    towards_r = RankRange(int64(0), int64(0))
    total, found = int64(0), int64(-1)
    if sign != 0 and i == meeting and r != s:
        t, child = r, int64(-1)
        down = tree.concepts[r].depth - depth
        links_to_r = level + down
        while t != s:
            start, there = subtree_span(tree, t, level - down)
            inner = subtree_span(tree, child, level - down - 1)
            there -= inner.size
            distance = level_of(tree.kind, depth + down, links_to_r - 2 * down)
            if there > 0 and meets_condition(condition, distance):
                if total <= index < total + there:
                    found = skip_ranges(start, inner, RankRange(int64(0), int64(0)), index - total)
                total += there
            child, t, down = t, int64(tree.concepts[t].parent), down - 1
        towards_r = subtree_span(tree, child, level - 1)
    there = size - below_child.size - towards_r.size
    if there > 0 and not (sign < 0 and i == meeting and level >= i + int64(condition.weak)):
        if total <= index < total + there:
            found = skip_ranges(first, below_child, towards_r, index - total)
        total += there
    return total, found


@inlined
def links_of_side(steps: RecordArray, i: int, side: int) -> int:
    """Return the links of the next region of step i on a side."""
    return int64(steps[i].above) if side == ABOVE else int64(steps[i].below)


@inlined
def draw_from_tree_level(
    tree: TreeArrays,
    walk: AncestorWalk,
    count: int,
    side: int,
    level: float,
    condition: SignCondition,
    tie: np.uint64,
) -> int:
    """Return the rank of an admissible candidate of a level, drawn uniformly; -1 if there is none."""
    total = int64(0)
    for i in range(count):
        if walk.levels[i, side] == level:
            links = links_of_side(walk.steps, i, side)
            total += region_candidate(tree, walk.steps, i, links, condition, int64(-1))[0]
    found = int64(-1)
    if total > 0:
        index = index_below(tie, total)
        for i in range(count):
            if walk.levels[i, side] == level:
                links = links_of_side(walk.steps, i, side)
                there, found = region_candidate(tree, walk.steps, i, links, condition, index)
                if index < there:
                    break
                index -= there
    return found


@inlined
def is_any_above(tree: TreeArrays, walk: AncestorWalk, count: int, level: float, condition: SignCondition) -> bool:
    """Return whether a level from ``level`` up has an admissible candidate. Moves the steps."""
    while level < np.inf and draw_from_tree_level(tree, walk, count, ABOVE, level, condition, np.uint64(0)) < 0:
        advance(tree.kind, walk, count, ABOVE, level)
        level = next_level(walk, count, ABOVE)
    return level < np.inf


@part
def choose_tree_level(
    tree: TreeArrays, walk: AncestorWalk, count: int, condition: SignCondition, rule: LevelRule, words: RandomWords
) -> Choice:
    """Return the replacement of the value with these steps; flags are ``NONE_ADMISSIBLE`` if no candidate is
    admissible.

    It applies the rule of ``core.replacement.rule``. The two levels next to the target are assumed to have admissible
    candidates until the chosen one proves empty; then the next level in that direction is considered. This gives the
    same choice as the rule: levels that are farther apart only make the choice that was taken more likely.
    """
    target = rule.target
    bound_steps(tree, walk.steps, count, condition)
    ratio = slope(tree.kind, target)
    for i in range(count):
        place_step(tree.kind, walk, i, target, ratio)
    above, below = next_level(walk, count, ABOVE), next_level(walk, count, BELOW)
    chance = uniform(words.rounding)
    while above < np.inf or below >= 0.0:
        lo = max(below, 0.0)
        forced = not rule.calibrated or (below < 0.0 and not rule.keeps_value)
        if above < np.inf and (forced or takes_upper(chance, lo, above, target)):
            found = draw_from_tree_level(tree, walk, count, ABOVE, above, condition, words.tie)
            if found >= 0:
                return Choice(found, above, 0)
            advance(tree.kind, walk, count, ABOVE, above)
            above = next_level(walk, count, ABOVE)
        elif below < 0.0:
            is_truncated = not is_any_above(tree, walk, count, above, condition)
            return Choice(int64(-1), 0.0, NONE_ADMISSIBLE if is_truncated else 0)
        else:
            found = draw_from_tree_level(tree, walk, count, BELOW, below, condition, words.tie)
            if found >= 0:
                return Choice(found, lo, 0 if is_any_above(tree, walk, count, above, condition) else TRUNCATED)
            advance(tree.kind, walk, count, BELOW, below)
            below = next_level(walk, count, BELOW)
    return Choice(int64(-1), 0.0, NONE_ADMISSIBLE)


@inlined
def replace_in_tree(
    tree: TreeArrays, walk: AncestorWalk, a: int, r: int, noise: float, rule: LevelRule, weak: bool, words: RandomWords
) -> Choice:
    """Return the replacement of one value. r = a for no sign condition; weak: of ``SignCondition``. If nothing meets
    the condition, it is dropped."""
    count = climb(tree, walk.steps, a)
    condition = sign_condition(tree, walk, a, r, noise, weak)
    choice = choose_tree_level(tree, walk, count, condition, rule, words)
    dropped = 0
    if choice.flags == NONE_ADMISSIBLE and condition.sign != 0:
        condition = without_sign(condition)
        choice, dropped = choose_tree_level(tree, walk, count, condition, rule, words), SIGN_DROPPED
    flags = TRUNCATED if choice.flags == NONE_ADMISSIBLE else choice.flags | dropped
    return Choice(choice.candidate, choice.distance, flags)


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
    """Return (codes, distances, flags) of a ``Replacement`` of k values, given the arrays of the
    ``ReplacementTask``."""
    chosen = codes.copy()
    distances = np.zeros(codes.size, np.float64)
    flags = np.zeros(codes.size, np.uint8)
    walk = AncestorWalk(np.empty(height, TREE_STEP), np.empty((height, 2), np.float64))
    for n in range(codes.size):
        a = int64(codes[n])
        if a >= 0 and noise[n] != 0.0:
            r = int64(references[n]) if references[n] >= 0 else a
            words = RandomWords(rounding[n], ties[n])
            rule = LevelRule(abs(noise[n]), calibrated, tree.rank[a + 1] > tree.rank[a])
            choice = replace_in_tree(tree, walk, a, r, noise[n], rule, False, words)
            distances[n], flags[n] = choice.distance, choice.flags
            if choice.candidate >= 0:
                chosen[n] = tree.positions[choice.candidate]
    return chosen, distances, flags
