"""The taxonomy τ of a semantic domain (2017: definitions 1 and 2): a rooted DAG of is-a links, as arrays."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_masker.core.arrays import BoolArray, Int32Array, Int64Array, frozen_array, ranges
from stream_masker.core.ontology.store import Arrays, Texts, owners_of
from stream_masker.errors import ParameterError, UnknownConceptError

NO_POSITION: Final = -1
"""The position of what does not exist."""


class Closure(NamedTuple):
    """The ancestors of each concept, as compressed rows.

    The ancestors of c, including c itself, are the positions ``ancestors[offsets[c]:offsets[c + 1]]``, descending, so
    that the deepest comes first. ``paths`` has the same rows: the number of links on the shortest is-a path from c up
    to each ancestor.
    """

    offsets: Int64Array
    ancestors: Int32Array
    paths: Int32Array

    def above(self, positions: NDArray[np.integer]) -> tuple[Int64Array, Int32Array]:
        """Return (e,) the index of the concept, of k, that each ancestor is of, ascending, and (e,) its position."""
        starts = self.offsets[positions]
        lengths = self.offsets[np.asarray(positions) + 1] - starts
        return np.repeat(np.arange(lengths.size), lengths), self.ancestors[ranges(starts, lengths)]


class Taxonomy:
    """τ(D(A)): m concepts under one root. Immutable.

    Concepts have positions 0 … m-1. The root is 0. Positions are ordered by depth, then by the position of the first
    parent, then by id. So the position of a parent is less than those of its children, and in a tree the descendants of
    a concept at one depth are contiguous. Equal taxonomies have equal positions and fingerprints, no matter how they
    were created.

    ids, labels: (m,) by position, decoded on access. depth: (m,) int32, the number of nodes on the **longest** path
    from the root; that of the root is 1. parents: compressed rows, ascending. closure: the ancestors of every concept,
    and the shortest paths to them. All arrays are read-only.
    """

    def __init__(self, arrays: Arrays) -> None:
        """Nothing is checked: use ``Ontology.taxonomy`` to create a taxonomy."""
        self._arrays = own = Arrays._make(frozen_array(array) for array in arrays)
        self.ids, self.labels = Texts(own.ids, own.id_offsets), Texts(own.labels, own.label_offsets)
        self._synonyms = Texts(own.synonyms, own.synonym_offsets)
        self.parent_offsets, self.parents, self.depth = own.parent_offsets, own.parents, own.depth
        self.closure = Closure(own.closure_offsets, own.ancestors, own.paths)
        self._positions: dict[str, int] = {}

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self._arrays,)

    def __len__(self) -> int:
        return len(self.ids)

    def __contains__(self, concept: object) -> bool:
        return self.find_one(concept) >= 0

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Taxonomy) and (self is other or self.fingerprint == other.fingerprint)

    def __hash__(self) -> int:
        return hash(self.fingerprint)

    def __repr__(self) -> str:
        depth = int(self.depth.max())
        return f"{type(self).__name__}(root={self.root!r}, concepts={len(self)}, depth={depth}, tree={self.is_tree})"

    @property
    def root(self) -> str:
        """The id of the root."""
        return self.ids[0]

    @property
    def is_tree(self) -> bool:
        """Whether every concept except the root has exactly one parent."""
        return self.parents.size == len(self) - 1

    @cached_property
    def leaf(self) -> BoolArray:
        """(m,) bool: whether each concept has no children."""
        leaf = np.ones(len(self), np.bool_)
        leaf[self.parents] = False
        return frozen_array(leaf)

    @cached_property
    def fingerprint(self) -> str:
        """A hash of links and ids, as 32 hexadecimal digits. Labels are not part of it."""
        digest = hashlib.blake2b(digest_size=16)
        for array in (self.parent_offsets, self.parents, self.ids.offsets, self.ids.utf8):
            digest.update(array.data)
        return digest.hexdigest()

    @cached_property
    def first_parents(self) -> Int32Array:
        """(m,) int32: the first parent of each concept, 0 for the root."""
        return frozen_array(np.append(np.int32(0), self.parents[self.parent_offsets[1:-1]]))

    def position(self, concept: str) -> int:
        """Return the position of a concept. Raises UnknownConceptError."""
        position = self.find_one(concept)
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
        positions = self.find(values if isinstance(values, list) else list(values))
        if positions.size and positions.min() < 0:
            index = int(np.argmax(positions < 0))
            message = f"value {index} of {positions.size} is not a concept of the taxonomy"
            raise UnknownConceptError(message, position=index)
        return positions

    def find_one(self, value: object) -> int:
        """Return the position of a value, -1 if it is not a concept. Concepts that were looked up are cached."""
        if not isinstance(value, str):
            return NO_POSITION
        if value not in self._positions:
            for position in self.spelled(value):
                if self.ids[position] == value:
                    self._positions[str(value)] = position
        return self._positions.get(value, NO_POSITION)

    def find(self, values: Sequence[object]) -> Int32Array:
        """Return (n,) int32: the positions of n values, -1 for those that are not concepts."""
        return np.fromiter(map(self.find_one, values), np.int32, len(values))

    def spelled(self, text: str) -> list[int]:
        """Return positions, ascending: of each concept of which the id, the label or a synonym differs from a text by
        case, dots and surrounding space at most, and seldom of another one."""
        return owners_of(text, self._arrays.checksums, self._arrays.owners)

    def named(self, name: str) -> list[int]:
        """Return the positions of the concepts that have a label or a synonym, regardless of case."""
        folded = name.strip().casefold()
        names = ((c, (self.labels[c], *self.synonyms_of(self.ids[c]))) for c in self.spelled(name))
        return [c for c, own in names if folded and folded in map(str.casefold, own)]

    def decode(self, positions: Iterable[int] | NDArray[np.integer]) -> list[str]:
        """Return the concept ids at the given positions."""
        return [*map(self.ids.__getitem__, positions.tolist() if isinstance(positions, np.ndarray) else positions)]

    def label(self, concept: str) -> str:
        """Return the label of a concept, empty if it has none. Raises UnknownConceptError."""
        return self.labels[self.position(concept)]

    def synonyms_of(self, concept: str) -> tuple[str, ...]:
        """Return the synonyms of a concept. Raises UnknownConceptError."""
        c = self.position(concept)
        start, end = self._arrays.synonym_rows[c : c + 2]
        return tuple(map(self._synonyms.__getitem__, range(start, end)))

    def depth_of(self, concept: str) -> int:
        """Return the number of nodes on the longest path from the root to a concept; that of the root is 1."""
        return int(self.depth[self.position(concept)])

    def parents_of(self, concept: str) -> tuple[str, ...]:
        """Return the direct generalisations of a concept."""
        c = self.position(concept)
        return tuple(self.decode(self.parents[self.parent_offsets[c] : self.parent_offsets[c + 1]]))

    def children_of(self, concept: str) -> tuple[str, ...]:
        """Return the direct specialisations of a concept."""
        links = np.flatnonzero(self.parents == self.position(concept))
        return tuple(self.decode(np.searchsorted(self.parent_offsets, links, side="right") - 1))

    def ancestors_of(self, concept: str) -> dict[str, int]:
        """Return the concept and all its subsumers, deepest first, with the number of links on the shortest path to
        each."""
        return {self.ids[s]: path for s, path in self._ancestors(self.position(concept)).items()}

    def below(self, positions: Int32Array) -> BoolArray:
        """Return (m,) bool: whether each concept is one of those at some positions, or a descendant of one."""
        inside = np.zeros(len(self), np.bool_)
        inside[positions] = True
        return np.asarray(np.logical_or.reduceat(inside[self.closure.ancestors], self.closure.offsets[:-1]))

    def ancestors_at(self, positions: NDArray[np.integer], depth: int) -> tuple[Int64Array, Int32Array]:
        """Return the ancestors at a depth of k concepts; those of a concept above it are itself.

        (e,) the index of the concept that each ancestor is of, ascending, and (e,) its position. In a graph a concept
        can have several.
        """
        owner, concept = self.closure.above(positions)
        at = self.depth[concept] == np.minimum(self.depth[positions], depth)[owner]
        return owner[at], concept[at]

    def lcs(self, *concepts: str) -> str:
        """Return the least common subsumer of one or more concepts (2017: equation 9): the deepest one; of several,
        that of least paths, then of smallest id. Raises like ``encode``."""
        first, *others = map(self._ancestors, self.encode(concepts).tolist())
        common = first
        for paths in others:
            common = {s: path + paths[s] for s, path in common.items() if s in paths}
        return self.ids[min(common, key=lambda s: (-int(self.depth[s]), common[s], self.ids[s]))]

    def _ancestors(self, position: int) -> dict[int, int]:
        table = self.closure
        row = slice(table.offsets[position], table.offsets[position + 1])
        return dict(zip(table.ancestors[row].tolist(), table.paths[row].tolist(), strict=True))
