"""The taxonomy τ of a semantic domain (2017: definitions 1 and 2): a rooted DAG of is-a links, as arrays.

Concepts are generalized along lines of ancestors. A line follows one parent of each concept: of its parents one level
above it, the one with the least position. In a tree it is the only one. Each concept thus has one line, with one
ancestor at every level up to the root.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray

from stream_masker.core.arrays import frozen_array
from stream_masker.core.dtypes import BoolArray, Int32Array, Int64Array
from stream_masker.core.ontology import graph
from stream_masker.core.ontology.lookup import TextLookup
from stream_masker.core.ontology.text_table import TextTable, encoded
from stream_masker.errors import ParameterError, UnknownConceptError


@dataclass(frozen=True, slots=True)
class TreeTable:
    """Arrays that only a tree has: the parent of each concept, and its descendants by level as ranges of positions.

    parent: (m,) int32, -1 for the root. The descendants of s that are k levels below it are the positions
    ``level_lo[level_offsets[s] + k]`` to ``level_hi[level_offsets[s] + k]`` (half open), k = 0 … height of s.
    """

    parent: Int32Array
    level_offsets: Int64Array
    level_lo: Int32Array
    level_hi: Int32Array


@dataclass(frozen=True, slots=True)
class Closure:
    """The ancestors of each concept, as compressed rows.

    The ancestors of c, including c itself, are the positions ``ancestors[offsets[c]:offsets[c + 1]]``, descending, so
    that the deepest comes first. ``paths`` has the same rows: the number of links on the shortest is-a path from c up
    to each ancestor.
    """

    offsets: Int64Array
    ancestors: Int32Array
    paths: Int32Array


@dataclass(frozen=True, slots=True)
class DerivedArrays:
    """The arrays that a taxonomy derives from its ids and links, and that its compiled form stores.

    slots: those of its ``TextLookup``. closure: None for a tree. tree: None unless the taxonomy is a tree.
    """

    child_offsets: Int64Array
    children: Int32Array
    depth: Int32Array
    slots: Int32Array
    fingerprint: str
    closure: Closure | None
    tree: TreeTable | None


class Taxonomy:
    """τ(D(A)): m concepts under one root. Immutable; properties are computed on first use and cached.

    Concepts have positions 0 … m-1. The root is 0. Positions are ordered by depth, then by the position of the first
    parent, then by id. So the position of a parent is less than those of its children, and in a tree the descendants of
    a concept at one depth are contiguous. Equal taxonomies have equal positions and fingerprints, no matter how they
    were created.

    root_is_value: False if no value of the data stands for the root, so that it is not found and never written.

    ids, labels: (m,) by position, decoded on access. depth: (m,) int32, the number of nodes on the **longest** path
    from the root; that of the root is 1. parents and children: compressed rows, ascending. All arrays are read-only.
    """

    def __init__(
        self,
        ids: Sequence[str],
        labels: Sequence[str],
        parent_offsets: Int64Array,
        parents: Int32Array,
        *,
        derived: DerivedArrays | None = None,
        root_is_value: bool = True,
    ) -> None:
        """Arrays in position order. They are not checked: use ``Ontology.taxonomy`` to create a taxonomy."""
        self.ids = TextTable.of(ids)
        self.labels = TextTable.of(labels)
        self.parent_offsets = frozen_array(parent_offsets)
        self.parents = frozen_array(parents)
        self.root_is_value = root_is_value
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
        self._lookup = TextLookup(self.ids)

    def _adopt(self, derived: DerivedArrays) -> None:
        self.child_offsets, self.children, self.depth = derived.child_offsets, derived.children, derived.depth
        self._lookup = TextLookup(self.ids, derived.slots)
        self.fingerprint = derived.fingerprint
        if derived.closure is not None:
            self.closure = derived.closure
        if derived.tree is not None:
            self.tree = derived.tree

    @property
    def derived(self) -> DerivedArrays:
        """The derived arrays. A taxonomy that is created with them computes nothing."""
        return DerivedArrays(
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
        """The id of the root."""
        return self.ids[0]

    @cached_property
    def id_bytes(self) -> int:
        """The number of bytes of the longest id, in UTF-8."""
        return int((self.ids.ends - self.ids.starts).max())

    @cached_property
    def is_tree(self) -> bool:
        """Whether every concept except the root has exactly one parent."""
        return self.parents.size == len(self) - 1

    @cached_property
    def leaf(self) -> NDArray[np.bool_]:
        """(m,) bool: whether each concept has no children."""
        return frozen_array(np.diff(self.child_offsets) == 0)

    @cached_property
    def fingerprint(self) -> str:
        """A hash of ids and links as 32 hexadecimal digits. Labels are not part of it."""
        digest = hashlib.blake2b(digest_size=16, person=b"" if self.root_is_value else b"values")
        for array in (self.parent_offsets, self.parents):
            digest.update(array.tobytes())
        digest.update(encoded("\0".join(self.ids)))
        return digest.hexdigest()

    @cached_property
    def closure(self) -> Closure:
        """The ancestors of every concept, and the shortest paths to them."""
        offsets, ancestors, paths = graph.closure(self.parent_offsets, self.parents)
        return Closure(frozen_array(offsets), frozen_array(ancestors), frozen_array(paths))

    @cached_property
    def tree(self) -> TreeTable:
        """The arrays of a tree. Only for trees (``is_tree``)."""
        parent = frozen_array(np.concatenate((np.array([-1], np.int32), self.parents)))
        offsets, lo, hi = graph.level_ranges(parent)
        return TreeTable(parent, frozen_array(offsets), frozen_array(lo), frozen_array(hi))

    def position(self, concept: str) -> int:
        """Return the position of a concept. Raises UnknownConceptError."""
        position = self._lookup.find(concept)
        if position < 0:
            given = f"the concept, a {type(concept).__name__} that is not shown, is not below {self.root!r}"
            raise UnknownConceptError(f"{given}: use one of {len(self):,} ids, such as {self.ids[len(self) - 1]!r}")
        return position

    def encode(self, values: Iterable[str]) -> Int32Array:
        """Return (n,) int32: the positions of n concept ids.

        Raises UnknownConceptError, with the index of the first unknown id, if the taxonomy does not hold all of them.
        """
        if isinstance(values, str):
            raise ParameterError("the concepts are one text: use a list of concept ids, such as ['I10']")
        positions = self._lookup.find_all(values if isinstance(values, list) else list(values))
        if positions.size and positions.min() < 0:
            index = int(np.argmax(positions < 0))
            message = f"value {index} of {positions.size} is not a concept of the taxonomy"
            raise UnknownConceptError(message, position=index)
        return positions

    def find(self, values: Sequence[object]) -> Int32Array:
        """Return (n,) int32: the positions of n values, -1 for those that are not concepts, or a root that is no
        value."""
        return self._values_only(self._lookup.find_all(values))

    def find_texts(self, values: Sequence[str]) -> Int32Array:
        """Like ``find``. Raises TypeError if a value is not a text."""
        return self._values_only(self._lookup.find_texts(values))

    def find_one(self, value: object) -> int:
        """Return what ``find`` does, for one value. Raises TypeError for a value that has no hash, such as a list."""
        position = self._lookup.find(value)
        return position if position > 0 or self.root_is_value else -1

    def _values_only(self, positions: Int32Array) -> Int32Array:
        return positions if self.root_is_value else np.where(positions == 0, np.int32(-1), positions)

    def is_value(self, position: int) -> bool:
        """Return whether a value of the data can stand for the concept at a position."""
        return position > 0 or self.root_is_value

    def decode(self, positions: Iterable[int] | NDArray[np.integer]) -> list[str]:
        """Return the concept ids at the given positions."""
        return self.ids.decode_array(positions) if isinstance(positions, np.ndarray) else self.ids.decode(positions)

    def label(self, concept: str) -> str:
        """Return the label of a concept, empty if it has none. Raises UnknownConceptError."""
        return self.labels[self.position(concept)]

    def depth_of(self, concept: str) -> int:
        """Return the number of nodes on the longest path from the root to a concept; that of the root is 1."""
        return int(self.depth[self.position(concept)])

    def parents_of(self, concept: str) -> tuple[str, ...]:
        """Return the direct generalisations of a concept."""
        c = self.position(concept)
        return tuple(self.decode(self.parents[self.parent_offsets[c] : self.parent_offsets[c + 1]]))

    def children_of(self, concept: str) -> tuple[str, ...]:
        """Return the direct specialisations of a concept."""
        c = self.position(concept)
        return tuple(self.decode(self.children[self.child_offsets[c] : self.child_offsets[c + 1]]))

    def ancestors_of(self, concept: str) -> dict[str, int]:
        """Return the concept and all its subsumers, deepest first, with the number of links on the shortest path to
        each."""
        return {self.ids[s]: path for s, path in self._ancestors(self.position(concept)).items()}

    def path(self, concept: str, ancestor: str) -> int:
        """Return the number of links on the shortest is-a path from a concept up to an ancestor.

        Raises UnknownConceptError if ``ancestor`` does not subsume ``concept``.
        """
        links = self._ancestors(self.position(concept)).get(self.position(ancestor))
        if links is None:
            raise UnknownConceptError("the second concept does not subsume the first")
        return links

    def lcs(self, c1: str, c2: str) -> str:
        """Return the least common subsumer: the deepest, then the one with the least sum of paths, then the smallest
        id."""
        return self.ids[self.common_subsumer([self.position(c1), self.position(c2)])]

    def common_subsumer(self, positions: Sequence[int]) -> int:
        """Return the position of the least common subsumer of one or more concepts (2017: equation 9); ties as in
        ``lcs``."""
        common = self._ancestors(positions[0])
        for other in positions[1:]:
            paths = self._ancestors(other)
            common = {s: path + paths[s] for s, path in common.items() if s in paths}
        return min(common, key=lambda s: (-int(self.depth[s]), common[s], self.ids[s]))

    def _ancestors(self, position: int) -> dict[int, int]:
        table = self.closure
        row = slice(table.offsets[position], table.offsets[position + 1])
        return dict(zip(table.ancestors[row].tolist(), table.paths[row].tolist(), strict=True))


NO_POSITION = -1
"""The position of a parent or an ancestor that does not exist."""


def line_parents(taxonomy: Taxonomy) -> Int32Array:
    """Return (m,) int32: the parent of each concept in its line of ancestors, ``NO_POSITION`` for the root."""
    if taxonomy.is_tree:
        return taxonomy.tree.parent
    children = np.repeat(np.arange(len(taxonomy)), np.diff(taxonomy.parent_offsets))
    above = taxonomy.depth[taxonomy.parents] == taxonomy.depth[children] - 1
    linked, first = np.unique(children[above], return_index=True)
    parents = np.full(len(taxonomy), NO_POSITION, np.int32)
    parents[linked] = taxonomy.parents[above][first]
    return parents


@lru_cache(maxsize=16)
def to_level(taxonomy: Taxonomy, depth: int) -> Int32Array:
    """Return (m,) int32: the ancestor of each concept at a depth from 1 on; a concept above it is its own."""
    return nearest(taxonomy, taxonomy.depth <= depth)


def nearest(taxonomy: Taxonomy, eligible: BoolArray) -> Int32Array:
    """Return (m,) int32: each concept itself, or the nearest of its ancestors, that is chosen; ``NO_POSITION`` if
    there is none. ``eligible``: (m,) bool."""
    parents, ancestors = line_parents(taxonomy), np.full(len(taxonomy), NO_POSITION, np.int32)
    for level in levels(taxonomy):
        above = parents[level]
        inherited = np.where(above == NO_POSITION, NO_POSITION, ancestors[above])
        ancestors[level] = np.where(eligible[level], level, inherited)
    return ancestors


def levels(taxonomy: Taxonomy) -> list[Int64Array]:
    """Return the concepts of each depth, the root first; positions are ordered by depth."""
    starts = np.searchsorted(taxonomy.depth, np.arange(2, int(taxonomy.depth[-1]) + 1))
    return np.split(np.arange(len(taxonomy)), starts)
