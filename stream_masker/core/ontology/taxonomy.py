"""The taxonomy τ of a semantic domain (2017: definitions 1 and 2): a rooted DAG of is-a links, as arrays."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_masker.core.arrays import frozen_array, ranges
from stream_masker.core.dtypes import BoolArray, Int32Array, Int64Array
from stream_masker.core.ontology import graph
from stream_masker.core.ontology.texts import TextIndex, Texts
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


class Taxonomy:
    """τ(D(A)): m concepts under one root. Immutable; properties are computed on first use and cached.

    Concepts have positions 0 … m-1. The root is 0. Positions are ordered by depth, then by the position of the first
    parent, then by id. So the position of a parent is less than those of its children, and in a tree the descendants of
    a concept at one depth are contiguous. Equal taxonomies have equal positions and fingerprints, no matter how they
    were created.

    ids, labels: (m,) by position, decoded on access. depth: (m,) int32, the number of nodes on the **longest** path
    from the root; that of the root is 1. parents and children: compressed rows, ascending. All arrays are read-only.
    """

    def __init__(
        self,
        ids: Iterable[str],
        labels: Iterable[str],
        parent_offsets: Int64Array,
        parents: Int32Array,
        depth: Int32Array,
    ) -> None:
        """Arrays in position order. They are not checked: use ``Ontology.taxonomy`` to create a taxonomy."""
        self.ids, self.labels = Texts.of(ids), Texts.of(labels)
        self.parent_offsets, self.parents = frozen_array(parent_offsets), frozen_array(parents)
        self.depth: Int32Array = frozen_array(depth)
        rows = np.repeat(np.arange(len(self.ids), dtype=np.int64), np.diff(parent_offsets))
        child_offsets, children = graph.compress(self.parents.astype(np.int64), rows, len(self.ids))
        self.child_offsets, self.children = frozen_array(child_offsets), frozen_array(children)
        self._positions = _Positions(self)

    def __len__(self) -> int:
        return len(self.ids)

    def __contains__(self, concept: object) -> bool:
        return self.find_one(concept) >= 0

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
    def codes(self) -> TextIndex:
        """Finds positions by folded ids (``fold_code``)."""
        return TextIndex.of(list(map(fold_code, self.ids)), np.arange(len(self)))

    @cached_property
    def is_tree(self) -> bool:
        """Whether every concept except the root has exactly one parent."""
        return self.parents.size == len(self) - 1

    @cached_property
    def leaf(self) -> BoolArray:
        """(m,) bool: whether each concept has no children."""
        return frozen_array(np.diff(self.child_offsets) == 0)

    @cached_property
    def fingerprint(self) -> str:
        """A hash of links and ids, with zero bytes between ids, as 32 hexadecimal digits. Labels are not part of it."""
        digest = hashlib.blake2b(digest_size=16)
        for array in (self.parent_offsets, self.parents):
            digest.update(array.tobytes())
        digest.update(np.insert(self.ids.utf8, self.ids.offsets[1:-1], 0).tobytes())
        return digest.hexdigest()

    @cached_property
    def closure(self) -> Closure:
        """The ancestors of every concept, and the shortest paths to them."""
        offsets, ancestors, paths = graph.closure(self.parent_offsets, self.parents, self.depth)
        return Closure(frozen_array(offsets), frozen_array(ancestors), frozen_array(paths))

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
        """Return the position of a value, -1 if it is not a concept."""
        return self._positions[value] if isinstance(value, str) else NO_POSITION

    def find(self, values: Sequence[object]) -> Int32Array:
        """Return (n,) int32: the positions of n values, -1 for those that are not concepts."""
        return np.fromiter(map(self.find_one, values), np.int32, len(values))

    def decode(self, positions: Iterable[int] | NDArray[np.integer]) -> list[str]:
        """Return the concept ids at the given positions."""
        return self.ids.decode(positions.tolist() if isinstance(positions, np.ndarray) else positions)

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
        starts, offsets = self.closure.offsets[positions], self.closure.offsets
        lengths = offsets[np.asarray(positions) + 1] - starts
        owner, concept = np.repeat(np.arange(lengths.size), lengths), self.closure.ancestors[ranges(starts, lengths)]
        at = self.depth[concept] == np.minimum(self.depth[positions], depth)[owner]
        return owner[at], concept[at]

    def lcs(self, c1: str, c2: str) -> str:
        """Return the least common subsumer: the deepest one; of several, that of least paths, then of smallest id."""
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


class _Positions(dict[str, int]):
    """Positions of the ids that were looked up; of any other text, -1. It holds at most the ids of the taxonomy."""

    def __init__(self, taxonomy: Taxonomy) -> None:
        super().__init__()
        self._taxonomy = taxonomy

    def __missing__(self, value: str) -> int:
        ids = self._taxonomy.ids
        for position in self._taxonomy.codes.candidates(fold_code(value)):
            if ids[position] == value:
                self[str(value)] = position
                return position
        return NO_POSITION


def fold_code(code: str) -> str:
    """Return a code in capitals and without dots, so that all spellings of a code become equal."""
    return code.upper().replace(".", "")
