"""The replacement engine for directed acyclic graphs: the choice of a level, and the loop over the values of a batch.

The levels of a value follow from its ancestors (``cache``), and a level is drawn from by trying its members
(``sampling``), so that no step depends on the size of the graph. Only where tries fail are the members of a level or
the near set of the reference enumerated (``enumeration``), except those that bounds exclude (``pruning``).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from threading import Lock

import numpy as np

from stream_masker.core.distance import Distance
from stream_masker.core.dtypes import Float64Array, Int32Array, Int64Array, UInt8Array, UInt64Array
from stream_masker.core.kernels.draws import uniform
from stream_masker.core.kernels.jit import for_types, inlined, int64, kernel, part
from stream_masker.core.replacement.dag.cache import (
    EMPTY,
    NONEMPTY,
    UNKNOWN,
    add_query,
    add_value,
    cache_has_room,
    cached_own_distance,
    clear_cache,
    find_entry,
    first_level_at,
    new_candidate_cache,
    query_key,
)
from stream_masker.core.replacement.dag.index import GraphArrays, MemberLists, build_graph, build_member_lists
from stream_masker.core.replacement.dag.near_set import near_lists, near_set_size
from stream_masker.core.replacement.dag.pruning import compute_bounds
from stream_masker.core.replacement.dag.query import Query, ReplacementArrays, TaskArrays
from stream_masker.core.replacement.dag.sampling import draw_from_level
from stream_masker.core.replacement.dag.scratch import (
    VALUE,
    DagArrays,
    clean_query,
    common_subsumer,
    hold_value,
    mark_query,
    meets_query_sign,
    new_ancestor_scratch,
    release_value,
)
from stream_masker.core.replacement.rule import (
    NONE_ADMISSIBLE,
    SIGN_DROPPED,
    TRUNCATED,
    Candidates,
    Choice,
    LevelRule,
    RandomWords,
    Replacement,
    ReplacementTask,
    takes_upper,
    wu_palmer_level,
)
from stream_masker.errors import ParameterError

CACHED_LEVELS = 1 << 20
"""The default number of cached levels: about 10,000 values with 250,000 queries, in at most 130 MB."""

WITNESS_ANCESTORS = 4
"""The number of ancestors of a reference whose lists ``is_near_admissible`` examines."""


class DagReplacer:
    """The ``Replacer`` for directed acyclic graphs with the Wu-Palmer distance. Safe to call from several threads."""

    def __init__(
        self, distance: Distance, *, candidates: str, calibrated: bool, cached_levels: int = CACHED_LEVELS
    ) -> None:
        """``candidates``: all or leaves; ``calibrated``: the rounding; ``cached_levels``: size of the cache.

        Raises ParameterError.
        """
        if cached_levels < 0:
            raise ParameterError(f"cached_levels={cached_levels} is not allowed: use 0 or more")
        tau = distance.taxonomy
        graph = build_graph(tau)
        lists = build_member_lists(graph, Candidates.of(tau, candidates))
        most = int(max_groups(graph, lists))
        ancestors = int(np.diff(graph.offsets).max())
        self._calibrated = calibrated
        self._dag = DagArrays(
            graph,
            lists,
            new_candidate_cache(len(tau), most, min(cached_levels, len(tau) * most)),
            new_ancestor_scratch(len(tau), ancestors, int(tau.depth.max())),
        )
        self._lock = Lock()

    def replace(self, task: ReplacementTask) -> Replacement:
        """Replace every value of the task."""
        order = np.argsort(task.codes.astype(np.int64) * len(self._dag.graph.depth) + task.references)
        with self._lock:
            return Replacement(*self._replace(self._dag, self._calibrated, order, *task))

    @cached_property
    def _replace(self) -> Callable[..., tuple[Int32Array, Float64Array, UInt8Array]]:
        order = np.empty(0, np.int64)
        return for_types(replace_all_in_dag, self._dag, self._calibrated, order, *ReplacementTask.none())


@kernel
def max_groups(graph: GraphArrays, lists: MemberLists) -> int:
    """Return the greatest number of lists that the ancestors of one concept have."""
    most = int64(0)
    for a in range(graph.depth.size):
        total = int64(0)
        for j in range(graph.offsets[a], graph.offsets[a + 1]):
            s = graph.ancestors[j]
            total += lists.first[s + 1] - lists.first[s]
        most = max(most, total)
    return most


@inlined
def sign_of(a: int, r: int, noise: float) -> int:
    """Return the sign condition of a value: 1 farther, -1 nearer, 0 none."""
    if r < 0 or r == a:
        return int64(0)
    return int64(1) if noise > 0.0 else int64(-1)


@inlined
def query_of(dag: DagArrays, a: int, r: int, sign: int) -> Query:
    """Return the query of a cached value. Add it to the cache if it is new."""
    graph, lists, cache, scratch = dag
    value = cache.value_ids[a]
    first_level = cache.first_level[value]
    level_count = cache.first_level[value + 1] - first_level
    key = query_key(graph.depth.size, a, r, sign)
    entry = find_entry(cache, key)
    if cache.queries[entry].key == 0:
        hold_value(graph, scratch, a)
        _, own_distance = common_subsumer(graph, scratch, r if sign != 0 else a, VALUE)
        near_set = near_set_size(graph, lists, scratch, r, own_distance) if sign < 0 else int64(0)
        add_query(cache, entry, key, level_count, own_distance, near_set)
    return Query(a, r, sign, cached_own_distance(cache, entry), entry, first_level, level_count)


@inlined
def is_any_admissible(dag: DagArrays, query: Query, j: int, target: float) -> bool:
    """Return whether the levels from j on, those at a distance of at least ``target``, have any admissible
    candidate."""
    cache = dag.cache
    own_distance = wu_palmer_level(query.own_distance.depth, query.own_distance.links)
    if query.sign < 0 and own_distance >= target and dag.lists.eligible[query.reference]:
        return True
    start = cache.queries[query.entry].start
    for h in range(start + j, start + query.level_count):
        if cache.statuses[h] != UNKNOWN and cache.statuses[h] != EMPTY:
            return True
    if query.sign >= 0 and is_remote_admissible(dag, query, target):
        return True
    if query.sign < 0 and is_near_admissible(dag, query, target):
        return True
    while j < query.level_count:
        if draw_from_level(dag, query, j, np.uint64(0)) >= 0:
            return True
        j += 1
    return False


@part
def is_remote_admissible(dag: DagArrays, query: Query, target: float) -> bool:
    """Return whether one of ``MemberLists.remote`` is admissible and at a distance of at least ``target``."""
    mark_query(dag.graph, dag.scratch, query)
    remote = dag.lists.remote
    admissible, j = False, 0
    while j < remote.size and not admissible:
        admissible = is_witness(dag, query, target, int64(remote[j]))
        j += 1
    return admissible


@part
def is_near_admissible(dag: DagArrays, query: Query, target: float) -> bool:
    """Return whether one of a few concepts near r is admissible and at a distance of at least ``target``; sign < 0.

    These concepts are, for some ancestors of r, the first and the last member of the list with the longest path that
    may hold near concepts.
    """
    graph, lists, _, scratch = dag
    compute_bounds(graph, scratch, query)
    r = query.reference
    begin = graph.offsets[r]
    for j in range(begin, min(graph.offsets[r + 1], begin + WITNESS_ANCESTORS)):
        t = graph.ancestors[j]
        x = lists.first[t] + near_lists(graph, lists, scratch, j) - 1
        if x >= lists.first[t] and lists.starts[x + 1] > lists.starts[x]:
            for y in (int64(lists.starts[x]), int64(lists.starts[x + 1]) - 1):
                if is_witness(dag, query, target, int64(lists.members[y])):
                    return True
    return False


@inlined
def is_witness(dag: DagArrays, query: Query, target: float, c: int) -> bool:
    """Return whether a candidate is admissible and at a distance of at least ``target``.

    If so, mark its level as ``NONEMPTY``.
    """
    graph, _, cache, scratch = dag
    _, separation = common_subsumer(graph, scratch, c, VALUE)
    distance = wu_palmer_level(separation.depth, separation.links)
    if c == query.value or distance < target or not meets_query_sign(graph, scratch, query, c):
        return False
    first = query.first_level
    at = cache.queries[query.entry].start + first_level_at(cache, first, first + query.level_count, distance) - first
    cache.statuses[at] = max(cache.statuses[at], NONEMPTY)
    return True


@part
def choose_dag_level(dag: DagArrays, query: Query, rule: LevelRule, words: RandomWords) -> Choice:
    """Return the replacement of a query's value; flags are ``NONE_ADMISSIBLE`` if no candidate is admissible.

    It applies the rule of ``core.replacement.rule``. The two levels next to the target are assumed to have admissible
    candidates until the chosen one proves empty; then the next level in that direction is considered. This gives the
    same choice as the rule: levels that are farther apart only make the choice that was taken more likely.
    """
    cache = dag.cache
    first, levels = query.first_level, query.level_count
    up = first_level_at(cache, first, first + levels, rule.target) - first
    down = up - 1
    chance = uniform(words.rounding)
    candidate, distance, is_up = int64(-1), 0.0, True
    while candidate < 0:
        above = cache.distances[first + up] if up < levels else np.inf
        lo = cache.distances[first + down] if down >= 0 else 0.0
        forced = not rule.calibrated or (down < 0 and not rule.keeps_value)
        is_up = up < levels and (forced or takes_upper(chance, lo, above, rule.target))
        if not is_up and down < 0:
            break
        candidate = draw_from_level(dag, query, up if is_up else down, words.tie)
        distance = above if is_up else lo
        up += is_up
        down -= not is_up
    if candidate < 0:
        distance = 0.0
    if is_up and candidate >= 0:
        return Choice(candidate, distance, 0)
    if up < levels and is_any_admissible(dag, query, up, rule.target):
        return Choice(candidate, distance, 0)
    return Choice(candidate, distance, TRUNCATED if candidate >= 0 else NONE_ADMISSIBLE)


@inlined
def resolve_query(dag: DagArrays, a: int, r: int, sign: int, rule: LevelRule, words: RandomWords) -> Choice:
    """Run ``choose_dag_level`` for a query that may be new. Leave the scratch memory clean."""
    query = query_of(dag, a, r, sign)
    choice = choose_dag_level(dag, query, rule, words)
    clean_query(dag.graph, dag.scratch, query)
    return choice


@inlined
def replace_in_dag(dag: DagArrays, a: int, r: int, sign: int, rule: LevelRule, words: RandomWords) -> Choice:
    """Return the replacement of a value. If no candidate meets the sign condition, the condition is dropped."""
    dropped = 0
    while True:
        choice = resolve_query(dag, a, r if sign != 0 else int64(-1), sign, rule, words)
        if choice.flags >= 0:
            return Choice(choice.candidate, choice.distance, choice.flags | dropped)
        if sign == 0:
            return Choice(choice.candidate, choice.distance, int64(TRUNCATED))
        sign, dropped = int64(0), SIGN_DROPPED


@kernel
def replace_all_in_dag(
    dag: DagArrays,
    calibrated: bool,
    order: Int64Array,
    codes: Int32Array,
    references: Int32Array,
    noise: Float64Array,
    rounding: UInt64Array,
    ties: UInt64Array,
) -> tuple[Int32Array, Float64Array, UInt8Array]:
    """Return (codes, distances, flags), the arrays of a ``Replacement`` of k values.

    order: ``TaskArrays.order``; the others: the arrays of the ``ReplacementTask``.
    """
    masks = codes.copy()
    distances = np.zeros(codes.size, np.float64)
    flags = np.zeros(codes.size, np.uint8)
    task = TaskArrays(order, codes, references, noise, rounding, ties)
    result = ReplacementArrays(masks, distances, flags)
    at = int64(0)
    while at < order.size:
        if not cache_has_room(dag.cache):
            clear_cache(dag.cache)
        a = int64(codes[order[at]])
        if a >= 0 and dag.cache.value_ids[a] == 0:
            add_value(dag.graph, dag.lists, dag.cache, a)
        at = replace_cached(dag, calibrated, at, task, result)
    release_value(dag.graph, dag.scratch)
    return masks, distances, flags


@part
def replace_cached(dag: DagArrays, calibrated: bool, start: int, task: TaskArrays, result: ReplacementArrays) -> int:
    """Replace the values of the order from ``start`` on, until one is not cached or the cache is full.

    Return the index where it stopped. The value at ``start`` must be cached. As a ``part``, it counts no references to
    arrays for each value.
    """
    _, lists, cache, _ = dag
    order = task.order
    for at in range(start, order.size):
        n = order[at]
        a = int64(task.codes[n])
        if a >= 0 and task.noise[n] != 0.0:
            if at > start and (cache.value_ids[a] == 0 or not cache_has_room(cache)):
                return at
            r = int64(task.references[n])
            rule = LevelRule(abs(task.noise[n]), calibrated, lists.eligible[a])
            words = RandomWords(task.rounding[n], task.ties[n])
            choice = replace_in_dag(dag, a, r, sign_of(a, r, task.noise[n]), rule, words)
            result.distances[n] = choice.distance
            result.flags[n] = choice.flags
            if choice.candidate >= 0:
                result.codes[n] = choice.candidate
    return order.size
