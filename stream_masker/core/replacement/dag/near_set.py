"""The near set of a query: the member lists around its reference that include all concepts nearer to it than the value.

For sign < 0 a visit of the near set finds the admissible candidates of all levels at once. They are kept as lists of
concepts, which ``sort_listed`` converts to lists of places when one is drawn.
"""

from __future__ import annotations

from stream_masker.core.dtypes import Int32Array
from stream_masker.core.kernels.jit import inlined, int64, part
from stream_masker.core.replacement.dag.cache import (
    EMPTY,
    LISTED,
    LISTED_PLACES,
    MAX_LISTED,
    NONEMPTY,
    CandidateCache,
    first_level_at,
    is_room_to_list,
)
from stream_masker.core.replacement.dag.index import GraphArrays, MemberLists
from stream_masker.core.replacement.dag.pruning import (
    compute_bounds,
    fill_links,
)
from stream_masker.core.replacement.dag.query import Query
from stream_masker.core.replacement.dag.scratch import (
    REFERENCE,
    VALUE,
    AncestorScratch,
    DagArrays,
    common_subsumer,
    mark_query,
)
from stream_masker.core.replacement.rule import Separation, meets_sign, wu_palmer_level


@inlined
def near_lists(graph: GraphArrays, lists: MemberLists, scratch: AncestorScratch, j: int) -> int:
    """Return how many lists of an ancestor of r, by ascending path, may hold concepts nearer to r.

    j: the index of the ancestor in the closure. ``AncestorScratch.links`` must be filled for sign < 0.
    """
    t = int64(graph.ancestors[j])
    return max(min(scratch.links[graph.depth[t]] - graph.paths[j], lists.first[t + 1] - lists.first[t]), int64(0))


@part
def near_set_size(
    graph: GraphArrays, lists: MemberLists, scratch: AncestorScratch, r: int, own_distance: Separation
) -> int:
    """Return the number of members, with repetitions, of the near set of r.

    They include all concepts nearer than the own distance.
    """
    fill_links(graph, scratch, own_distance, False)
    total = int64(0)
    for j in range(graph.offsets[r], graph.offsets[r + 1]):
        x = lists.first[graph.ancestors[j]]
        total += lists.starts[x + near_lists(graph, lists, scratch, j)] - lists.starts[x]
    return total


@part
def enumerate_near_set(dag: DagArrays, query: Query) -> None:
    """List the admissible members of all levels of a query with sign < 0, by visiting the near set of r."""
    graph, lists, cache, scratch = dag
    compute_bounds(graph, scratch, query)
    r, count, size = query.reference, int64(0), 0
    for j in range(graph.offsets[r], graph.offsets[r + 1]):
        t = int64(graph.ancestors[j])
        start = lists.starts[lists.first[t]]
        for y in range(start, lists.starts[lists.first[t] + near_lists(graph, lists, scratch, j)]):
            scratch.near[size].subsumer = t
            scratch.near[size].concept = lists.members[y]
            size += 1
            if size == scratch.near.size:
                count = search_near_set(graph, cache, scratch, query, size, count)
                size = 0
    count = search_near_set(graph, cache, scratch, query, size, count)
    keep_lists(cache, scratch, cache.queries[query.entry].start, query.level_count, count)


@part
def search_near_set(
    graph: GraphArrays, cache: CandidateCache, scratch: AncestorScratch, query: Query, size: int, count: int
) -> int:
    """Append the admissible concepts among the first ``size`` of ``AncestorScratch.near`` to ``admissible``, with their
    levels.

    Return the new length of ``admissible``; ``count`` is its length before. A concept counts only in the lists of its
    least common subsumer with r, so that it is found once.
    """
    first = query.first_level
    for n in range(size):
        c = int64(scratch.near[n].concept)
        t, separation = common_subsumer(graph, scratch, c, REFERENCE)
        is_first = t == scratch.near[n].subsumer and c != query.value
        if is_first and meets_sign(query.sign, separation, query.own_distance):
            _, from_value = common_subsumer(graph, scratch, c, VALUE)
            distance = wu_palmer_level(from_value.depth, from_value.links)
            scratch.admissible[count].level = first_level_at(cache, first, first + query.level_count, distance) - first
            scratch.admissible[count].concept = c
            count += 1
    return count


@inlined
def keep_lists(cache: CandidateCache, scratch: AncestorScratch, start: int, levels: int, count: int) -> None:
    """Keep lists of concepts for all levels of a query, from the first ``count`` of ``AncestorScratch.admissible``.

    Write the statuses from index ``start`` on. If the list of a level does not fit, only the existence of candidates is
    kept.
    """
    admissible, statuses, listed = scratch.admissible, cache.statuses, cache.listed
    for j in range(start, start + levels):
        statuses[j] = 0
    for i in range(count):
        statuses[start + admissible[i].level] += 1
    for j in range(start, start + levels):
        size = int64(statuses[j])
        begin = cache.used[LISTED_PLACES]
        statuses[j] = EMPTY if size == 0 else NONEMPTY
        if 0 < size <= MAX_LISTED and is_room_to_list(cache, size):
            cache.used[LISTED_PLACES] = begin + 1 + size
            statuses[j] = LISTED + begin
            listed[begin] = 0
    for i in range(count):
        begin = int64(statuses[start + admissible[i].level]) - LISTED
        if begin >= 0:
            listed[begin] -= 1
            listed[begin - listed[begin]] = admissible[i].concept


@part
def sort_listed(dag: DagArrays, query: Query, level: int, begin: int) -> None:
    """Convert the list of concepts at ``listed[begin]`` to a list of places, ascending."""
    graph, lists, cache, scratch = dag
    mark_query(graph, scratch, query)
    listed = cache.listed
    count = -int64(listed[begin])
    for i in range(begin + 1, begin + 1 + count):
        c = int64(listed[i])
        s, separation = common_subsumer(graph, scratch, c, VALUE)
        path = separation.links - scratch.marks[2 * s + VALUE] + 1
        listed[i] = member_place(graph, lists, cache, level, s, path, c)
    shell_sort(listed, begin + 1, count)
    listed[begin] = count


@inlined
def shell_sort(numbers: Int32Array, start: int, count: int) -> None:
    """Sort ``numbers[start : start + count]`` in place; Shell sort with Knuth's gaps."""
    gap = 1
    while 3 * gap < count:
        gap = 3 * gap + 1
    while gap > 0:
        for i in range(start + gap, start + count):
            number = numbers[i]
            j = i
            while j >= start + gap and numbers[j - gap] > number:
                numbers[j] = numbers[j - gap]
                j -= gap
            numbers[j] = number
        gap //= 3


@inlined
def member_place(
    graph: GraphArrays, lists: MemberLists, cache: CandidateCache, level: int, s: int, path: int, c: int
) -> int:
    """Return the place of c among the members of a level. c is in the list of s for that path."""
    x = lists.first[s] + path
    place = int64(0)
    g = cache.first_group[level]
    while cache.groups[g].list != x:
        place += lists.starts[cache.groups[g].list + 1] - lists.starts[cache.groups[g].list]
        g += 1
    low, high = int64(lists.starts[x]), int64(lists.starts[x + 1])
    while low < high:
        middle = (low + high) >> 1
        other = lists.members[middle]
        is_shorter = graph.root_path[other] < graph.root_path[c]
        if is_shorter or (graph.root_path[other] == graph.root_path[c] and lists.preorder[other] < lists.preorder[c]):
            low = middle + 1
        else:
            high = middle
    return place + low - lists.starts[x]
