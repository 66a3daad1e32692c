"""Replacements in a directed acyclic graph by Wu-Palmer, without looking at its concepts one by one.

The levels of a value are known from its ancestors (``dag_memo``), and a level is drawn from by trying its members
(``dag_search``), so that nothing on the way depends on the size of the graph. Only where tries fail are a level's
members looked at, less those that whole blocks are ruled out of (``dag_bounds``), once while they are remembered.
"""

from __future__ import annotations

from threading import Lock

import numpy as np

from stream_masker.core.compiling import inlined, kernel, part
from stream_masker.core.distance import Distance
from stream_masker.core.mechanisms.candidates import (
    TRUNCATED,
    UNSIGNED,
    Candidates,
    Replacement,
    Task,
    uniform,
)
from stream_masker.core.mechanisms.dag_bounds import clean, mark, new_work, shared
from stream_masker.core.mechanisms.dag_memo import (
    EMPTY,
    KEY,
    OWN,
    START,
    THERE,
    UNKNOWN,
    add_case,
    add_value,
    case_key,
    first_level_at,
    forget,
    has_room,
    new_memo,
    slot_of,
)
from stream_masker.core.mechanisms.dag_search import ball_size, draw
from stream_masker.core.mechanisms.dag_tables import graph_of, lists_of
from stream_masker.core.mechanisms.levels import NONE_ADMISSIBLE, is_beyond, wu_palmer_level
from stream_masker.errors import ParameterError

REMEMBERED = 1 << 20
"""Levels of values that are remembered: of some ten thousand values, with a quarter of a million cases, in at most
130 MB."""


class DagReplacer:
    """The ``Replacer`` of directed acyclic graphs, for Wu-Palmer."""

    def __init__(self, distance: Distance, *, candidates: str, calibrated: bool, remembered: int = REMEMBERED) -> None:
        """``candidates``: all or leaves; ``calibrated``: the rounding; ``remembered``: levels of values."""
        if remembered < 0:
            raise ParameterError(f"remembered={remembered} is not allowed: use 0 or more")
        tau = distance.taxonomy
        self._calibrated = calibrated
        self._graph = graph_of(tau)
        self._lists = lists_of(self._graph, Candidates.of(tau, candidates))
        most = int(most_groups(self._graph, self._lists))
        self._memo = new_memo(len(tau), most, min(remembered, len(tau) * most))
        self._work = new_work(len(tau), int(np.diff(self._graph.offsets).max()), int(tau.depth.max()))
        self._lock = Lock()

    def replace(self, task: Task) -> Replacement:
        rows = (task.codes, task.references, task.noise, task.rounding, task.ties)
        order = np.argsort(task.codes.astype(np.int64) * len(self._graph.depth) + task.references)
        with self._lock:
            return Replacement(
                *replace_all(self._graph, self._lists, self._memo, self._work, self._calibrated, order, *rows)
            )


@kernel
def most_groups(graph, lists):  # type: ignore[no-untyped-def]
    """The most lists that the ancestors of any one concept have."""
    most = np.int64(0)
    for a in range(graph.depth.size):
        total = np.int64(0)
        for j in range(graph.offsets[a], graph.offsets[a + 1]):
            s = graph.ancestors[j]
            total += lists.first[s + 1] - lists.first[s]
        most = max(most, total)
    return most


@inlined
def distance_of(graph, a, b):  # type: ignore[no-untyped-def]
    """sd(a, b), by what is common to both rows of the closure."""
    p, q = graph.offsets[a], graph.offsets[b]
    depth, links = np.int64(0), np.int64(0)
    while p < graph.offsets[a + 1] and q < graph.offsets[b + 1]:
        one, other = graph.ancestors[p], graph.ancestors[q]
        if one == other:
            if graph.depth[one] < depth:
                break
            total = np.int64(graph.paths[p]) + np.int64(graph.paths[q])
            links = total if depth == 0 else min(links, total)
            depth = np.int64(graph.depth[one])
        p += one >= other
        q += other >= one
    return wu_palmer_level(depth, links)


@inlined
def case_of(graph, lists, memo, work, a, r, sign, levels):  # type: ignore[no-untyped-def]
    """The slot of the memo that has the case, which is put there if it is new."""
    key = case_key(graph.depth.size, a, r, sign)
    slot = slot_of(memo, key)
    if memo.cases[slot, KEY] == 0:
        own = distance_of(graph, a, r) if sign != 0 else 0.0
        ball = ball_size(graph, lists, work, r, own) if sign < 0 else np.int64(0)
        add_case(memo, slot, key, levels, own, ball)
    return slot


