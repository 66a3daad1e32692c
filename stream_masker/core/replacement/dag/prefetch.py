"""Prefetching for the next values of a batch.

Most of the time of a replacement is spent waiting for memory. The functions here predict what the next values will read
and load it into the processor's cache, many lines at a time. They decide nothing: a wrong prediction costs a load.
"""

from __future__ import annotations

import numpy as np

from stream_masker.core.kernels.cache_lines import ANCESTOR_LINE
from stream_masker.core.kernels.intrinsics import prefetch
from stream_masker.core.kernels.jit import inlined, int64, part
from stream_masker.core.random.draws import uniform
from stream_masker.core.replacement.dag.arrays import DagArrays
from stream_masker.core.replacement.dag.cache import (
    EMPTY,
    LISTED,
    CandidateCache,
    first_level_at,
    home_entry,
    locate,
    query_key,
)
from stream_masker.core.replacement.dag.index import GraphArrays, MemberLists, prefetch_concept
from stream_masker.core.replacement.dag.query import TaskArrays
from stream_masker.core.replacement.dag.sampling import MIN_TRIES, max_tries, random_index
from stream_masker.core.replacement.levels import takes_upper

PREFETCH_DISTANCE = 32
"""The number of values that are prefetched together."""


@inlined
def sign_of(a: int, r: int, noise: float) -> int:
    """Return the sign condition of a value: 1 farther, -1 nearer, 0 none."""
    if r < 0 or r == a:
        return int64(0)
    return int64(1) if noise > 0.0 else int64(-1)


@inlined
def key_of(graph: GraphArrays, a: int, r: int, noise: float) -> int:
    """Return the key of the query of a value."""
    sign = sign_of(a, r, noise)
    return query_key(graph.depth.size, a, r if sign != 0 else int64(-1), sign)


@part
def prefetch_queries(graph: GraphArrays, cache: CandidateCache, task: TaskArrays, start: int, stop: int) -> None:
    """Prefetch the data that depend only on the codes of the values start … stop - 1 of the order."""
    for at in range(start, min(stop, task.order.size)):
        n = task.order[at]
        a, r = int64(task.codes[n]), int64(task.references[n])
        if a >= 0:
            prefetch(cache.value_ids, a)
            prefetch(cache.queries, home_entry(cache, key_of(graph, a, r, task.noise[n])))
            prefetch_concept(graph, a)
            if r >= 0:
                prefetch_concept(graph, r)


@part
def prefetch_draws(dag: DagArrays, task: TaskArrays, calibrated: bool, start: int, stop: int) -> None:
    """Prefetch what the first draw of these values will probably read, for those that are cached."""
    graph, lists, cache, scratch = dag
    predicted = scratch.predicted
    for at in range(start, stop):
        n = task.order[at]
        a = int64(task.codes[n])
        if a >= 0 and cache.value_ids[a] > 0:
            prefetch(cache.first_level, int64(cache.value_ids[a]))
            key = key_of(graph, a, int64(task.references[n]), task.noise[n])
            home = home_entry(cache, key)
            if cache.queries[home].key == key:
                prefetch(cache.statuses, cache.queries[home].start)
                prefetch(cache.statuses, cache.queries[home].start + ANCESTOR_LINE - 1)
    for at in range(start, stop):
        n = task.order[at]
        a = int64(task.codes[n])
        predicted[at - start] = -1
        if a >= 0 and cache.value_ids[a] > 0:
            key = key_of(graph, a, int64(task.references[n]), task.noise[n])
            predicted[at - start] = level_to_draw(cache, a, key, calibrated, task.noise[n], task.rounding[n])
        if predicted[at - start] >= 0:
            prefetch_members(lists, cache, predicted[at - start], task.ties[n])
    for at in range(start, stop):
        if predicted[at - start] >= 0:
            prefetch_member_lines(graph, lists, cache, predicted[at - start], task.ties[task.order[at]])


@inlined
def level_to_draw(cache: CandidateCache, a: int, key: int, calibrated: bool, noise: float, rounding: np.uint64) -> int:
    """Return the level whose members a value will probably read first; -1 for none.

    It is also -1 if the level is listed; then the list is prefetched.
    """
    value = cache.value_ids[a]
    first, stop = cache.first_level[value], cache.first_level[value + 1]
    level, step = predicted_level(cache, first, stop, calibrated, abs(noise), rounding)
    home = home_entry(cache, key)
    if cache.queries[home].key != key:
        return level if level >= first else int64(-1)
    start = cache.queries[home].start - first
    while first <= level < stop and cache.statuses[start + level] == EMPTY:
        level += step
    if not first <= level < stop:
        return int64(-1)
    status = int64(cache.statuses[start + level])
    if status >= LISTED:
        prefetch(cache.listed, status - LISTED)
    return level if status < LISTED else int64(-1)


@inlined
def prefetch_members(lists: MemberLists, cache: CandidateCache, level: int, tie: np.uint64) -> None:
    """Prefetch the members of a level that will be read first: all of a small level, else those tried first."""
    if max_tries(cache.sizes[level]) == 0:
        for g in range(cache.first_group[level], cache.first_group[level + 1]):
            prefetch(lists.members, int64(lists.starts[cache.groups[g].list]))
    else:
        for turn in range(MIN_TRIES):
            prefetch(lists.members, locate(lists, cache, level, random_index(tie, turn, cache.sizes[level]))[1])


@inlined
def prefetch_member_lines(
    graph: GraphArrays, lists: MemberLists, cache: CandidateCache, level: int, tie: np.uint64
) -> None:
    """Prefetch the ancestor lines of these members: of all of a small level, else of the one tried first."""
    if max_tries(cache.sizes[level]) == 0:
        for g in range(cache.first_group[level], cache.first_group[level + 1]):
            x = cache.groups[g].list
            for y in range(lists.starts[x], lists.starts[x + 1]):
                prefetch_concept(graph, lists.members[y])
    else:
        y = locate(lists, cache, level, random_index(tie, 0, cache.sizes[level]))[1]
        prefetch_concept(graph, lists.members[y])


@inlined
def predicted_level(
    cache: CandidateCache, first: int, stop: int, calibrated: bool, target: float, rounding: np.uint64
) -> tuple[int, int]:
    """Return (level, step) if every level had admissible candidates.

    The level is less than ``first`` to keep the value. The step, 1 or -1, is the direction in which the choice
    continues.
    """
    up = first_level_at(cache, first, stop, target)
    above = cache.distances[up] if up < stop else np.inf
    lo = cache.distances[up - 1] if up > first else 0.0
    is_up = not calibrated or takes_upper(uniform(rounding), lo, above, target)
    return (up, 1) if is_up and up < stop else (up - 1, -1)
