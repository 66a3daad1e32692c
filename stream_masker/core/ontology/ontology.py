"""Ontologies: concepts with labels and synonyms, linked by is-a to one rooted acyclic hierarchy."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from stream_masker.core.ontology.draft import Draft, arrays_of, reading
from stream_masker.core.ontology.formats import find_source
from stream_masker.core.ontology.store import Arrays, stored
from stream_masker.core.ontology.taxonomy import Taxonomy
from stream_masker.errors import ParameterError, UnknownConceptError

if TYPE_CHECKING:
    import networkx as nx


class Ontology(Taxonomy):
    """An immutable set of concepts under one root, linked by is-a: the taxonomy of all of them, parents before
    children. A concept may have several parents.

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
            network.add_node(concept, label=label, synonyms=self.synonyms_of(concept))
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
            draft.add(concept, parents, [self.label(concept), *self.synonyms_of(concept)])
        return type(self)(arrays_of(draft))
