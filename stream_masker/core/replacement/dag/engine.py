"""Replacements in a directed acyclic graph by Wu-Palmer, without looking at its concepts one by one.

The levels of a value are known from its ancestors (``dag_memo``), and a level is drawn from by trying its members
(``dag_search``), so that nothing on the way depends on the size of the graph. Only where tries fail are a level's
members looked at, or what is near to the reference (``dag_listing``), less what bounds rule out (``dag_bounds``), once
while it is remembered. Most of the time goes into waiting for memory, so that what a concept's ancestors are stands in
one cache line (``dag_tables``), and the lines of many values are asked for together (``dag_ahead``).
"""

from __future__ import annotations

from threading import Lock

import numpy as np

from stream_masker.core.distance import Distance
from stream_masker.core.dtypes import Float64Array, Int32Array, Int64Array, UInt8Array, UInt64Array
from stream_masker.core.kernels.jit import inlined, int64, kernel, part
from stream_masker.core.random.draws import uniform
from stream_masker.core.replacement.dag.cache import (
    BATCHES,
    EMPTY,
    KEY,
    START,
    THERE,
    UNKNOWN,
    CandidateCache,
    add_query,
    add_value,
    cache_has_room,
    first_level_at,
    mark_requested_again,
    new_candidate_cache,
    own_distance_of,
    query_key,
    query_slot,
)
from stream_masker.core.replacement.dag.enumeration import near_set_size, reach
from stream_masker.core.replacement.dag.eviction import evict
from stream_masker.core.replacement.dag.index import GraphArrays, MemberLists, graph_of, lists_of
from stream_masker.core.replacement.dag.prefetch import (
    PREFETCH_DISTANCE,
    predicted_sign,
    prefetch_draws,
    prefetch_queries,
)
from stream_masker.core.replacement.dag.pruning import distance_bound
from stream_masker.core.replacement.dag.sampling import draw_from_level
from stream_masker.core.replacement.dag.scratch import (
    VALUE,
    AncestorScratch,
    clean,
    common_subsumer,
    hold,
    mark,
    meets_sign,
    new_ancestor_scratch,
    release,
)
from stream_masker.core.replacement.levels import NONE_ADMISSIBLE, takes_upper, wu_palmer_level
from stream_masker.core.replacement.rule import SIGN_DROPPED, TRUNCATED, Candidates, Replacement, ReplacementTask
from stream_masker.errors import ParameterError

CACHED_QUERIES = 1 << 20
"""Levels of values that are remembered: of some ten thousand values, with a quarter of a million cases, in at most
130 MB."""

WITNESSES = 4
"""Ancestors of a reference of whose lists a few concepts are looked at."""


class DagReplacer:
    """The ``Replacer`` of directed acyclic graphs, for Wu-Palmer."""

    def __init__(
        self, distance: Distance, *, candidates: str, calibrated: bool, remembered: int = CACHED_QUERIES
    ) -> None:
        """``candidates``: all or leaves; ``calibrated``: the rounding; ``remembered``: levels of values."""
        if remembered < 0:
            raise ParameterError(f"remembered={remembered} is not allowed: use 0 or more")
        tau = distance.taxonomy
        self._calibrated = calibrated
        self._graph = graph_of(tau)
        self._lists = lists_of(self._graph, Candidates.of(tau, candidates))
        most = int(most_groups(self._graph, self._lists))
        self._memo = new_candidate_cache(len(tau), most, min(remembered, len(tau) * most))
        ancestors = int(np.diff(self._graph.offsets).max())
        self._work = new_ancestor_scratch(len(tau), ancestors, int(tau.depth.max()), ahead=PREFETCH_DISTANCE)
        self._lock = Lock()

    def replace(self, task: ReplacementTask) -> Replacement:
        rows = (task.codes, task.references, task.noise, task.rounding, task.ties)
        order = np.argsort(task.codes.astype(np.int64) * len(self._graph.depth) + task.references)
        with self._lock:
            return Replacement(
                *replace_all_in_dag(self._graph, self._lists, self._memo, self._work, self._calibrated, order, *rows)
            )


@kernel
def most_groups(graph: GraphArrays, lists: MemberLists) -> int:
    """The most lists that the ancestors of any one concept have."""
    most = int64(0)
    for a in range(graph.depth.size):
        total = int64(0)
        for j in range(graph.offsets[a], graph.offsets[a + 1]):
            s = graph.ancestors[j]
            total += lists.first[s + 1] - lists.first[s]
        most = max(most, total)
    return most


