"""Ontologies: concepts, is-a links, labels and synonyms, checked to be one rooted acyclic hierarchy."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path

import networkx as nx
import numpy as np

from stream_masker.core.ontology import graph
from stream_masker.core.ontology.taxonomy import Int32, Int64, Taxonomy
from stream_masker.errors import (
    CycleError,
    DuplicateConceptError,
    EmptyOntologyError,
    OntologyError,
    ParameterError,
    SeveralRootsError,
    UnknownParentError,
)

NO_SYNONYMS: Mapping[str, Sequence[str]] = {}


class Ontology:
    """An immutable set of concepts under one root, linked by is-a; a concept may have several parents.

    Made by ``from_edges``, ``from_parents`` or ``load``.
    """

    def __init__(self, taxonomy: Taxonomy, synonyms: Mapping[str, Sequence[str]] = NO_SYNONYMS) -> None:
        """The whole hierarchy as a taxonomy, and other names of its concepts."""
        self._taxonomy = taxonomy
        self.synonyms = {concept: tuple(names) for concept, names in synonyms.items() if names and concept in taxonomy}

    @classmethod
    def load(cls, source: str | Path) -> Ontology:
        """Loads an ontology by name (``icd10cm``) or from a file: CSV, TSV or OBO, each also gzipped.

        Raises OntologyError (or the subclass that says what is wrong with the links).
        """
        from stream_masker.core.ontology.sources import load

        return load(source)

    @classmethod
    def from_edges(
        cls,
        edges: Iterable[tuple[str, str]],
        labels: Mapping[str, str] | None = None,
        synonyms: Mapping[str, Sequence[str]] | None = None,
    ) -> Ontology:
        """From (child, parent) links. The one concept that is nobody's child is the root.

        Raises EmptyOntologyError, DuplicateConceptError (a link given twice), CycleError, SeveralRootsError.
        """
        parents: dict[str, list[str]] = {}
        for child, parent in edges:
            parents.setdefault(parent, [])
            parents.setdefault(child, []).append(parent)
        return cls.from_parents(parents, labels, synonyms)

    @classmethod
    def from_parents(
        cls,
        parents: Mapping[str, Sequence[str]],
        labels: Mapping[str, str] | None = None,
        synonyms: Mapping[str, Sequence[str]] | None = None,
    ) -> Ontology:
        """From every concept's parents; the root has none. Every parent must be a concept itself.

        Raises like ``from_edges``, and UnknownParentError.
        """
        _check_links(parents)
        ids, offsets, indices = _order(parents)
        names = labels or {}
        return cls(Taxonomy(ids, [names.get(i, "") for i in ids], offsets, indices), synonyms or NO_SYNONYMS)

    @property
    def root(self) -> str:
        return self._taxonomy.root

    @property
    def concepts(self) -> tuple[str, ...]:
        """Every concept id, parents before children."""
        return self._taxonomy.ids

    def __len__(self) -> int:
        return len(self._taxonomy)

    def __contains__(self, concept: object) -> bool:
        return concept in self._taxonomy

    def __repr__(self) -> str:
        return f"Ontology(root={self.root!r}, concepts={len(self)})"

    def label(self, concept: str) -> str:
        """The concept's preferred label, empty where it has none. Raises UnknownConceptError."""
        return self._taxonomy.label(concept)

    def taxonomy(self, domain: Iterable[str] | None = None, *, root: str | None = None) -> Taxonomy:
        """τ: every concept at or below ``root``, or below the least common subsumer of ``domain`` (2017: equation 10).

        With neither, the whole ontology. Depths count from the taxonomy's own root. Raises ParameterError for both or
        an empty domain, UnknownConceptError for a concept that is not there.
        """
        if root is not None and domain is not None:
            raise ParameterError("give root or domain, not both")
        if domain is not None:
            values = list(self._taxonomy.encode(domain))
            if not values:
                raise ParameterError("the domain of a taxonomy must hold at least one concept")
            return self._below(self._taxonomy.common_subsumer(values))
        return self._below(0 if root is None else self._taxonomy.position(root))

    def to_networkx(self) -> nx.DiGraph[str]:
        """The hierarchy as a directed graph, child → parent, labels as node attributes."""
        links: nx.DiGraph[str] = nx.DiGraph()
        tau = self._taxonomy
        links.add_nodes_from((c, {"label": label}) for c, label in zip(tau.ids, tau.labels, strict=True))
        links.add_edges_from((c, p) for c in tau.ids for p in tau.parents_of(c))
        return links

    @cached_property
    def _cuts(self) -> dict[int, Taxonomy]:
        return {0: self._taxonomy}

    def _below(self, position: int) -> Taxonomy:
        if position not in self._cuts:
            self._cuts[position] = self._cut(position)
        return self._cuts[position]

    def _cut(self, position: int) -> Taxonomy:
        tau = self._taxonomy
        below = graph.descendants(position, tau.child_offsets, tau.children)
        kept = np.flatnonzero(below)
        parents = {
            tau.ids[c]: [p for p in tau.parents_of(tau.ids[c]) if below[tau.position(p)]] for c in kept if c != position
        }
        parents[tau.ids[position]] = []
        ids, offsets, indices = _order(parents)
        return Taxonomy(ids, [tau.label(i) for i in ids], offsets, indices)


