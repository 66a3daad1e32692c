"""The taxonomy τ of a semantic domain (2017: definitions 1 and 2): a rooted DAG of is-a links, as arrays."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from functools import cached_property
from itertools import chain
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_masker.core.arrays import frozen_array, offsets_from_lengths, ranges
from stream_masker.core.dtypes import BoolArray, Int32Array, Int64Array
from stream_masker.core.ontology.store import TextIndex, Texts
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
    """τ(D(A)): m concepts under one root. Immutable; properties are computed on first use and cached.

    Concepts have positions 0 … m-1. The root is 0. Positions are ordered by depth, then by the position of the first
    parent, then by id. So the position of a parent is less than those of its children, and in a tree the descendants of
    a concept at one depth are contiguous. Equal taxonomies have equal positions and fingerprints, no matter how they
    were created.

    ids, labels: (m,) by position, decoded on access; the synonyms of concept c are
    ``synonyms[synonym_offsets[c]:synonym_offsets[c + 1]]``. depth: (m,) int32, the number of nodes on the **longest**
    path from the root; that of the root is 1. parents and children: compressed rows, ascending. All arrays are
    read-only.
    """

    def __init__(self, texts: Iterable[Texts], synonym_offsets: Int64Array, links: Sequence[NDArray[Any]]) -> None:
        """In position order. ``texts``: ids, labels and synonyms. ``links``: offsets and positions of the parents, and
        depths. Nothing is checked: use ``Ontology.taxonomy`` to create a taxonomy."""
        self.ids, self.labels, self.synonyms = self.texts = tuple(texts)
        self.synonym_offsets: Int64Array = frozen_array(synonym_offsets)
        self.parent_offsets: Int64Array = frozen_array(links[0])
        self.parents: Int32Array = frozen_array(links[1])
        self.depth: Int32Array = frozen_array(links[2])
        rows = np.repeat(np.arange(len(self), dtype=np.int64), np.diff(self.parent_offsets))
        child_offsets, children = compress(self.parents.astype(np.int64), rows, len(self))
        self.child_offsets, self.children = frozen_array(child_offsets), frozen_array(children)
        self._positions: dict[str, int] = {}

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

    @cached_property
    def codes(self) -> TextIndex:
        """Finds positions by folded ids (``fold_code``)."""
        return TextIndex.of(list(map(fold_code, self.ids)), np.arange(len(self)))

    @cached_property
    def names(self) -> TextIndex:
        """Finds positions by case-folded labels and synonyms."""
        positions = np.arange(len(self))
        names = [*map(str.casefold, chain(self.labels, self.synonyms))]
        owners = np.concatenate((positions, np.repeat(positions, np.diff(self.synonym_offsets))))
        kept = [k for k, name in enumerate(names) if name]
        return TextIndex.of([names[k] for k in kept], owners[kept])

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
        offsets, ancestors, paths = _closure(self.parent_offsets, self.parents, self.depth)
        return Closure(frozen_array(offsets), frozen_array(ancestors), frozen_array(paths))

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
            for position in self.codes.candidates(fold_code(value)):
                if self.ids[position] == value:
                    self._positions[str(value)] = position
        return self._positions.get(value, NO_POSITION)

    def find(self, values: Sequence[object]) -> Int32Array:
        """Return (n,) int32: the positions of n values, -1 for those that are not concepts."""
        return np.fromiter(map(self.find_one, values), np.int32, len(values))

    def decode(self, positions: Iterable[int] | NDArray[np.integer]) -> list[str]:
        """Return the concept ids at the given positions."""
        return self.ids.decode(positions.tolist() if isinstance(positions, np.ndarray) else positions)

    def label(self, concept: str) -> str:
        """Return the label of a concept, empty if it has none. Raises UnknownConceptError."""
        return self.labels[self.position(concept)]

    def synonyms_of(self, concept: str) -> tuple[str, ...]:
        """Return the synonyms of a concept. Raises UnknownConceptError."""
        return self.synonyms_at(self.position(concept))

    def named(self, name: str) -> list[int]:
        """Return the positions of the concepts that have a label or a synonym, regardless of case."""
        folded = name.strip().casefold()
        owners = sorted(set(self.names.candidates(folded)))
        return [c for c in owners if folded in map(str.casefold, (self.labels[c], *self.synonyms_at(c)))]

    def synonyms_at(self, position: int) -> tuple[str, ...]:
        """Return the synonyms of the concept at a position."""
        return self.synonyms[self.synonym_offsets[position] : self.synonym_offsets[position + 1]]

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
        owner, concept = self.closure.above(positions)
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


def fold_code(code: str) -> str:
    """Return a code in capitals and without dots, so that all spellings of a code become equal."""
    return code.upper().replace(".", "")


def compress(rows: Int64Array, columns: Int64Array, size: int) -> tuple[Int64Array, Int32Array]:
    """Compressed rows of the links (rows[k], columns[k]): offsets (size + 1,), and columns, ascending in each row."""
    links = np.sort(rows * size + columns)
    return offsets_from_lengths(np.bincount(rows, minlength=size)), (links % size).astype(np.int32)


def ordered(children: Int64Array, parents: Int64Array, size: int) -> list[Int64Array]:
    """Order concepts by depth, then by the place of the first parent in this order, then by index.

    ``children[k]`` is-a ``parents[k]``. Return the concepts of each depth in turn; those in or below a cycle are
    missing. A concept is as deep as the last of its parents is early (Kahn's algorithm, a level at a time).
    """
    offsets, below = compress(parents, children, size)
    waiting = np.bincount(children, minlength=size)
    first = np.full(size, size)
    level, levels, placed = np.flatnonzero(waiting == 0), [], 0
    while level.size:
        levels.append(level)
        lengths = offsets[level + 1] - offsets[level]
        reached = below[ranges(offsets[level], lengths)]
        np.minimum.at(first, reached, np.repeat(np.arange(placed, placed + level.size), lengths))
        np.subtract.at(waiting, reached, 1)
        placed += level.size
        ready = np.unique(reached[waiting[reached] == 0])
        level = ready[np.argsort(first[ready], kind="stable")]
    return levels


def _closure(
    parent_offsets: Int64Array, parents: Int32Array, depth: Int32Array
) -> tuple[Int64Array, Int32Array, Int32Array]:
    """Return the ancestors of every concept, including itself: offsets (m + 1,), positions (descending), shortest
    paths.

    The ancestors of a concept are itself, at 0 links, and the ancestors of its parents, one link farther. ``depth``:
    (m,) int32, ascending; that of every parent is smaller.
    """
    m, span = depth.size, int(depth[-1]) + 1
    offsets, ancestors, paths = np.zeros(1, np.int64), np.empty(0, np.int32), np.empty(0, np.int32)
    for level in np.split(np.arange(m), np.flatnonzero(np.diff(depth)) + 1):
        counts = np.diff(parent_offsets[level[0] : level[-1] + 2])
        above = parents[parent_offsets[level[0]] : parent_offsets[level[-1] + 1]]
        lengths = offsets[above + 1] - offsets[above]
        inherited = ranges(offsets[above], lengths)
        owners = np.concatenate((level, np.repeat(np.repeat(level, counts), lengths))) - level[0]
        reached = np.concatenate((level, ancestors[inherited]))
        links = np.concatenate((np.zeros(level.size, np.int64), paths[inherited] + 1))
        rows, shortest = np.divmod(np.sort((owners * m + (m - 1 - reached)) * span + links), span)
        is_first = np.diff(rows, prepend=-1) > 0
        owners, reached = np.divmod(rows[is_first], m)
        offsets = np.concatenate((offsets, offsets[-1] + np.cumsum(np.bincount(owners))))
        ancestors = np.concatenate((ancestors, (m - 1 - reached).astype(np.int32)))
        paths = np.concatenate((paths, shortest[is_first].astype(np.int32)))
    return offsets, ancestors, paths
