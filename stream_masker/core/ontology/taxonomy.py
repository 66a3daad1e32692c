"""The taxonomy of a semantic domain (2017: definitions 1 and 2): a rooted DAG of is-a links, as arrays."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from stream_masker.core.dtypes import Int32Array, Int64Array
from stream_masker.core.ontology import graph
from stream_masker.core.ontology.arrays import frozen_array
from stream_masker.core.ontology.lookup import Lookup
from stream_masker.core.ontology.texts import Texts, encoded
from stream_masker.errors import UnknownConceptError

__all__ = ["Closure", "Derived", "Int32Array", "Int64Array", "Taxonomy", "TreeTable"]


@dataclass(frozen=True, slots=True)
class TreeTable:
    """What only a tree has: one parent each, and descendants by level as contiguous ranges of positions.

    parent: (m,) int32, -1 for the root. The descendants of s that lie k levels below it are the positions
    ``level_lo[level_offsets[s] + k]`` to ``level_hi[level_offsets[s] + k]`` (half open), k = 0 … height of s.
    """

    parent: Int32Array
    level_offsets: Int64Array
    level_lo: Int32Array
    level_hi: Int32Array


@dataclass(frozen=True, slots=True)
class Closure:
    """Ancestors of c, itself included: ``ancestors[offsets[c]:offsets[c + 1]]``, descending, so deepest first.

    paths: the shortest is-a path, in links, from c up to each of them.
    """

    offsets: Int64Array
    ancestors: Int32Array
    paths: Int32Array


@dataclass(frozen=True, slots=True)
class Derived:
    """What follows from a taxonomy's ids and links, computed before and kept in its compiled form.

    ``slots`` are those of its ``Lookup``; a tree has ``tree`` and no ``closure``, which another one has.
    """

    child_offsets: Int64Array
    children: Int32Array
    depth: Int32Array
    slots: Int32Array
    fingerprint: str
    closure: Closure | None
    tree: TreeTable | None


class Taxonomy:
    """τ(D(A)), m concepts under one root. Frozen; what is derived is computed on first use and kept.

    Concepts have positions 0 … m-1, the root 0, ordered by depth, then by their first parent's position, then by id.
    So a parent's position is less than its children's, and in a tree the descendants of a concept at one depth are
    contiguous. Equal taxonomies have equal positions and fingerprints, however they were made.

    ids, labels: (m,) by position, decoded where they are read. depth: (m,) int32, the nodes on the **longest** path
    from the root (root 1). parents and children: compressed rows, ascending. All arrays are read-only.
    """

    def __init__(
        self,
        ids: Sequence[str],
        labels: Sequence[str],
        parent_offsets: Int64Array,
        parents: Int32Array,
        *,
        derived: Derived | None = None,
    ) -> None:
        """Arrays in position order; made by ``Ontology.taxonomy``, which orders and checks them."""
        self.ids = Texts.of(ids)
        self.labels = Texts.of(labels)
        self.parent_offsets = frozen_array(parent_offsets)
        self.parents = frozen_array(parents)
        if derived is None:
            self._derive()
        else:
            self._adopt(derived)

    def _derive(self) -> None:
        m, counts = len(self.ids), np.diff(self.parent_offsets)
        rows = np.repeat(np.arange(m, dtype=np.int64), counts)
        offsets, children = graph.compress(self.parents.astype(np.int64), rows, m)
        self.child_offsets, self.children = frozen_array(offsets), frozen_array(children)
        self.depth: Int32Array = frozen_array(graph.longest_depths(counts, self.child_offsets, self.children))
        self._lookup = Lookup(self.ids)

    def _adopt(self, derived: Derived) -> None:
        self.child_offsets, self.children, self.depth = derived.child_offsets, derived.children, derived.depth
        self._lookup = Lookup(self.ids, derived.slots)
        self.fingerprint = derived.fingerprint
        if derived.closure is not None:
            self.closure = derived.closure
        if derived.tree is not None:
            self.tree = derived.tree

    @property
    def derived(self) -> Derived:
        """All that can be computed beforehand, so that opening the compiled form computes nothing."""
        return Derived(
            self.child_offsets,
            self.children,
            self.depth,
            self._lookup.slots,
            self.fingerprint,
            None if self.is_tree else self.closure,
            self.tree if self.is_tree else None,
        )

    def __len__(self) -> int:
        return len(self.ids)

    def __contains__(self, concept: object) -> bool:
        return self._lookup.find(concept) >= 0

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Taxonomy) and (self is other or self.fingerprint == other.fingerprint)

    def __hash__(self) -> int:
        return hash(self.fingerprint)

    def __repr__(self) -> str:
        return f"Taxonomy(root={self.root!r}, concepts={len(self)}, depth={int(self.depth.max())}, tree={self.is_tree})"

    @property
    def root(self) -> str:
        return self.ids[0]

    @cached_property
    def is_tree(self) -> bool:
        """Whether every concept but the root has exactly one parent."""
        return self.parents.size == len(self) - 1

    @cached_property
    def leaf(self) -> NDArray[np.bool_]:
        """(m,) bool: the concepts without children."""
        return frozen_array(np.diff(self.child_offsets) == 0)

    @cached_property
    def fingerprint(self) -> str:
        """32 hexadecimal digits over ids and links; labels do not count."""
        digest = hashlib.blake2b(digest_size=16)
        for array in (self.parent_offsets, self.parents):
            digest.update(array.tobytes())
        digest.update(encoded("\0".join(self.ids)))
        return digest.hexdigest()

    @cached_property
    def closure(self) -> Closure:
        """Every concept's ancestors and the shortest paths to them."""
        offsets, ancestors, paths = graph.closure(self.parent_offsets, self.parents)
        return Closure(frozen_array(offsets), frozen_array(ancestors), frozen_array(paths))

    @cached_property
    def tree(self) -> TreeTable:
        """The tree's tables. Only for trees (``is_tree``)."""
        parent = frozen_array(np.concatenate((np.array([-1], np.int32), self.parents)))
        offsets, lo, hi = graph.level_ranges(parent)
        return TreeTable(parent, frozen_array(offsets), frozen_array(lo), frozen_array(hi))

    def position(self, concept: str) -> int:
        """The concept's position. Raises UnknownConceptError."""
        found = self._lookup.find(concept)
        if found < 0:
            raise UnknownConceptError("no such concept in the taxonomy")
        return found

    def encode(self, values: Iterable[str]) -> Int32Array:
        """(n,) int32 positions of n concept ids. Raises UnknownConceptError with the index of the first unknown one."""
        codes = self._lookup.find_all(values if isinstance(values, list) else list(values))
        if codes.size and codes.min() < 0:
            index = int(np.argmax(codes < 0))
            raise UnknownConceptError(f"value {index} of {codes.size} is no concept of the taxonomy", position=index)
        return codes

    def find(self, values: Sequence[object]) -> Int32Array:
        """(n,) int32 positions of n values, -1 for those that are no concepts."""
        return self._lookup.find_all(values)

    def find_texts(self, values: Sequence[str]) -> Int32Array:
        """As ``find``, faster for many values. Raises TypeError for what is no text."""
        return self._lookup.find_texts(values)

    def decode(self, positions: Iterable[int] | NDArray[np.integer]) -> list[str]:
        """The concept ids at the given positions."""
        return self.ids.pick_all(positions) if isinstance(positions, np.ndarray) else self.ids.pick(positions)

    def label(self, concept: str) -> str:
        """The concept's label, empty where it has none."""
        return self.labels[self.position(concept)]

    def depth_of(self, concept: str) -> int:
        """Nodes on the longest path from the root to the concept; the root's is 1."""
        return int(self.depth[self.position(concept)])

    def parents_of(self, concept: str) -> tuple[str, ...]:
        """The concept's direct generalisations."""
        c = self.position(concept)
        return tuple(self.decode(self.parents[self.parent_offsets[c] : self.parent_offsets[c + 1]]))

    def children_of(self, concept: str) -> tuple[str, ...]:
        """The concept's direct specialisations."""
        c = self.position(concept)
        return tuple(self.decode(self.children[self.child_offsets[c] : self.child_offsets[c + 1]]))

    def ancestors_of(self, concept: str) -> dict[str, int]:
        """The concept and all its subsumers, deepest first, each with the links on the shortest is-a path up to it."""
        return {self.ids[s]: path for s, path in self._ancestors(self.position(concept)).items()}

    def path(self, concept: str, ancestor: str) -> int:
        """Links on the shortest is-a path from a concept up to its ancestor; UnknownConceptError if it is none."""
        found = self._ancestors(self.position(concept)).get(self.position(ancestor))
        if found is None:
            raise UnknownConceptError("the second concept does not subsume the first")
        return found

    def lcs(self, c1: str, c2: str) -> str:
        """The least common subsumer: the deepest; of several that of the least sum of paths; then the smallest id."""
        return self.ids[self.common_subsumer([self.position(c1), self.position(c2)])]

    def common_subsumer(self, positions: Sequence[int]) -> int:
        """The least common subsumer's position, of any number of concepts (2017: equation 9); ties as in ``lcs``."""
        common = self._ancestors(positions[0])
        for other in positions[1:]:
            paths = self._ancestors(other)
            common = {s: path + paths[s] for s, path in common.items() if s in paths}
        return min(common, key=lambda s: (-int(self.depth[s]), common[s], self.ids[s]))

    def _ancestors(self, position: int) -> dict[int, int]:
        table = self.closure
        row = slice(table.offsets[position], table.offsets[position + 1])
        return dict(zip(table.ancestors[row].tolist(), table.paths[row].tolist(), strict=True))
