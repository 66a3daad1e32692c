"""Drawing from a level of a case, exactly uniformly, without looking at all of it.

A level has a known number of members, of which some are admissible. Members are tried at random, each as likely as any
other, until one is admissible. If a number of tries, which depends on the members' number alone, does not find one, all
admissible ones are listed, and one of them is taken at random. So a draw is a function of the case, the level and the
record's random word. What was listed is remembered: the next draw tells from the list what its tries would find, so
that it gives the same with memory and without.
"""

from __future__ import annotations

import numpy as np

from stream_masker.core.compiling import inlined, part
from stream_masker.core.machine import prefetch
from stream_masker.core.mechanisms.candidates import index_below
from stream_masker.core.mechanisms.dag_bits import ROW_WORDS
from stream_masker.core.mechanisms.dag_bounds import (
    BOUNDED,
    BY_OTHERS,
    BY_SHARED,
    ENOUGH,
    FEW,
    MARKED,
    PATH,
    ROOT_PATH,
    SELF,
    bound,
    fill_links,
    first_after,
    fits,
    is_covered,
    is_deep_enough,
    is_hopeless,
    mark,
    may_share,
    shared,
)
from stream_masker.core.mechanisms.dag_memo import (
    BALL,
    EMPTY,
    FOUND,
    LISTED,
    MOST_LISTED,
    START,
    THERE,
    UNKNOWN,
    first_level_at,
    is_listed,
    locate,
)
from stream_masker.core.mechanisms.dag_tables import (
    BLOCK,
    BLOCK_WORDS,
    DEEPEST,
)
from stream_masker.core.mechanisms.levels import is_beyond, wu_palmer_level

GOLDEN = np.uint64(0x9E3779B97F4A7C15)

LEVEL_OF_FEW = 8
FEWEST_TRIES, MOST_TRIES, MEMBERS_A_TRY = 4, 256, 32
SMALL_BALL, BALL_SHARE = 24, 16
"""Concepts nearer to the reference are listed at once, for all levels: so many at most, or such a share of a level."""


