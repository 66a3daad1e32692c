"""Ontologies: concepts, is-a links, labels and synonyms, checked to be one rooted acyclic hierarchy."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from stream_masker.core.dtypes import Int64Array
from stream_masker.core.ontology import graph, links
from stream_masker.core.ontology.names import Indexes, Synonyms
from stream_masker.core.ontology.taxonomy import Taxonomy
from stream_masker.core.ontology.texts import Texts
from stream_masker.errors import (
    DuplicateConceptError,
    EmptyOntologyError,
    OntologyError,
    ParameterError,
    UnknownParentError,
)

if TYPE_CHECKING:
    import networkx as nx

NO_SYNONYMS: Mapping[str, Sequence[str]] = {}


class Ontology:
    """An immutable set of concepts under one root, linked by is-a; a concept may have several parents.

    Made by ``from_edges``, ``from_parents`` or ``load_ontology``.
    """

    def __init__(
        self,
        taxonomy: Taxonomy,
        synonyms: Mapping[str, Sequence[str]] = NO_SYNONYMS,
        *,
        indexes: Indexes | None = None,
    ) -> None:
        """The whole hierarchy as a taxonomy, other names of its concepts, and indexes over both, if made before."""
        self._taxonomy = taxonomy
        self.synonyms = Synonyms.of(taxonomy, synonyms)
        if indexes is not None:
            self.indexes = indexes

    @classmethod
    def load(cls, source: str | Path) -> Ontology:
        """Loads an ontology by name (``icd10cm``), from a file or from a folder.

        Edge lists (``.csv``, ``.tsv``), OBO (``.obo``), OBO Graphs (``.json``) and OWL in RDF/XML (``.owl``), each also
        gzipped; SNOMED CT RF2 snapshots: a release's folder or ``.zip``, or one of its files; ``.ontology``: what
        ``stream-masker ontology compile`` wrote. Whatever is parsed is compiled and kept, so that it is parsed once.

        Raises OntologyError (or the subclass that says what is wrong).
        """
        from stream_masker.core.ontology.sources import load_ontology

        return load_ontology(source)

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
        ids = list(parents)
        children, above = _indexed(ids, parents)
        names = labels or {}
        texts = Texts.of(names.get(concept, "") for concept in ids)
        taxonomy, _ = links.taxonomy_of(Texts.of(ids), texts, children, above)
        return cls(taxonomy, synonyms or NO_SYNONYMS)

    @property
    def root(self) -> str:
        return self._taxonomy.root

    @property
    def concepts(self) -> Sequence[str]:
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
        import networkx as nx

        network: nx.DiGraph[str] = nx.DiGraph()
        tau = self._taxonomy
        network.add_nodes_from((c, {"label": label}) for c, label in zip(tau.ids, tau.labels, strict=True))
        network.add_edges_from((c, p) for c in tau.ids for p in tau.parents_of(c))
        return network

    @cached_property
    def indexes(self) -> Indexes:
        """Where codes, labels and synonyms are looked up however they are written; of the whole ontology."""
        return Indexes.of(self._taxonomy, self.synonyms)

    @cached_property
    def _cuts(self) -> dict[int, Taxonomy]:
        return {0: self._taxonomy}

    def _below(self, position: int) -> Taxonomy:
        if position not in self._cuts:
            self._cuts[position] = self._cut(position)
        return self._cuts[position]

    def _cut(self, position: int) -> Taxonomy:
        tau = self._taxonomy
        below = graph.descendants_of(position, tau.child_offsets, tau.children)
        kept = np.flatnonzero(below)
        rows = np.repeat(np.arange(len(tau)), np.diff(tau.parent_offsets))
        inside = below[rows] & below[tau.parents] & (rows != position)
        number = np.cumsum(below) - 1
        cut, _ = links.taxonomy_of(
            tau.ids.take(kept), tau.labels.take(kept), number[rows[inside]], number[tau.parents[inside]]
        )
        return cut


def _indexed(ids: Sequence[str], parents: Mapping[str, Sequence[str]]) -> tuple[Int64Array, Int64Array]:
    """The links as indices of ``ids``, checked: the concept and the parent of each."""
    if not ids:
        raise EmptyOntologyError("the ontology holds no concept")
    if "" in parents:
        raise OntologyError("a concept has an empty id")
    index = {concept: k for k, concept in enumerate(ids)}
    above = np.array([index.get(p, -1) for own in parents.values() for p in own], dtype=np.int64)
    if above.size and above.min() < 0:
        unknown = sorted({p for own in parents.values() for p in own if p not in index})
        raise UnknownParentError("these parents are no concepts", culprits=unknown)
    rows = np.repeat(np.arange(len(ids)), np.fromiter(map(len, parents.values()), np.int64, len(ids)))
    _check_unique(ids, rows, above)
    return rows, above


def _check_unique(ids: Sequence[str], rows: Int64Array, above: Int64Array) -> None:
    ordered = np.sort(rows * len(ids) + above)
    twice = np.unique(ordered[1:][ordered[1:] == ordered[:-1]] // len(ids))
    if twice.size:
        culprits = [ids[c] for c in twice]
        raise DuplicateConceptError("these concepts have the same parent twice", culprits=culprits)
