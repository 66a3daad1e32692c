"""Taxonomies τ of semantic domains (2017: definitions 1 and 2), as arrays, and the ontologies they are taken from."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, SupportsIndex

import numpy as np
from numpy.typing import NDArray

from stream_masker.core.arrays import BoolArray, Int32Array, Int64Array, UInt8Array, frozen_array, ranges
from stream_masker.core.ontology.draft import Draft, arrays_of, reading
from stream_masker.core.ontology.formats import find_source
from stream_masker.core.ontology.store import Arrays, owners_of, stored
from stream_masker.errors import ParameterError, UnknownConceptError

if TYPE_CHECKING:
    import networkx as nx

UNKNOWN: Final = -2
"""The position of a value that has no concept."""


@dataclass(frozen=True, slots=True)
class Texts:
    """n texts, decoded on access: text k is the UTF-8 ``utf8[starts[k]:ends[k]]``.

    utf8: (b,) uint8; starts, ends: (n,) int64.
    """

    utf8: UInt8Array
    starts: Int64Array
    ends: Int64Array

    def __len__(self) -> int:
        return self.starts.size

    def __getitem__(self, index: SupportsIndex) -> str:
        return str(self.utf8.data[self.starts[index] : self.ends[index]], "utf-8", "surrogatepass")

    def __iter__(self) -> Iterator[str]:
        return map(self.__getitem__, range(len(self)))


Sequence.register(Texts)


class Closure(NamedTuple):
    """The ancestors of each concept, as compressed rows.

    The ancestors of c, including c itself, are the positions ``ancestors[offsets[c]:offsets[c + 1]]``, descending, so
    that the deepest comes first. ``paths`` has the same rows: the number of links on the shortest is-a path from c up
    to each ancestor.
    """

    offsets: Int64Array
    ancestors: Int32Array
    paths: Int32Array

    def above(self, positions: NDArray[np.integer]) -> tuple[Int64Array, Int32Array, Int32Array]:
        """Return three arrays (e,): the index of the concept, of k, that each ancestor is of, ascending; the position
        of the ancestor; and the path to it."""
        starts = self.offsets[positions]
        lengths = self.offsets[np.asarray(positions) + 1] - starts
        entries = ranges(starts, lengths)
        return np.repeat(np.arange(lengths.size), lengths), self.ancestors[entries], self.paths[entries]


class Taxonomy:
    """τ(D(A)): m concepts under one root, a DAG of is-a links. Immutable.

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
        self.ids = Texts(own.ids, own.id_offsets[:-1], own.id_offsets[1:])
        self._names = Texts(own.names, own.name_offsets[:-1], own.name_offsets[1:])
        first, end = own.name_rows[:-1], own.name_rows[1:]
        self.labels = Texts(own.names, own.name_offsets[first], own.name_offsets[np.minimum(first + 1, end)])
        self.parent_offsets, self.parents, self.depth = own.parent_offsets, own.parents, own.depth
        self.closure = Closure(own.closure_offsets, own.ancestors, own.paths)
        self._positions: dict[str, int] = {}

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self._arrays,)

    def __len__(self) -> int:
        return len(self.ids)

    def __contains__(self, concept: object) -> bool:
        return self.find(concept) >= 0

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
        for array in (self.parent_offsets, self.parents, self._arrays.id_offsets, self._arrays.ids):
            digest.update(array.data)
        return digest.hexdigest()

    def position(self, concept: str) -> int:
        """Return the position of a concept. Raises UnknownConceptError."""
        position = self.find(concept)
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
        positions = np.fromiter(map(self.find, values), np.int32)
        if positions.size and positions.min() < 0:
            index = int(np.argmax(positions < 0))
            message = f"value {index} of {positions.size} is not a concept of the taxonomy"
            raise UnknownConceptError(message, position=index)
        return positions

    def find(self, value: object) -> int:
        """Return the position of a value, ``UNKNOWN`` if it is no concept. Concepts that were looked up are cached."""
        if not isinstance(value, str):
            return UNKNOWN
        if value not in self._positions:
            for position in self.spelled(value):
                if self.ids[position] == value:
                    self._positions[str(value)] = position
        return self._positions.get(value, UNKNOWN)

    def spelled(self, text: str) -> list[int]:
        """Return positions, ascending: of each concept of which the id, the label or a synonym differs from a text by
        case, dots and surrounding space at most, and seldom of another one."""
        return owners_of(text, self._arrays.checksums, self._arrays.owners)

    def named(self, name: str) -> list[int]:
        """Return the positions of the concepts that have a label or a synonym, regardless of case."""
        folded = name.strip().casefold()
        return [c for c in self.spelled(name) if folded and folded in map(str.casefold, self.names_of(self.ids[c]))]

    def decode(self, positions: Iterable[int] | NDArray[np.integer]) -> list[str]:
        """Return the concept ids at the given positions."""
        return [*map(self.ids.__getitem__, positions.tolist() if isinstance(positions, np.ndarray) else positions)]

    def label(self, concept: str) -> str:
        """Return the label of a concept, empty if it has none. Raises UnknownConceptError."""
        return self.labels[self.position(concept)]

    def names_of(self, concept: str) -> tuple[str, ...]:
        """Return the label of a concept, if it has one, and then its synonyms. Raises UnknownConceptError."""
        c = self.position(concept)
        start, end = self._arrays.name_rows[c : c + 2]
        return tuple(map(self._names.__getitem__, range(start, end)))

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
        c, table = self.position(concept), self.closure
        row = slice(table.offsets[c], table.offsets[c + 1])
        return dict(zip(self.decode(table.ancestors[row]), table.paths[row].tolist(), strict=True))

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
        owner, concept, _ = self.closure.above(positions)
        at = self.depth[concept] == np.minimum(self.depth[positions], depth)[owner]
        return owner[at], concept[at]

    def lcs(self, *concepts: str) -> str:
        """Return the least common subsumer of one or more concepts (2017: equation 9): the deepest one; of several,
        that of least paths, then of smallest id. Raises like ``encode``."""
        _, above, paths = self.closure.above(self.encode(concepts))
        total = np.bincount(above, paths)
        common = np.flatnonzero(np.bincount(above) == len(concepts))
        return self.ids[min(common, key=lambda s: (-self.depth[s], total[s], self.ids[s]))]