@inlined
def below(seed, turn, size):  # type: ignore[no-untyped-def]
    """A random integer in 0 … size - 1, the turn-th from a record's word (splitmix64)."""
    word = seed + GOLDEN * np.uint64(turn + 1)
    word = (word ^ (word >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    word = (word ^ (word >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return index_below(word ^ (word >> np.uint64(31)), size)


@inlined
def tries_of(members):  # type: ignore[no-untyped-def]
    """How many members to try before all are listed."""
    return 0 if members <= LEVEL_OF_FEW else min(FEWEST_TRIES + members // MEMBERS_A_TRY, MOST_TRIES)


@part
def draw(graph, lists, memo, work, case, slot, first, j, seed):  # type: ignore[no-untyped-def]
    """An admissible concept of the case's level j, or -1 if there is none; ``first``: the value's first level."""
    at = memo.cases[slot, START] + j
    if memo.statuses[at] < LISTED and memo.statuses[at] != EMPTY:
        if work.ready[0] == 0:
            mark(graph, work, case)
        if memo.statuses[at] == UNKNOWN and work.ready[0] == MARKED:
            bound(graph, work, case)
        if case[2] < 0 and memo.statuses[at] == UNKNOWN and memo.cases[slot, BALL] <= SMALL_BALL:
            list_ball(graph, lists, memo, work, case, slot, first)
    if memo.statuses[at] == EMPTY:
        return np.int64(-1)
    level = first + j
    turns = tries_of(memo.sizes[level])
    if memo.statuses[at] < LISTED:
        found = tried(graph, lists, memo, work, case, level, turns, seed)
        if found >= 0:
            memo.statuses[at] = THERE
            return found
        if work.ready[0] == MARKED:
            bound(graph, work, case)
        if case[2] < 0 and memo.cases[slot, BALL] <= min(memo.sizes[level] // BALL_SHARE, work.entries.size):
            list_ball(graph, lists, memo, work, case, slot, first)
        else:
            list_level(graph, lists, memo, work, case, level, at)
        if memo.statuses[at] == EMPTY:
            return np.int64(-1)
    return drawn(graph, lists, memo, work, case, level, at, turns, seed)


@inlined
def tried(graph, lists, memo, work, case, level, turns, seed):  # type: ignore[no-untyped-def]
    """The first admissible one of so many members tried; -1 if none is."""
    for turn in range(turns):
        g, y = locate(lists, memo, level, below(seed, turn, memo.sizes[level]))
        i = np.int64(memo.groups[2 * g + 1])
        s = work.steps[i, SELF]
        k = memo.groups[2 * g] - lists.first[s]
        c = np.int64(lists.members[y])
        if turn == FEWEST_TRIES and work.ready[0] == MARKED:
            bound(graph, work, case)
        hopeless = work.ready[0] == BOUNDED and is_hopeless(graph, work, case[2], i, k, c)
        if not hopeless and fits(graph, work, case, c, s, work.steps[i, PATH] + k):
            return c
    return np.int64(-1)


@inlined
def drawn(graph, lists, memo, work, case, level, at, turns, seed):  # type: ignore[no-untyped-def]
    """The same draw, from the list of those that are admissible; from all of them after so many tries."""
    place = np.int64(-1)
    if memo.statuses[at] >= LISTED:
        begin = memo.statuses[at] - LISTED
        for turn in range(turns):
            u = below(seed, turn, memo.sizes[level])
            if is_listed(memo.found, begin, u):
                place = u
                break
        if place < 0:
            place = np.int64(memo.found[begin + 1 + below(seed, turns, memo.found[begin])])
    else:
        size = sweep_level(graph, lists, memo, work, case, level, -1, 0)[0]
        place = sweep_level(graph, lists, memo, work, case, level, below(seed, turns, size), 0)[1]
    return np.int64(lists.members[locate(lists, memo, level, place)[1]])


@part
def list_level(graph, lists, memo, work, case, level, at):  # type: ignore[no-untyped-def]
    """Lists the admissible members of a level."""
    begin = memo.used[FOUND]
    room = min(MOST_LISTED, memo.found.size - begin - 1)
    size = sweep_level(graph, lists, memo, work, case, level, -1, room)[0]
    memo.statuses[at] = EMPTY if size == 0 else THERE
    if 0 < size <= room:
        memo.found[begin] = size
        memo.used[FOUND] = begin + size + 1
        memo.statuses[at] = LISTED + begin


@part
def sweep_level(graph, lists, memo, work, case, level, wanted, room):  # type: ignore[no-untyped-def]
    """(the number of admissible members, the place of the wanted-th); writes the first places, as many as have room,
    after ``memo.used[FOUND]``."""
    count, place, before = np.int64(0), np.int64(-1), np.int64(0)
    for g in range(memo.first_group[level], memo.first_group[level + 1]):
        x, i = np.int64(memo.groups[2 * g]), np.int64(memo.groups[2 * g + 1])
        start, stop = np.int64(lists.starts[x]), np.int64(lists.starts[x + 1])
        if not is_list_hopeless(graph, lists, work, case[2], x, i):
            count, place = sweep_list(graph, lists, memo, work, case, (x, i, before), count, place, wanted, room)
        before += stop - start
    return count, place


@inlined
def is_list_hopeless(graph, lists, work, sign, x, i):  # type: ignore[no-untyped-def]
    """For sign > 0: whether no descendant of step i is deep enough to be farther over another subsumer."""
    if sign <= 0 or x - lists.first[work.steps[i, SELF]] >= work.steps[i, ENOUGH]:
        return False
    return graph.deepest[work.steps[i, SELF]] <= min(work.steps[i, BY_SHARED], work.steps[i, BY_OTHERS])


@part
def sweep_list(graph, lists, memo, work, case, where, count, place, wanted, room):  # type: ignore[no-untyped-def]
    """As ``sweep_level``, of one list; goes on from count and place."""
    x, i, before = where
    sign = case[2]
    s = work.steps[i, SELF]
    k = x - lists.first[s]
    start, stop = np.int64(lists.starts[x]), np.int64(lists.starts[x + 1])
    short = first_after(graph, lists, start, stop, work.steps[i, ROOT_PATH]) if sign < 0 else stop
    y = start
    while y < stop:
        end = min(stop, (y // BLOCK + 1) * BLOCK)
        last = end_of_hope(graph, lists, work, sign, i, k, y, end, short)
        for j in range(sift(graph, lists, work, sign, i, k, y, last, short)):
            z = work.kept[j]
            if fits(graph, work, case, np.int64(lists.members[z]), s, work.steps[i, PATH] + k):
                if count == wanted:
                    place = before + z - start
                if count < room:
                    memo.found[memo.used[FOUND] + 1 + count] = before + z - start
                count += 1
        y = end
    return count, place


@inlined
def sift(graph, lists, work, sign, i, k, y, last, short):  # type: ignore[no-untyped-def]
    """Keeps those of a block's members that may be admissible, asks for what is to be looked at; their number."""
    count = 0
    number = np.int64(graph.root_path[lists.members[y]])
    by_depth = sign > 0 and k < work.steps[i, ENOUGH]
    for z in range(y, last):
        c = np.int64(lists.members[z])
        if z + 8 < last and (by_depth or z + 8 >= short):
            prefetch(graph.rows, ROW_WORDS * np.int64(lists.members[z + 8]))
        hopeless = z >= short and not may_share(graph.rows, ROW_WORDS * c, work, number)
        if not (hopeless or (by_depth and is_hopeless(graph, work, sign, i, k, c))):
            work.kept[count] = z
            prefetch(graph.offsets, c)
            count += 1
    for j in range(count):
        ask_for(graph, lists.members[work.kept[j]])
    return count


@inlined
def ask_for(graph, c):  # type: ignore[no-untyped-def]
    """Asks for the ancestors of a concept that is to be looked at soon."""
    prefetch(graph.ancestors, graph.offsets[c])
    prefetch(graph.paths, graph.offsets[c])


@inlined
def end_of_hope(graph, lists, work, sign, i, k, y, end, short):  # type: ignore[no-untyped-def]
    """Up to where members of the block of y, which ends at ``end``, may be admissible: y if none."""
    block = (y // BLOCK) * BLOCK_WORDS
    last = end
    if sign != 0:
        number = -np.int64(lists.blocks[block + DEEPEST]) if sign > 0 else np.int64(graph.root_path[lists.members[y]])
        touched = may_share(lists.blocks, block, work, number)
        if sign < 0 and not touched:
            last = max(y, min(end, short))
        if sign > 0 and not is_deep_enough(lists, work, i, k, block, touched):
            last = y
    if last - y > FEW and is_covered(graph, lists, work, i, block):
        last = y
    return last


@inlined
def reach(graph, lists, work, j):  # type: ignore[no-untyped-def]
    """How many lists of an ancestor of r, entry j of the closure, may hold concepts nearer to r, by ``Work.links``."""
    t = np.int64(graph.ancestors[j])
    return max(min(work.links[graph.depth[t]] - graph.paths[j], lists.first[t + 1] - lists.first[t]), np.int64(0))


@part
def ball_size(graph, lists, work, r, own):  # type: ignore[no-untyped-def]
    """How many members of lists, at least, hold all concepts nearer to r than own."""
    fill_links(graph, work, own, False)
    total = np.int64(0)
    for j in range(graph.offsets[r], graph.offsets[r + 1]):
        x = lists.first[graph.ancestors[j]]
        total += lists.starts[x + reach(graph, lists, work, j)] - lists.starts[x]
    return total


@part
def list_ball(graph, lists, memo, work, case, slot, first):  # type: ignore[no-untyped-def]
    """Lists the admissible members of all levels of a case with sign < 0, by looking at what is near to r."""
    a, r, sign, own = case
    entries = work.entries
    count = np.int64(0)
    stop = memo.first_level[memo.value_at[a] + 1]
    for j in range(graph.offsets[r], graph.offsets[r + 1]):
        x = lists.first[graph.ancestors[j]]
        last = graph.begins[graph.depth[graph.ancestors[j]] + 1] - 1
        for y in range(lists.starts[x], lists.starts[x + reach(graph, lists, work, j)]):
            c = np.int64(lists.members[y])
            if c != a:
                t, depth, links = shared(graph, work, c, 1, last)
                if t == graph.ancestors[j] and is_beyond(sign, wu_palmer_level(depth, links), own):
                    s, depth, links = shared(graph, work, c, 0, graph.depth.size)
                    level = first_level_at(memo, first, stop, wu_palmer_level(depth, links))
                    path = links - work.marks[2 * s] + 1
                    entries[count] = ((level - first) << 32) + place_of(graph, lists, memo, level, s, path, c)
                    count += 1
    sort(entries, count)
    start = memo.cases[slot, START]
    for j in range(start, start + stop - first):
        memo.statuses[j] = EMPTY
    keep_lists(memo, start, entries, count)


@inlined
def sort(entries, count):  # type: ignore[no-untyped-def]
    """Sorts the first entries, by the gaps of Shell and Knuth."""
    gap = 1
    while 3 * gap < count:
        gap = 3 * gap + 1
    while gap > 0:
        for i in range(gap, count):
            entry = entries[i]
            j = i
            while j >= gap and entries[j - gap] > entry:
                entries[j] = entries[j - gap]
                j -= gap
            entries[j] = entry
        gap //= 3


@inlined
def place_of(graph, lists, memo, level, s, path, c):  # type: ignore[no-untyped-def]
    """The place among the members of a level of c, so many links below s."""
    x = lists.first[s] + path
    place = np.int64(0)
    g = memo.first_group[level]
    while memo.groups[2 * g] != x:
        place += lists.starts[memo.groups[2 * g] + 1] - lists.starts[memo.groups[2 * g]]
        g += 1
    low, high = np.int64(lists.starts[x]), np.int64(lists.starts[x + 1])
    while low < high:
        middle = (low + high) >> 1
        other = lists.members[middle]
        before = graph.root_path[other] < graph.root_path[c]
        if before or (graph.root_path[other] == graph.root_path[c] and lists.preorder[other] < lists.preorder[c]):
            low = middle + 1
        else:
            high = middle
    return place + low - lists.starts[x]


@inlined
def keep_lists(memo, start, entries, count):  # type: ignore[no-untyped-def]
    """Writes the lists of levels from sorted entries, level · 2³² + place; what has no room is only known to be."""
    i = np.int64(0)
    while i < count:
        level = entries[i] >> 32
        stop = i
        while stop < count and entries[stop] >> 32 == level:
            stop += 1
        begin = memo.used[FOUND]
        memo.statuses[start + level] = THERE
        if stop - i <= min(MOST_LISTED, memo.found.size - begin - 1):
            memo.found[begin] = stop - i
            for h in range(i, stop):
                memo.found[begin + 1 + h - i] = entries[h] & np.int64(0xFFFFFFFF)
            memo.used[FOUND] = begin + 1 + stop - i
            memo.statuses[start + level] = LISTED + begin
        i = stop
