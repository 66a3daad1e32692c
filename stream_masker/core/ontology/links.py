"""Is-a links as arrays: checked to be one rooted acyclic hierarchy, and put into the order of a taxonomy."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from stream_masker.core.dtypes import Int32Array, Int64Array
from stream_masker.core.ontology import graph
from stream_masker.core.ontology.taxonomy import Taxonomy
from stream_masker.core.ontology.texts import Texts
from stream_masker.errors import CycleError, SeveralRootsError


def arranged(
    ids: Sequence[str], children: Int64Array, parents: Int64Array
) -> tuple[Int64Array, Int64Array, Int32Array]:
    """The order of a taxonomy's concepts: by depth, then by their first parent's position, then by id.

    ``children[k]`` is-a ``parents[k]``, both indices of ``ids``; no link stands twice. Returns (m,) the index of the
    concept at each position, and the parents' positions as compressed rows. Raises CycleError, SeveralRootsError.
    """
    m = len(ids)
    by_name = np.array(sorted(range(m), key=list(ids).__getitem__), dtype=np.int64)
    rank = _inverse(by_name)
    rows, columns = rank[children], rank[parents]
    down = graph.compress(columns, rows, m)
    depth = graph.longest_depths(np.bincount(rows, minlength=m), *down)
    _check(ids, by_name, depth, rows, columns)
    order = graph.breadth_first(depth, *down)
    position = _inverse(order)
    return by_name[order], *graph.compress(position[rows], position[columns], m)


def taxonomy_of(ids: Texts, labels: Texts, children: Int64Array, parents: Int64Array) -> tuple[Taxonomy, Int64Array]:
    """The taxonomy of linked concepts, and (m,) the index that the concept at each position had; see ``arranged``."""
    order, offsets, above = arranged(ids, children, parents)
    return Taxonomy(ids.take(order), labels.take(order), offsets, above), order


def _inverse(order: Int64Array) -> Int64Array:
    inverse = np.empty_like(order)
    inverse[order] = np.arange(order.size)
    return inverse


def _check(ids: Sequence[str], by_name: Int64Array, depth: Int32Array, rows: Int64Array, columns: Int64Array) -> None:
    if not depth.all():
        culprits = [ids[by_name[c]] for c in _cycle(depth, rows, columns)]
        raise CycleError("the is-a links hold a cycle", culprits=culprits)
    roots = np.flatnonzero(depth == 1)
    if roots.size > 1:
        culprits = [ids[by_name[c]] for c in roots]
        raise SeveralRootsError("these concepts have no parent, but there must be one root", culprits=culprits)


def _cycle(depth: Int32Array, rows: Int64Array, columns: Int64Array) -> list[int]:
    """One cycle: upwards from a concept in or below one, which always has a parent that is so, until one recurs."""
    offsets, parents = graph.compress(rows, columns, depth.size)
    path = [int(np.argmin(depth))]
    seen: dict[int, int] = {}
    while path[-1] not in seen:
        seen[path[-1]] = len(seen)
        above = parents[offsets[path[-1]] : offsets[path[-1] + 1]]
        path.append(int(above[depth[above] == 0][0]))
    return path[seen[path[-1]] : -1]
