"""Cache eviction: when the cache is full, keep only the queries that were requested again.

Most pairs of a value and a reference occur once. A query that a later batch requests is marked. Eviction keeps the
marked queries with their statuses, except statuses of lists that nothing was drawn from. It then removes the marks:
only a query that is requested again survives the next eviction.
"""

from __future__ import annotations

import numpy as np

from stream_masker.core.dtypes import Int64Array, RecordArray
from stream_masker.core.kernels.jit import inlined, int64, kernel
from stream_masker.core.replacement.dag.cache import (
    BATCHES,
    LISTED,
    LISTED_PLACES,
    NONEMPTY,
    QUERIES,
    STATUSES,
    CandidateCache,
    cache_has_room,
    current_batch,
    find_entry,
    value_of_key,
)


@kernel
def evict(cache: CandidateCache) -> None:
    """Remove the queries that were not requested again.

    If that does not make room, or leaves more than half of the cache filled, clear the whole cache. Only a full clear
    frees levels and groups.
    """
    kept = requested_queries(cache)
    places = move_statuses(cache, kept)
    move_lists(cache, places)
    clear_queries(cache)
    for i in range(kept.size):
        kept[i].batch = current_batch(cache)
        kept[i].is_requested_again = 0
        cache.queries[find_entry(cache, kept[i].key)] = kept[i]
    cache.used[QUERIES] = kept.size
    if not (cache_has_room(cache) and is_half_free(cache)):
        clear_cache(cache)


@kernel
def clear_cache(cache: CandidateCache) -> None:
    """Remove all values and queries."""
    cache.value_ids[:] = 0
    clear_queries(cache)
    cache.used[:BATCHES] = 0


@inlined
def clear_queries(cache: CandidateCache) -> None:
    """Empty all entries of the hash table."""
    for entry in range(cache.queries.size):
        cache.queries[entry].key = 0


@inlined
def is_half_free(cache: CandidateCache) -> bool:
    """Return whether queries, statuses and lists each fill at most half of their limits."""
    return (
        4 * cache.used[QUERIES] <= cache.queries.size
        and 2 * cache.used[STATUSES] <= cache.statuses.size
        and 2 * cache.used[LISTED_PLACES] <= cache.listed.size
    )


@kernel
def requested_queries(cache: CandidateCache) -> RecordArray:
    """Return the entries that were requested again, by the index where their statuses start."""
    count = 0
    starts = np.empty(cache.used[QUERIES], np.int64)
    entries = np.empty(cache.used[QUERIES], np.int64)
    for entry in range(cache.queries.size):
        if cache.queries[entry].key != 0 and cache.queries[entry].is_requested_again != 0:
            starts[count], entries[count] = cache.queries[entry].start, entry
            count += 1
    return cache.queries[entries[:count][np.argsort(starts[:count])]]


@kernel
def move_statuses(cache: CandidateCache, kept: RecordArray) -> Int64Array:
    """Move the statuses of the kept queries to the front. Return the indices of those that refer to a list."""
    places = np.empty(cache.used[STATUSES], np.int64)
    count, free = 0, int64(0)
    for i in range(kept.size):
        start = kept[i].start
        value = value_of_key(cache, kept[i].key)
        kept[i].start = free
        for at in range(start, start + cache.first_level[value + 1] - cache.first_level[value]):
            cache.statuses[free] = cache.statuses[at]
            if cache.statuses[free] >= LISTED and cache.listed[cache.statuses[free] - LISTED] < 0:
                cache.statuses[free] = NONEMPTY
            if cache.statuses[free] >= LISTED:
                places[count] = free
                count += 1
            free += 1
    cache.used[STATUSES] = free
    return places[:count].copy()


@kernel
def move_lists(cache: CandidateCache, places: Int64Array) -> None:
    """Move the lists that these statuses refer to to the front."""
    free = int64(0)
    for place in places[np.argsort(cache.statuses[places])]:
        begin = int64(cache.statuses[place]) - LISTED
        cache.statuses[place] = LISTED + free
        for at in range(begin, begin + 1 + cache.listed[begin]):
            cache.listed[free] = cache.listed[at]
            free += 1
    cache.used[LISTED_PLACES] = free