@inlined
def is_any(graph, lists, memo, work, case, slot, first, j, levels, target):  # type: ignore[no-untyped-def]
    """Whether the levels from j on, those of ``target`` and beyond, have any admissible concept."""
    r, sign, own = case[1], case[2], case[3]
    if sign < 0 and own >= target and lists.eligible[r]:
        return True
    start = memo.cases[slot, START]
    for h in range(start + j, start + levels):
        if memo.statuses[h] != UNKNOWN and memo.statuses[h] != EMPTY:
            return True
    if sign >= 0 and is_remote_admissible(graph, lists, memo, work, case, slot, first, levels, target):
        return True
    while j < levels:
        if draw(graph, lists, memo, work, case, slot, first, j, np.uint64(0)) >= 0:
            return True
        j += 1
    return False


@part
def is_remote_admissible(graph, lists, memo, work, case, slot, first, levels, target):  # type: ignore[no-untyped-def]
    """Whether one of ``Lists.remote``, not nearer than the target, is admissible; if so, its level is known to be."""
    a, sign, own = case[0], case[2], case[3]
    if work.ready[0] == 0:
        mark(graph, work, case)
    for z in lists.remote:
        depth, links = shared(graph, work, z, 0, graph.depth.size)[1:]
        distance = wu_palmer_level(depth, links)
        admissible = z != a and distance >= target
        if admissible and sign > 0:
            depth, links = shared(graph, work, z, 1, graph.depth.size)[1:]
            admissible = is_beyond(sign, wu_palmer_level(depth, links), own)
        if admissible:
            level = first_level_at(memo, first, first + levels, distance) - first
            memo.statuses[memo.cases[slot, START] + level] = THERE
            return True
    return False


@part
def settled(graph, lists, memo, work, case, slot, rule, words):  # type: ignore[no-untyped-def]
    """(a* or -1 for the value itself, its distance, flags), or flags ``NONE_ADMISSIBLE``.

    The two levels next to the target are supposed to have admissible concepts until the one that is chosen proves not
    to. This is the rule of ``candidates``: levels farther apart only make the choice that was taken more likely.
    """
    target, calibrated, stays = rule
    value = memo.value_at[case[0]]
    first = memo.first_level[value]
    levels = memo.first_level[value + 1] - first
    up = first_level_at(memo, first, first + levels, target) - first
    down = up - 1
    chance = uniform(words[0])
    while up < levels or down >= 0:
        above = memo.levels[first + up] if up < levels else np.inf
        lo = memo.levels[first + down] if down >= 0 else 0.0
        forced = not calibrated or (down < 0 and not stays)
        if up < levels and (forced or chance * (above * above - lo * lo) < target * target - lo * lo):
            found = draw(graph, lists, memo, work, case, slot, first, up, words[1])
            if found >= 0:
                return found, above, 0
            up += 1
        elif down < 0:
            if is_any(graph, lists, memo, work, case, slot, first, up, levels, target):
                return np.int64(-1), 0.0, 0
            break
        else:
            found = draw(graph, lists, memo, work, case, slot, first, down, words[1])
            if found >= 0:
                any_above = is_any(graph, lists, memo, work, case, slot, first, up, levels, target)
                return found, lo, 0 if any_above else TRUNCATED
            down -= 1
    return np.int64(-1), 0.0, NONE_ADMISSIBLE


@inlined
def settle_case(graph, lists, memo, work, a, r, sign, rule, words):  # type: ignore[no-untyped-def]
    """``settled`` for a case that may be new."""
    value = memo.value_at[a]
    slot = case_of(graph, lists, memo, work, a, r, sign, memo.first_level[value + 1] - memo.first_level[value])
    case = (a, r, sign, memo.owns[slot, OWN])
    result = settled(graph, lists, memo, work, case, slot, rule, words)
    clean(graph, work, case)
    return result


@kernel
def replace_all(  # type: ignore[no-untyped-def]
    graph, lists, memo, work, calibrated, order, codes, references, noise, rounding, ties
):
    """Replaces k values: their new positions, distances and flags. ``order``: the order in which they are looked at."""
    chosen = codes.copy()
    distances = np.zeros(codes.size, np.float64)
    flags = np.zeros(codes.size, np.uint8)
    for n in order:
        a = np.int64(codes[n])
        if a >= 0 and noise[n] != 0.0:
            if not has_room(memo):
                forget(memo)
            if memo.value_at[a] == 0:
                add_value(graph, lists, memo, a)
            r = np.int64(references[n])
            sign = np.int64(0) if r < 0 or r == a else (np.int64(1) if noise[n] > 0.0 else np.int64(-1))
            rule = (abs(noise[n]), calibrated, lists.eligible[a])
            words = (rounding[n], ties[n])
            found, distances[n], flag = settle_case(
                graph, lists, memo, work, a, r if sign != 0 else np.int64(-1), sign, rule, words
            )
            if flag < 0 and sign != 0:
                found, distances[n], flag = settle_case(
                    graph, lists, memo, work, a, np.int64(-1), np.int64(0), rule, words
                )
                flag = flag if flag < 0 else flag | UNSIGNED
            flags[n] = TRUNCATED if flag < 0 else flag
            if found >= 0:
                chosen[n] = found
    return chosen, distances, flags