@inlined
def query_of(
    graph: GraphArrays,
    lists: MemberLists,
    memo: CandidateCache,
    work: AncestorScratch,
    a: int,
    r: int,
    sign: int,
    levels: int,
) -> int:
    """The slot of the memo that has the case, which is put there if it is new."""
    key = query_key(graph.depth.size, a, r, sign)
    slot = query_slot(memo, key)
    if memo.cases[slot, KEY] == 0:
        hold(graph, work, a)
        _, depth, links = common_subsumer(graph, work, r if sign != 0 else a, VALUE)
        ball = near_set_size(graph, lists, work, r, (depth, links)) if sign < 0 else int64(0)
        add_query(memo, slot, key, levels, (depth, links), ball)
    else:
        mark_requested_again(memo, slot)
    return slot


@inlined
def is_any_admissible(
    graph: GraphArrays,
    lists: MemberLists,
    memo: CandidateCache,
    work: AncestorScratch,
    case: tuple[int, int, int, tuple[int, int]],
    slot: int,
    first: int,
    j: int,
    levels: int,
    target: float,
) -> bool:
    """Whether the levels from j on, those of ``target`` and beyond, have any admissible concept."""
    r, sign, own = case[1], case[2], case[3]
    if sign < 0 and wu_palmer_level(own[0], own[1]) >= target and lists.eligible[r]:
        return True
    start = memo.cases[slot, START]
    for h in range(start + j, start + levels):
        if memo.statuses[h] != UNKNOWN and memo.statuses[h] != EMPTY:
            return True
    if sign >= 0 and is_remote_admissible(graph, lists, memo, work, case, slot, first, levels, target):
        return True
    if sign < 0 and is_near_admissible(graph, lists, memo, work, case, slot, first, levels, target):
        return True
    while j < levels:
        if draw_from_level(graph, lists, memo, work, case, slot, first, j, np.uint64(0)) >= 0:
            return True
        j += 1
    return False


@part
def is_remote_admissible(
    graph: GraphArrays,
    lists: MemberLists,
    memo: CandidateCache,
    work: AncestorScratch,
    case: tuple[int, int, int, tuple[int, int]],
    slot: int,
    first: int,
    levels: int,
    target: float,
) -> bool:
    """Whether one of ``Lists.remote``, not nearer than the target, is admissible."""
    mark(graph, work, case)
    found, j = False, 0
    while j < lists.remote.size and not found:
        found = is_witness(graph, memo, work, case, slot, first, levels, target, int64(lists.remote[j]))
        j += 1
    return found


@part
def is_near_admissible(
    graph: GraphArrays,
    lists: MemberLists,
    memo: CandidateCache,
    work: AncestorScratch,
    case: tuple[int, int, int, tuple[int, int]],
    slot: int,
    first: int,
    levels: int,
    target: float,
) -> bool:
    """Whether, for sign < 0, a concept not nearer than the target is admissible: of a few ancestors of the reference,
    the first and the last one of the farthest list that may hold such."""
    distance_bound(graph, work, case)
    begin = graph.offsets[case[1]]
    for j in range(begin, min(graph.offsets[case[1] + 1], begin + WITNESSES)):
        x = lists.first[graph.ancestors[j]] + reach(graph, lists, work, j) - 1
        if x >= lists.first[graph.ancestors[j]] and lists.starts[x + 1] > lists.starts[x]:
            for y in (int64(lists.starts[x]), int64(lists.starts[x + 1]) - 1):
                if is_witness(graph, memo, work, case, slot, first, levels, target, int64(lists.members[y])):
                    return True
    return False


@inlined
def is_witness(
    graph: GraphArrays,
    memo: CandidateCache,
    work: AncestorScratch,
    case: tuple[int, int, int, tuple[int, int]],
    slot: int,
    first: int,
    levels: int,
    target: float,
    z: int,
) -> bool:
    """Whether a candidate is admissible and not nearer than the target; if so, its level is known to have some."""
    _, depth, links = common_subsumer(graph, work, z, VALUE)
    distance = wu_palmer_level(depth, links)
    if z == case[0] or distance < target or not meets_sign(graph, work, case, z):
        return False
    at = memo.cases[slot, START] + first_level_at(memo, first, first + levels, distance) - first
    memo.statuses[at] = max(memo.statuses[at], THERE)
    return True


@part
def choose_dag_level(
    graph: GraphArrays,
    lists: MemberLists,
    memo: CandidateCache,
    work: AncestorScratch,
    case: tuple[int, int, int, tuple[int, int]],
    slot: int,
    rule: tuple[float, bool, bool],
    words: tuple[np.uint64, np.uint64],
) -> tuple[int, float, int]:
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
    found, distance, is_up = int64(-1), 0.0, True
    while found < 0:
        above = memo.levels[first + up] if up < levels else np.inf
        lo = memo.levels[first + down] if down >= 0 else 0.0
        forced = not calibrated or (down < 0 and not stays)
        is_up = up < levels and (forced or takes_upper(chance, lo, above, target))
        if not is_up and down < 0:
            break
        found = draw_from_level(graph, lists, memo, work, case, slot, first, up if is_up else down, words[1])
        distance = above if is_up else lo
        up += is_up
        down -= not is_up
    if found < 0:
        distance = 0.0
    if is_up and found >= 0:
        return found, distance, 0
    if up < levels and is_any_admissible(graph, lists, memo, work, case, slot, first, up, levels, target):
        return found, distance, 0
    return found, distance, TRUNCATED if found >= 0 else NONE_ADMISSIBLE