class Ontology(Taxonomy):
    """The taxonomy of all concepts of a source, with their labels and synonyms. A concept may have several parents.

    Create one with ``load``, ``from_edges`` or ``from_networkx``.
    """

    def __init__(self, arrays: Arrays) -> None:
        super().__init__(arrays)
        self._taxonomies: dict[str, Taxonomy] = {self.root: self}

    @classmethod
    def load(cls, source: str | Path) -> Ontology:
        """Load an ontology by name (``icd10cm``), from a file or from a folder.

        Supported files: edge lists (``.csv``, ``.tsv``), OBO (``.obo``), OBO Graphs and FHIR CodeSystem
        (``.json``), ClaML (``.xml``, ``.claml``) and OWL in RDF/XML (``.owl``), each also gzipped; and SNOMED CT RF2
        releases, given as a folder or a ``.zip``. A source is parsed once: the result is kept as arrays in the cache
        folder, from where later calls map them.

        Raises OntologyError, whose message says where the problem is and names the concepts or files.
        """
        with reading(source):
            key, parse = find_source(source)
            return cls(stored(key, lambda: arrays_of(parse())))

    @classmethod
    def from_edges(
        cls,
        edges: Iterable[tuple[str, str]],
        labels: Mapping[str, str] | None = None,
        synonyms: Mapping[str, Sequence[str]] | None = None,
    ) -> Ontology:
        """Build an ontology from (child, parent) links. The concept without a parent is the root.

        A root is added above several of them, as by ``load``. ``labels``, ``synonyms``: by concept id. Raises
        ParameterError for a link that is not a pair of texts, and OntologyError for no link or a cycle.
        """
        draft = Draft()
        for index, link in enumerate(edges):
            match link:
                case (str(child), str(parent)):
                    draft.add(parent)
                    draft.add(child, [parent])
                case _:
                    raise ParameterError(f"edges[{index}]={link!r} is not allowed: use (child, parent), both texts")
        for concept in draft.parents:
            draft.add(concept, [], [(labels or {}).get(concept, ""), *(synonyms or {}).get(concept, ())])
        return cls(arrays_of(draft))

    @classmethod
    def from_networkx(cls, network: nx.DiGraph[str]) -> Ontology:
        """Build an ontology from a directed graph with child → parent edges, and node attributes ``label`` and
        ``synonyms``, if there are any. Raises OntologyError like ``from_edges``."""
        draft = Draft()
        for concept, facts in network.nodes.items():
            names = [facts.get("label", ""), *facts.get("synonyms", ())]
            draft.add(concept, network.successors(concept), names)
        return cls(arrays_of(draft))

    def to_networkx(self) -> nx.DiGraph[str]:
        """Return the hierarchy as ``from_networkx`` reads it."""
        import networkx as nx

        network: nx.DiGraph[str] = nx.DiGraph()
        for concept, label in zip(self.ids, self.labels, strict=True):
            network.add_node(concept, label=label, synonyms=self.names_of(concept)[1:])
        network.add_edges_from((concept, parent) for concept in self.ids for parent in self.parents_of(concept))
        return network

    def taxonomy(self, domain: Iterable[str] | None = None, *, root: str | None = None) -> Taxonomy:
        """Return τ: a concept and all its descendants.

        The concept is ``root``, or the least common subsumer of the concepts in ``domain`` (2017: equation 10), or the
        root of the ontology if neither is given. Depths count from the root of the taxonomy. Raises ParameterError if
        both are given or the domain is empty, and UnknownConceptError for a concept that the ontology does not contain.
        """
        if root is not None and domain is not None:
            raise ParameterError("give root or domain, not both")
        if domain is not None:
            concepts = self.decode(self.encode(domain))
            if not concepts:
                raise ParameterError("domain is empty: use at least one concept id")
            root = self.lcs(*concepts)
        root = self.root if root is None else root
        if root not in self:
            few = f"one of {len(self):,} ids, such as {self.ids[-1]!r}"
            raise UnknownConceptError(f"root={root!r} is not a concept of the ontology: use {few}")
        if root not in self._taxonomies:
            self._taxonomies[root] = self._below(root)
        return self._taxonomies[root]

    def _below(self, root: str) -> Ontology:
        """Return a concept and its descendants, with the links between them."""
        positions = np.flatnonzero(self.below(self.encode([root])))
        draft, inside = Draft(), set(concepts := self.decode(positions))
        for concept in concepts:
            parents = [parent for parent in self.parents_of(concept) if parent in inside]
            draft.add(concept, parents, self.names_of(concept))
        return type(self)(arrays_of(draft))
