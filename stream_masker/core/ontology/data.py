"""A checked ontology as plain data: its taxonomy, synonyms and name indexes."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np

from stream_masker.core.arrays import offsets_from_lengths, ranges
from stream_masker.core.dtypes import Int32Array, Int64Array
from stream_masker.core.ontology import graph
from stream_masker.core.ontology.draft import IndexedDraft
from stream_masker.core.ontology.names import NameIndexes, Synonyms
from stream_masker.core.ontology.taxonomy import Taxonomy
from stream_masker.core.ontology.text_table import TextTable
from stream_masker.errors import CycleError, SeveralRootsError


class OrderedLinks(NamedTuple):
    """The links of m concepts in taxonomy order.

    order: (m,) int64, the index of the concept at each position. The positions of the parents of the concept at
    position c are ``parents[parent_offsets[c]:parent_offsets[c + 1]]``, ascending.
    """

    order: Int64Array
    parent_offsets: Int64Array
    parents: Int32Array


def order_links(ids: Sequence[str], children: Int64Array, parents: Int64Array) -> OrderedLinks:
    """Order concepts by depth, then by the position of their first parent, then by id.

    ``children[k]`` is-a ``parents[k]``; both are indices of ``ids``, and no link occurs twice. Raises CycleError,
    SeveralRootsError.
    """
    m = len(ids)
    by_id = np.array(sorted(range(m), key=list(ids).__getitem__), dtype=np.int64)
    rank = _inverse(by_id)
    rows, columns = rank[children], rank[parents]
    child_offsets, by_parent = graph.compress(columns, rows, m)
    depth = graph.longest_depths(np.bincount(rows, minlength=m), child_offsets, by_parent)
    _check(ids, by_id, depth, rows, columns)
    order = graph.breadth_first(depth, child_offsets, by_parent)
    position = _inverse(order)
    return OrderedLinks(by_id[order], *graph.compress(position[rows], position[columns], m))


def build_taxonomy(
    ids: TextTable, labels: TextTable, children: Int64Array, parents: Int64Array
) -> tuple[Taxonomy, Int64Array]:
    """Return the taxonomy of linked concepts, and (m,) int64 the index of the concept at each position.

    Arguments and errors are those of ``order_links``; ``labels``: (m,), by index.
    """
    ordered = order_links(ids, children, parents)
    order = ordered.order
    return Taxonomy(ids.take(order), labels.take(order), ordered.parent_offsets, ordered.parents), order


def _inverse(permutation: Int64Array) -> Int64Array:
    inverse = np.empty_like(permutation)
    inverse[permutation] = np.arange(permutation.size)
    return inverse


def _check(ids: Sequence[str], by_id: Int64Array, depth: Int32Array, rows: Int64Array, columns: Int64Array) -> None:
    if not depth.all():
        culprits = [ids[by_id[c]] for c in _cycle(depth, rows, columns)]
        raise CycleError("the is-a links form a cycle", culprits=culprits)
    roots = np.flatnonzero(depth == 1)
    if roots.size > 1:
        culprits = [ids[by_id[c]] for c in roots]
        raise SeveralRootsError("these concepts have no parent, but only the root may have none", culprits=culprits)


def _cycle(depth: Int32Array, rows: Int64Array, columns: Int64Array) -> list[int]:
    """Return the ranks of the concepts of one cycle.

    ``longest_depths`` leaves the depth 0 for concepts in or below a cycle. Each of them has a parent of depth 0, so
    following such parents upwards reaches some concept a second time.
    """
    offsets, parents = graph.compress(rows, columns, depth.size)
    path = [int(np.argmin(depth))]
    first_visit: dict[int, int] = {}
    while path[-1] not in first_visit:
        first_visit[path[-1]] = len(first_visit)
        above = parents[offsets[path[-1]] : offsets[path[-1] + 1]]
        path.append(int(above[depth[above] == 0][0]))
    return path[first_visit[path[-1]] : -1]


class OntologyData:
    """The whole hierarchy as a taxonomy, the synonyms of its concepts, and indexes over codes and names. Immutable."""

    def __init__(self, taxonomy: Taxonomy, synonyms: Synonyms, indexes: NameIndexes | None = None) -> None:
        """``indexes``: those of the taxonomy and the synonyms; computed on first use if None."""
        self.taxonomy = taxonomy
        self.synonyms = synonyms
        if indexes is not None:
            self.indexes = indexes

    @classmethod
    def from_draft(cls, draft: IndexedDraft) -> OntologyData:
        """Check and order the concepts of a draft. Raises CycleError, SeveralRootsError."""
        taxonomy, order = build_taxonomy(draft.ids, draft.labels, draft.children, draft.parents)
        lengths = np.diff(draft.synonym_offsets)[order]
        names = draft.synonyms.take(ranges(draft.synonym_offsets[order], lengths))
        return cls(taxonomy, Synonyms(taxonomy, offsets_from_lengths(lengths), names))

    @cached_property
    def indexes(self) -> NameIndexes:
        """Indexes that find concepts by their codes, labels and synonyms."""
        return NameIndexes.of(self.taxonomy, self.synonyms)