@inlined
def resolve_query(
    graph: GraphArrays,
    lists: MemberLists,
    memo: CandidateCache,
    work: AncestorScratch,
    a: int,
    r: int,
    sign: int,
    rule: tuple[float, bool, bool],
    words: tuple[np.uint64, np.uint64],
) -> tuple[int, float, int]:
    """``choose_dag_level`` for a case that may be new."""
    value = memo.value_at[a]
    slot = query_of(graph, lists, memo, work, a, r, sign, memo.first_level[value + 1] - memo.first_level[value])
    case = (a, r, sign, own_distance_of(memo, slot))
    result = choose_dag_level(graph, lists, memo, work, case, slot, rule, words)
    clean(graph, work, case)
    return result


@inlined
def replace_in_dag(
    graph: GraphArrays,
    lists: MemberLists,
    memo: CandidateCache,
    work: AncestorScratch,
    a: int,
    r: int,
    sign: int,
    rule: tuple[float, bool, bool],
    words: tuple[np.uint64, np.uint64],
) -> tuple[int, float, int]:
    """(a* or -1 for the value itself, its distance, flags): without the sign condition if nothing meets it."""
    unsigned = 0
    while True:
        found, distance, flags = resolve_query(
            graph, lists, memo, work, a, r if sign != 0 else int64(-1), sign, rule, words
        )
        if flags >= 0:
            return found, distance, flags | unsigned
        if sign == 0:
            return found, distance, TRUNCATED
        sign, unsigned = int64(0), SIGN_DROPPED


@kernel
def replace_all_in_dag(
    graph: GraphArrays,
    lists: MemberLists,
    memo: CandidateCache,
    work: AncestorScratch,
    calibrated: bool,
    order: Int64Array,
    codes: Int32Array,
    references: Int32Array,
    noise: Float64Array,
    rounding: UInt64Array,
    ties: UInt64Array,
) -> tuple[Int32Array, Float64Array, UInt8Array]:
    """Replaces k values: their new positions, distances and flags. ``order``: the order in which they are looked at."""
    chosen = codes.copy()
    distances = np.zeros(codes.size, np.float64)
    flags = np.zeros(codes.size, np.uint8)
    task, result = (codes, references, noise, rounding, ties), (chosen, distances, flags)
    memo.used[BATCHES] += 1
    at = int64(0)
    while at < order.size:
        if not cache_has_room(memo):
            evict(memo)
        a = int64(codes[order[at]])
        if a >= 0 and memo.value_at[a] == 0:
            add_value(graph, lists, memo, a)
        at = replace_cached(graph, lists, memo, work, calibrated, order, at, task, result)
    release(graph, work)
    return chosen, distances, flags


@part
def replace_cached(
    graph: GraphArrays,
    lists: MemberLists,
    memo: CandidateCache,
    work: AncestorScratch,
    calibrated: bool,
    order: Int64Array,
    start: int,
    task: tuple[Int32Array, Int32Array, Float64Array, UInt64Array, UInt64Array],
    result: tuple[Int32Array, Float64Array, UInt8Array],
) -> int:
    """Replaces the value at ``start``, which is known, and those behind it, until one is not or there is no room; where
    it stopped. References to arrays are not counted here, as they would be for every value in a kernel."""
    codes, references, noise, rounding, ties = task
    chosen, distances, flags = result
    prefetch_queries(graph, memo, order, start, start + PREFETCH_DISTANCE, codes, references, noise)
    for at in range(start, order.size):
        if at % PREFETCH_DISTANCE == 0:
            stop = min(at + PREFETCH_DISTANCE, order.size)
            prefetch_draws(
                graph, lists, memo, work, calibrated, order, at, stop, codes, references, noise, rounding, ties
            )
            prefetch_queries(graph, memo, order, stop, stop + PREFETCH_DISTANCE, codes, references, noise)
        n = order[at]
        a = int64(codes[n])
        if a >= 0 and noise[n] != 0.0:
            if at > start and (memo.value_at[a] == 0 or not cache_has_room(memo)):
                return at
            r = int64(references[n])
            sign = predicted_sign(a, r, noise[n])
            rule = (abs(noise[n]), calibrated, lists.eligible[a])
            found, distances[n], flags[n] = replace_in_dag(
                graph, lists, memo, work, a, r, sign, rule, (rounding[n], ties[n])
            )
            if found >= 0:
                chosen[n] = found
    return order.size
