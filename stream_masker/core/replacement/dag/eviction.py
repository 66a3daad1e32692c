"""Forgetting, when a ``Memo`` is full, the cases that did not come again.

Most pairs of values come once and never again. A case that a later batch asks for is marked; when room runs out, those
that are marked stay, with what is known of them but for lists that nothing was drawn from, and have to be asked for
anew until the next time.
"""

from __future__ import annotations

import numpy as np

from stream_masker.core.dtypes import Int64Array, Int64Matrix
from stream_masker.core.kernels.jit import inlined, int64, kernel
from stream_masker.core.replacement.dag.cache import (
    BATCHES,
    CASES,
    FOUND,
    KEY,
    LISTED,
    OWN,
    REQUESTED_AGAIN,
    START,
    STATUSES,
    THERE,
    CandidateCache,
    cache_has_room,
    cached_value,
    clear_cache,
    query_slot,
)


@kernel
def evict(memo: CandidateCache) -> None:
    """Forgets what did not come again; all of it, if that leaves less than half of any room."""
    kept = retained_queries(memo)
    lists = move_statuses(memo, kept)
    move_lists(memo, lists)
    memo.cases[:] = 0
    for i in range(kept.shape[0]):
        clear_cache(memo, kept, i)
        memo.cases[query_slot(memo, kept[i, KEY])] = kept[i]
    memo.used[CASES] = kept.shape[0]
    if not (cache_has_room(memo) and is_half_free(memo)):
        evict_queries(memo)


@kernel
def evict_queries(memo: CandidateCache) -> None:
    """Empties the memo."""
    memo.value_at[:] = 0
    memo.cases[:] = 0
    memo.used[:BATCHES] = 0


@inlined
def is_half_free(memo: CandidateCache) -> bool:
    """Whether cases, statuses and lists fill no more than half of their room."""
    return (
        4 * memo.used[CASES] <= memo.cases.shape[0]
        and 2 * memo.used[STATUSES] <= memo.statuses.size
        and 2 * memo.used[FOUND] <= memo.found.size
    )


@kernel
def retained_queries(memo: CandidateCache) -> Int64Matrix:
    """(n, 4): the rows of the cases that came again, by where their statuses start."""
    rows = memo.cases[np.flatnonzero(memo.cases[:, OWN] & REQUESTED_AGAIN)]
    return rows[np.argsort(rows[:, START])]


@kernel
def move_statuses(memo: CandidateCache, kept: Int64Matrix) -> Int64Array:
    """Moves the statuses of the cases that are kept to the front; the places there of those that tell of a list."""
    places = np.empty(memo.used[STATUSES], np.int64)
    count, free = 0, int64(0)
    for i in range(kept.shape[0]):
        start = kept[i, START]
        value = cached_value(memo, kept[i, KEY])
        kept[i, START] = free
        for at in range(start, start + memo.first_level[value + 1] - memo.first_level[value]):
            memo.statuses[free] = memo.statuses[at]
            if memo.statuses[free] >= LISTED and memo.found[memo.statuses[free] - LISTED] < 0:
                memo.statuses[free] = THERE
            if memo.statuses[free] >= LISTED:
                places[count] = free
                count += 1
            free += 1
    memo.used[STATUSES] = free
    return places[:count].copy()


@kernel
def move_lists(memo: CandidateCache, places: Int64Array) -> None:
    """Moves the lists that statuses tell of to the front."""
    free = int64(0)
    for place in places[np.argsort(memo.statuses[places])]:
        begin = int64(memo.statuses[place]) - LISTED
        memo.statuses[place] = LISTED + free
        for at in range(begin, begin + 1 + memo.found[begin]):
            memo.found[free] = memo.found[at]
            free += 1
    memo.used[FOUND] = free
