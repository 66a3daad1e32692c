"""The cache of the engine: results for values and queries, in bounded memory.

* Of a value a: its *levels*, the distances at which there may be candidates, ascending; and the *groups* of each level.
  A group is a member list of an ancestor of a. All groups of a level lead to the same distance.
* Of a query (a value, a reference and a sign): sd(a, r), and for each level of a its *status*: whether it is known to
  have admissible candidates, and which they are if they had to be enumerated.

All of it is a function of the taxonomy and the candidates, so the cache never changes a replacement. When it is full,
it is cleared.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from stream_masker.core.dtypes import Float64Array, Int32Array, Int64Array, RecordArray
from stream_masker.core.kernels.jit import inlined, int64, kernel
from stream_masker.core.replacement.dag.index import HASH_MULTIPLIER, GraphArrays, MemberLists
from stream_masker.core.replacement.rule import Separation, wu_palmer_level

VALUES, LEVELS, GROUPS, QUERIES, STATUSES, LISTED_PLACES = range(6)
"""Indices of ``CandidateCache.used``: how much of each array is filled."""

UNKNOWN, EMPTY, NONEMPTY, LISTED = range(4)
"""Statuses of a level for a query: nothing is known; there is no admissible candidate; there are some; LISTED + i: they
are listed in ``CandidateCache.listed`` from index i on."""

MAX_LISTED = 1 << 14
"""The maximum number of candidates that are listed for a level. If more are admissible, sampling soon finds one."""

QUERY = np.dtype(
    [
        ("key", np.int64),
        ("start", np.int64),
        ("near_set", np.int32),
        ("depth", np.int16),
        ("links", np.int16),
    ]
)
"""An entry of ``CandidateCache.queries``.