def _check_links(parents: Mapping[str, Sequence[str]]) -> None:
    if not parents:
        raise EmptyOntologyError("the ontology holds no concept")
    if "" in parents:
        raise OntologyError("a concept has an empty id")
    twice = [c for c, above in parents.items() if len(set(above)) < len(above)]
    if twice:
        raise DuplicateConceptError("these concepts have the same parent twice", culprits=twice)
    unknown = sorted({p for above in parents.values() for p in above if p not in parents})
    if unknown:
        raise UnknownParentError("these parents are no concepts", culprits=unknown)


def _order(parents: Mapping[str, Sequence[str]]) -> tuple[list[str], Int64, Int32]:
    """Ids in position order, and the parents' compressed rows in it."""
    given = list(parents)
    depth = _depths(given, parents)
    roots = [c for c in given if depth[c] == 1]
    if len(roots) > 1:
        raise SeveralRootsError("these concepts have no parent, but there must be one root", culprits=sorted(roots))
    levels: list[list[str]] = [[] for _ in range(max(depth.values()) + 1)]
    for concept in given:
        levels[depth[concept]].append(concept)
    position: dict[str, int] = {}
    for level in levels:
        first = {c: min((position[p] for p in parents[c]), default=-1) for c in level}
        for concept in sorted(level, key=lambda c: (first[c], c)):
            position[concept] = len(position)
    ids = list(position)
    rows = np.array([position[c] for c in ids for _ in parents[c]], dtype=np.int64)
    columns = np.array([position[p] for c in ids for p in parents[c]], dtype=np.int64)
    return ids, *graph.compress(rows, columns, len(ids))


def _depths(given: list[str], parents: Mapping[str, Sequence[str]]) -> dict[str, int]:
    index = {c: i for i, c in enumerate(given)}
    rows = np.array([index[c] for c in given for _ in parents[c]], dtype=np.int64)
    columns = np.array([index[p] for c in given for p in parents[c]], dtype=np.int64)
    counts = np.array([len(parents[c]) for c in given], dtype=np.int64)
    depth = graph.longest_depths(counts, *graph.compress(columns, rows, len(given)))
    if not depth.all():
        raise CycleError("the is-a links hold a cycle", culprits=_cycle(parents))
    return dict(zip(given, depth.tolist(), strict=True))


def _cycle(parents: Mapping[str, Sequence[str]]) -> list[str]:
    links: nx.DiGraph[str] = nx.DiGraph([(c, p) for c, above in parents.items() for p in above])
    return [child for child, _ in nx.find_cycle(links)]
