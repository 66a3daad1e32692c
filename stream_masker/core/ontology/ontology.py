"""Ontologies: concepts with labels and synonyms, linked by is-a to one rooted acyclic hierarchy; similar concepts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from stream_masker.core.ontology import graph
from stream_masker.core.ontology.data import OntologyData, build_taxonomy
from stream_masker.core.ontology.draft import OntologyDraft, add_common_root, indexed_draft
from stream_masker.core.ontology.names import NameIndexes, Synonyms
from stream_masker.core.ontology.sources import load_data
from stream_masker.core.ontology.taxonomy import Taxonomy
from stream_masker.errors import ParameterError, UnknownConceptError

if TYPE_CHECKING:
    import networkx as nx
from collections import defaultdict
from difflib import get_close_matches

from stream_masker.core.ontology.names import fold_code


class Ontology:
    """An immutable set of concepts under one root, linked by is-a. A concept may have several parents.

    Create one with ``load``, ``from_edges`` or ``from_parents``.
    """

    def __init__(self, data: OntologyData) -> None:
        self.data = data

    @classmethod
    def load(cls, source: str | Path) -> Ontology:
        """Load an ontology by name (``icd10cm``), from a file or from a folder.

        Supported files: edge lists (``.csv``, ``.tsv``), OBO (``.obo``), OBO Graphs and FHIR CodeSystem or ValueSet
        (``.json``), ClaML (``.xml``, ``.claml``) and OWL in RDF/XML (``.owl``), each also gzipped; SNOMED CT RF2
        snapshots, given as the folder of a release, its ``.zip`` or one of its files; and ``.ontology`` files, which
        ``stream-masker ontology compile`` writes. A source is parsed once: its compiled form is stored in the cache
        folder, where later calls find it.

        Raises OntologyError, or the subclass that describes the problem.
        """
        if not isinstance(source, str | Path):
            raise ParameterError(f"source is of type {type(source).__name__}: use a name such as 'icd10cm', or a path")
        return cls(load_data(source))

    @classmethod
    def from_edges(
        cls,
        edges: Iterable[tuple[str, str]],
        labels: Mapping[str, str] | None = None,
        synonyms: Mapping[str, Sequence[str]] | None = None,
    ) -> Ontology:
        """Build an ontology from (child, parent) links. The concept without a parent is the root.

        A root is added above several of them, as by ``load``. ``labels``, ``synonyms``: by concept id. Raises
        EmptyOntologyError, DuplicateConceptError (a link that occurs twice), CycleError.
        """
        parents: dict[str, list[str]] = {}
        for child, parent in _checked_links(edges):
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
        """Build an ontology from the parents of every concept; the root has none. Every parent must be a key.

        Raises like ``from_edges``, and UnknownParentError.
        """
        for name, given, example in (("labels", labels, "'a label'"), ("synonyms", synonyms, "['a synonym']")):
            if not isinstance(given, Mapping | None):
                kind = type(given).__name__
                raise ParameterError(f"{name} is of type {kind}: use a mapping, such as {{'concept': {example}}}")
        draft = OntologyDraft({concept: list(above) for concept, above in parents.items()}, {**(labels or {})})
        add_common_root(draft)
        return cls(OntologyData.from_draft(indexed_draft(draft.parents, draft.labels, synonyms or {})))

    @classmethod
    def from_values(cls, values: Sequence[str], *, root: str = "any value") -> Ontology:
        """Build a flat ontology: values directly below a root that is not a value itself.

        The root is not found as a value, and no mechanism writes it. Raises ParameterError if it is one of the values,
        and like ``from_edges``.
        """
        if root in values:
            raise ParameterError(f"root={root!r} is one of the values: use a root that is none of them")
        data = cls.from_edges([(value, root) for value in values]).data
        tau = data.taxonomy
        flat = Taxonomy(tau.ids, tau.labels, tau.parent_offsets, tau.parents, root_is_value=False)
        return cls(OntologyData(flat, data.synonyms))

    @property
    def synonyms(self) -> Synonyms:
        """The synonyms of each concept that has any."""
        return self.data.synonyms

    @property
    def indexes(self) -> NameIndexes:
        """Indexes that find concepts by their codes, labels and synonyms, regardless of spelling."""
        return self.data.indexes

    @property
    def root(self) -> str:
        """The id of the root."""
        return self.data.taxonomy.root

    @property
    def concepts(self) -> Sequence[str]:
        """Every concept id, parents before children."""
        return self.data.taxonomy.ids

    def __len__(self) -> int:
        return len(self.data.taxonomy)

    def __contains__(self, concept: object) -> bool:
        return concept in self.data.taxonomy

    def __repr__(self) -> str:
        return f"Ontology(root={self.root!r}, concepts={len(self)})"

    def label(self, concept: str) -> str:
        """Return the preferred label of a concept, empty if it has none. Raises UnknownConceptError."""
        return self.data.taxonomy.label(concept)

    def taxonomy(self, domain: Iterable[str] | None = None, *, root: str | None = None) -> Taxonomy:
        """Return τ: a concept and all its descendants.

        The concept is ``root``, or the least common subsumer of the concepts in ``domain`` (2017: equation 10), or the
        root of the ontology if neither is given. Depths count from the root of the taxonomy. Raises ParameterError if
        both are given or the domain is empty, and UnknownConceptError for a concept that the ontology does not contain.
        """
        if root is not None and domain is not None:
            raise ParameterError("give root or domain, not both")
        if isinstance(domain, str):
            raise ParameterError("domain is one text: use a list of concept ids, or root for the concepts below one")
        whole = self.data.taxonomy
        if domain is not None:
            return self._subtaxonomy(whole.common_subsumer(_domain_positions(whole, domain)))
        if root is not None and root not in whole:
            few = f"one of {len(whole):,} ids, such as {whole.ids[len(whole) - 1]!r}"
            raise UnknownConceptError(f"root={root!r} is not a concept of the ontology: use {few}")
        return self._subtaxonomy(0 if root is None else whole.position(root))

    def to_networkx(self) -> nx.DiGraph[str]:
        """Return the hierarchy as a directed graph with child → parent edges, and labels as node attributes."""
        import networkx as nx

        network: nx.DiGraph[str] = nx.DiGraph()
        tau = self.data.taxonomy
        network.add_nodes_from((c, {"label": label}) for c, label in zip(tau.ids, tau.labels, strict=True))
        network.add_edges_from((c, p) for c in tau.ids for p in tau.parents_of(c))
        return network

    @cached_property
    def _subtaxonomies(self) -> dict[int, Taxonomy]:
        """Taxonomies by the position of their root."""
        return {0: self.data.taxonomy}

    def _subtaxonomy(self, position: int) -> Taxonomy:
        if position not in self._subtaxonomies:
            self._subtaxonomies[position] = _subtaxonomy(self.data.taxonomy, position)
        return self._subtaxonomies[position]


def _domain_positions(tau: Taxonomy, domain: Iterable[str]) -> list[int]:
    values = list(domain)
    if not values:
        raise ParameterError("domain is empty: use at least one concept id")
    try:
        return list(tau.encode(values))
    except UnknownConceptError as error:
        message = f"domain[{error.position}] is not a concept of the ontology"
        raise UnknownConceptError(message, position=error.position) from None


def _subtaxonomy(tau: Taxonomy, position: int) -> Taxonomy:
    """Return the taxonomy of a concept and its descendants, with the links between them."""
    below = graph.descendants_of(position, tau.child_offsets, tau.children)
    kept = np.flatnonzero(below)
    children = np.repeat(np.arange(len(tau)), np.diff(tau.parent_offsets))
    inside = below[children] & below[tau.parents] & (children != position)
    index = np.cumsum(below) - 1
    taxonomy, _ = build_taxonomy(
        tau.ids.take(kept), tau.labels.take(kept), index[children[inside]], index[tau.parents[inside]]
    )
    return taxonomy


def _checked_links(edges: object) -> Iterator[tuple[str, str]]:
    """Yield the links. Raises ParameterError for one that is not a pair of texts."""
    if isinstance(edges, str | dict) or not isinstance(edges, Iterable):
        raise ParameterError(f"edges is of type {type(edges).__name__}: use a list of (child, parent), both texts")
    for index, link in enumerate(edges):
        if isinstance(link, str) or len(link) != 2 or not all(isinstance(concept, str) for concept in link):
            raise ParameterError(f"edges[{index}]={link!r} is not allowed: use (child, parent), both texts")
        yield link[0], link[1]


SUGGESTIONS_MAX = 3
START = 3
"""A name is compared with a value if a word of one starts like a word of the other, by this number of letters."""

CODE_START = 2


class Suggestions:
    """Finds concepts of a taxonomy that a value may be a misspelling of."""

    def __init__(self, taxonomy: Taxonomy, ontology: Ontology) -> None:
        self._taxonomy = taxonomy
        self._ontology = ontology

    def of(self, value: str) -> list[str]:
        """Return the ids of at most ``SUGGESTIONS_MAX`` concepts, the most similar ones first."""
        code = fold_code(value.strip())
        codes = {fold_code(concept): concept for concept in self._codes.get(code[:CODE_START], ())}
        similar = [codes[close] for close in get_close_matches(code, codes, n=SUGGESTIONS_MAX, cutoff=0.6)]
        name = value.strip().casefold()
        names = {text: concept for start in _starts(name) for text, concept in self._names.get(start, ())}
        similar += [names[close] for close in get_close_matches(name, names, n=SUGGESTIONS_MAX, cutoff=0.75)]
        return list(dict.fromkeys(similar))[:SUGGESTIONS_MAX]

    @cached_property
    def _codes(self) -> dict[str, list[str]]:
        codes = defaultdict(list)
        for concept in self._taxonomy.ids:
            codes[fold_code(concept)[:CODE_START]].append(concept)
        return codes

    @cached_property
    def _names(self) -> dict[str, list[tuple[str, str]]]:
        names = defaultdict(list)
        for concept, text in self._texts():
            name = text.casefold()
            for start in _starts(name):
                names[start].append((name, concept))
        return names

    def _texts(self) -> Iterator[tuple[str, str]]:
        for concept, label in zip(self._taxonomy.ids, self._taxonomy.labels, strict=True):
            if label:
                yield concept, label
            yield from ((concept, text) for text in self._ontology.synonyms.get(concept, ()))


def _starts(name: str) -> set[str]:
    return {word[:START] for word in name.split() if len(word) >= START}