key: ``query_key``; 0 in an empty entry. start: index of the statuses of the query's levels. near_set: number of
list members that include all concepts nearer to r than a is; 0 unless sign < 0. depth, links: the own distance.
"""

GROUP = np.dtype([("list", np.int32), ("step", np.int32)])
"""A group of a level: a list of ``MemberLists``, and the index of its concept among the ancestors of the value."""


class CandidateCache(NamedTuple):
    """Cached values, levels and queries.

    value_ids: (m,) the number of each cached value, from 1; 0 for other concepts.
    first_level: the levels of value v are ``first_level[v]`` to ``first_level[v + 1]``, exclusive.
    distances: the distance of each level.
    sizes: the number of members of all groups of each level.
    first_group: the groups of level l are ``groups[first_group[l] : first_group[l + 1]]``.
    groups: array of ``GROUP``.
    queries: array of ``QUERY``; a hash table with open addressing and linear probing. Its size is a power of two.
    statuses: the status of each level of each query.
    listed: a number n and n *places*, ascending: indices of the admissible members among the level's members; or -n and
        n concepts in any order, which ``near_set.sort_listed`` converts to places when one is drawn.
    max_groups: (1,) the maximum number of groups of a value.
    used: (6,) how much of each array is filled.
    """

    value_ids: Int32Array
    first_level: Int64Array
    distances: Float64Array
    sizes: Int32Array
    first_group: Int32Array
    groups: RecordArray
    queries: RecordArray
    statuses: Int32Array
    listed: Int32Array
    max_groups: Int64Array
    used: Int64Array


def new_candidate_cache(concepts: int, max_groups: int, size: int) -> CandidateCache:
    """Return an empty cache for ``size`` levels of values, none of which has more than ``max_groups`` groups.

    Memory is committed as it is filled: about 120 bytes for each level.
    """
    levels = max(size, 2 * max_groups + 2)
    queries = np.empty(1 << max(4, (levels // 4).bit_length()), QUERY)
    queries[:] = 0
    return CandidateCache(
        value_ids=np.zeros(concepts, np.int32),
        first_level=np.zeros(levels + 2, np.int64),
        distances=np.empty(levels, np.float64),
        sizes=np.empty(levels, np.int32),
        first_group=np.zeros(levels + 1, np.int32),
        groups=np.empty(2 * levels, GROUP),
        queries=queries,
        statuses=np.empty(12 * levels, np.int32),
        listed=np.empty(4 * levels + 2 * MAX_LISTED, np.int32),
        max_groups=np.array([max_groups], np.int64),
        used=np.zeros(LISTED_PLACES + 1, np.int64),
    )


@inlined
def cache_has_room(cache: CandidateCache) -> bool:
    """Return whether another value with two queries, and another list of places, fit into the cache."""
    most = cache.max_groups[0]
    used = cache.used
    return (
        used[LEVELS] + most <= cache.distances.size
        and used[GROUPS] + most <= cache.groups.size
        and 2 * (used[QUERIES] + 2) <= cache.queries.size
        and used[STATUSES] + 2 * most <= cache.statuses.size
        and used[LISTED_PLACES] + MAX_LISTED < cache.listed.size
    )


@kernel
def clear_cache(cache: CandidateCache) -> None:
    """Remove all values and queries."""
    cache.value_ids[:] = 0
    for entry in range(cache.queries.size):
        cache.queries[entry].key = 0
    cache.used[:] = 0


@kernel
def add_value(graph: GraphArrays, lists: MemberLists, cache: CandidateCache, a: int) -> None:
    """Add the levels of a, nearest first, and their groups, those of a level by descending ancestor."""
    distances = np.empty(cache.max_groups[0], np.float64)
    groups = np.empty((cache.max_groups[0], 2), np.int32)
    count = 0
    offset = graph.offsets[a]
    for i in range(graph.offsets[a + 1] - offset):
        s = graph.ancestors[offset + i]
        path = int64(graph.paths[offset + i])
        for x in range(lists.first[s] + (1 if i == 0 else 0), lists.first[s + 1]):
            if lists.starts[x + 1] > lists.starts[x]:
                distances[count] = wu_palmer_level(graph.depth[s], path + x - lists.first[s])
                groups[count, 0] = x
                groups[count, 1] = i
                count += 1
    order = np.argsort(distances[:count], kind="mergesort")
    level = cache.used[LEVELS] - 1
    for j in range(count):
        x = groups[order[j], 0]
        if j == 0 or distances[order[j]] != distances[order[j - 1]]:
            level += 1
            cache.distances[level] = distances[order[j]]
            cache.sizes[level] = 0
        cache.sizes[level] += lists.starts[x + 1] - lists.starts[x]
        at = cache.used[GROUPS]
        cache.groups[at].list = x
        cache.groups[at].step = groups[order[j], 1]
        cache.used[GROUPS] = at + 1
        cache.first_group[level + 1] = at + 1
    value = cache.used[VALUES] + 1
    cache.used[VALUES] = value
    cache.used[LEVELS] = level + 1
    cache.first_level[value + 1] = level + 1
    cache.value_ids[a] = value


@inlined
def first_level_at(cache: CandidateCache, first: int, stop: int, distance: float) -> int:
    """Return the first of the levels first … stop - 1 that is not nearer than ``distance``; ``stop`` if all are."""
    while first < stop:
        middle = (first + stop) >> 1
        if cache.distances[middle] < distance:
            first = middle + 1
        else:
            stop = middle
    return first


@inlined
def query_key(concepts: int, a: int, r: int, sign: int) -> int:
    """Return a number, not 0, for each (a, r, sign); r is -1 if sign is 0."""
    return ((a * (concepts + 1) + r + 1) * 3) + sign + 2


@inlined
def find_entry(cache: CandidateCache, key: int) -> int:
    """Return the entry of ``queries`` with the key, or the empty entry where it is to be added."""
    mask = cache.queries.size - 1
    entry = int64((np.uint64(key) * HASH_MULTIPLIER) >> np.uint64(24)) & mask
    while cache.queries[entry].key != 0 and cache.queries[entry].key != key:
        entry = (entry + 1) & mask
    return entry


@inlined
def add_query(
    cache: CandidateCache, entry: int, key: int, levels: int, own_distance: Separation, near_set: int
) -> None:
    """Add a query with this number of levels, all of unknown status."""
    start = cache.used[STATUSES]
    query = cache.queries[entry]
    query.key = key
    query.start = start
    query.near_set = near_set
    query.depth = own_distance.depth
    query.links = own_distance.links
    for j in range(start, start + levels):
        cache.statuses[j] = UNKNOWN
    cache.used[STATUSES] = start + levels
    cache.used[QUERIES] += 1


@inlined
def cached_own_distance(cache: CandidateCache, entry: int) -> Separation:
    """Return the own distance of a cached query."""
    return Separation(int64(cache.queries[entry].depth), int64(cache.queries[entry].links))


@inlined
def is_room_to_list(cache: CandidateCache, count: int) -> bool:
    """Return whether a list of this number of places fits into the cache."""
    return cache.used[LISTED_PLACES] + count < cache.listed.size


@inlined
def locate(lists: MemberLists, cache: CandidateCache, level: int, place: int) -> tuple[int, int]:
    """Return (group, index in ``MemberLists.members``) of the member at a place of the level."""
    g = int64(cache.first_group[level])
    while True:
        x = cache.groups[g].list
        start = int64(lists.starts[x])
        size = lists.starts[x + 1] - start
        if place < size:
            return g, start + place
        place -= size
        g += 1


@inlined
def is_listed(listed: Int32Array, begin: int, place: int) -> bool:
    """Return whether the list of places that begins with its number at ``listed[begin]`` contains a place."""
    low = int64(begin + 1)
    high = low + listed[begin]
    while low < high:
        middle = (low + high) >> 1
        if listed[middle] < place:
            low = middle + 1
        else:
            high = middle
    return low <= begin + listed[begin] and listed[low] == place
