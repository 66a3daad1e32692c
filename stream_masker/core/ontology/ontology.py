"""Ontologies: concepts with labels and synonyms, linked by is-a to one rooted acyclic hierarchy."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from stream_masker.core.arrays import offsets_from_lengths
from stream_masker.core.dtypes import Int64Array
from stream_masker.core.ontology.formats import Draft
from stream_masker.core.ontology.sources import find_source
from stream_masker.core.ontology.store import Parts, TextIndex, Texts, stored
from stream_masker.core.ontology.taxonomy import Closure, Taxonomy, compress, ordered
from stream_masker.core.validation import require_mapping
from stream_masker.errors import OntologyError, ParameterError, UnknownConceptError, error_location

if TYPE_CHECKING:
    import networkx as nx


class Ontology(Taxonomy):
    """An immutable set of concepts under one root, linked by is-a: the taxonomy of all of them, parents before
    children. A concept may have several parents.

    Create one with ``load``, ``from_edges``, ``from_parents`` or ``from_networkx``.
    """

    @classmethod
    def load(cls, source: str | Path) -> Ontology:
        """Load an ontology by name (``icd10cm``), from a file or from a folder.

        Supported files: edge lists (``.csv``, ``.tsv``), OBO (``.obo``), OBO Graphs and FHIR CodeSystem
        (``.json``), ClaML (``.xml``, ``.claml``) and OWL in RDF/XML (``.owl``), each also gzipped; and SNOMED CT RF2
        releases, given as a folder or a ``.zip``. A source is parsed once: the result is kept as arrays in the cache
        folder, from where later calls map them.

        Raises OntologyError, whose message says where the problem is and names the concepts or files.
        """
        if not isinstance(source, str | Path):
            raise ParameterError(f"source is of type {type(source).__name__}: use a name such as 'icd10cm', or a path")
        found = find_source(source)
        with error_location(found.name):
            return cls._from_parts(stored(found.key, lambda: cls._of(found.read())._parts()))

    @classmethod
    def from_edges(
        cls,
        edges: Iterable[tuple[str, str]],
        labels: Mapping[str, str] | None = None,
        synonyms: Mapping[str, Sequence[str]] | None = None,
    ) -> Ontology:
        """Build an ontology from (child, parent) links. The concept without a parent is the root.

        A root is added above several of them, as by ``load``. ``labels``, ``synonyms``: by concept id. Raises
        OntologyError for no link, a link that occurs twice, or a cycle.
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
        """Build an ontology from the parents of every concept; a root has none. Every parent must be a key.

        Raises like ``from_edges``, and for another parent.
        """
        require_mapping("labels", labels or {}, "{'concept': 'a label'}")
        require_mapping("synonyms", synonyms or {}, "{'concept': ['a synonym']}")
        own = {concept: list(above) for concept, above in parents.items()}
        return cls._of(Draft(own, {**(labels or {})}, {key: list(names) for key, names in (synonyms or {}).items()}))

    @classmethod
    def from_networkx(cls, network: nx.DiGraph[str]) -> Ontology:
        """Build an ontology from a directed graph with child → parent edges, and node attributes ``label`` and
        ``synonyms``, if there are any. Raises like ``from_edges``."""
        parents = {concept: list(network.successors(concept)) for concept in network}
        facts: dict[str, dict[str, Any]] = dict(network.nodes.items())
        labels = {concept: of.get("label", "") for concept, of in facts.items()}
        synonyms = {concept: of.get("synonyms", ()) for concept, of in facts.items()}
        return cls.from_parents(parents, labels, synonyms)

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
        position = 0
        if isinstance(domain, str):
            raise ParameterError("domain is one text: use a list of concept ids, or root for the concepts below one")
        if domain is not None:
            concepts = self.encode(list(domain)).tolist()
            if not concepts:
                raise ParameterError("domain is empty: use at least one concept id")
            position = self.common_subsumer(concepts)
        elif root is not None:
            position = self.find_one(root)
            if position < 0:
                few = f"one of {len(self):,} ids, such as {self.ids[-1]!r}"
                raise UnknownConceptError(f"root={root!r} is not a concept of the ontology: use {few}")
        if position and position not in self._parts_below:
            self._parts_below[position] = self._below(position)
        return self._parts_below[position] if position else self

    @cached_property
    def _parts_below(self) -> dict[int, Taxonomy]:
        """The taxonomies that were asked for, by the position of their roots."""
        return {}

    @classmethod
    def _of(cls, draft: Draft) -> Ontology:
        """Check and order the concepts of a draft. Raises like ``from_parents``."""
        _add_common_root(draft)
        ids = sorted(draft.parents)
        children, parents = _links(ids, draft.parents)
        levels = ordered(children, parents, len(ids))
        order = np.concatenate([np.empty(0, np.int64), *levels])
        if order.size < len(ids):
            cycle = (ids[k] for k in _cycle(order, children, parents))
            raise OntologyError("the is-a links form a cycle", culprits=cycle)
        position = np.empty(order.size, np.int64)
        position[order] = np.arange(order.size)
        depth = np.repeat(np.arange(1, len(levels) + 1, dtype=np.int32), list(map(len, levels)))
        links = *compress(position[children], position[parents], order.size), depth
        ids = [ids[k] for k in order.tolist()]
        synonyms = [draft.synonyms.get(concept, ()) for concept in ids]
        rows = offsets_from_lengths(np.fromiter(map(len, synonyms), np.int64, len(ids)))
        texts = ids, (draft.labels.get(concept, "") for concept in ids), chain.from_iterable(synonyms)
        return cls(map(Texts.of, texts), rows, links)

    def _below(self, position: int) -> Ontology:
        """Return a concept and its descendants, with the links between them."""
        kept = np.flatnonzero(self.below(np.array([position], np.int32))).tolist()
        draft, ids = Draft(), dict(zip(kept, self.decode(kept), strict=True))
        for c, concept in ids.items():
            above = self.parents[self.parent_offsets[c] : self.parent_offsets[c + 1]].tolist()
            parents = [ids[parent] for parent in above if parent in ids]
            draft.add(concept, parents, self.labels[c], list(self.synonyms_at(c)))
        return self._of(draft)

    def _parts(self) -> Parts:
        """Return the given and the computed arrays, which ``_from_parts`` reads."""
        return {
            **{name: (texts.utf8, texts.offsets) for name, texts in zip(TEXTS, self.texts, strict=True)},
            "rows": (self.synonym_offsets,),
            "links": (self.parent_offsets, self.parents, self.depth),
            **{"closure": self.closure, "codes": self.codes, "names": self.names},
        }

    @classmethod
    def _from_parts(cls, parts: Parts) -> Ontology:
        onto = cls((Texts(*parts[name]) for name in TEXTS), parts["rows"][0], parts["links"])
        onto.closure = Closure(*parts["closure"])
        onto.codes, onto.names = TextIndex(*parts["codes"]), TextIndex(*parts["names"])
        return onto


TEXTS: Final = ("ids", "labels", "synonyms")
"""The parts that are texts."""


def _checked_links(edges: object) -> Iterator[tuple[str, str]]:
    """Yield the links. Raises ParameterError for one that is not a pair of texts."""
    if isinstance(edges, str | dict) or not isinstance(edges, Iterable):
        raise ParameterError(f"edges is of type {type(edges).__name__}: use a list of (child, parent), both texts")
    for index, link in enumerate(edges):
        if isinstance(link, str) or len(link) != 2 or not all(isinstance(concept, str) for concept in link):
            raise ParameterError(f"edges[{index}]={link!r} is not allowed: use (child, parent), both texts")
        yield link[0], link[1]


def _add_common_root(draft: Draft) -> None:
    """Add the root of a draft above several concepts without a parent, under a name that is not used yet."""
    tops = [concept for concept, parents in draft.parents.items() if not parents]
    if len(tops) < 2:
        return
    root = draft.root
    while root in draft.parents:
        root = f"({root})"
    draft.parents.update((concept, [root]) for concept in tops)
    draft.parents[root] = []
    draft.labels[root] = draft.root_label


def _links(ids: Sequence[str], parents: Mapping[str, Sequence[str]]) -> tuple[Int64Array, Int64Array]:
    """Return the indices of the child and of the parent of each link. ``ids``: ascending."""
    if not ids:
        raise OntologyError("the ontology holds no concept")
    if "" in parents:
        raise OntologyError("a concept has an empty id")
    index = {concept: k for k, concept in enumerate(ids)}
    above = [parents[concept] for concept in ids]
    if unknown := sorted(set(chain.from_iterable(above)) - index.keys()):
        raise OntologyError("these parents are not concepts", culprits=unknown)
    if repeated := [concept for concept, own in zip(ids, above, strict=True) if len(set(own)) < len(own)]:
        raise OntologyError("these concepts have the same parent twice", culprits=repeated)
    counts = np.fromiter(map(len, above), np.int64, len(ids))
    linked = np.fromiter(map(index.__getitem__, chain.from_iterable(above)), np.int64, int(counts.sum()))
    return np.repeat(np.arange(len(ids)), counts), linked


def _cycle(acyclic: Int64Array, children: Int64Array, parents: Int64Array) -> list[int]:
    """Return the concepts of one cycle, each below the next one."""
    import networkx as nx

    kept = ~np.isin(children, acyclic) & ~np.isin(parents, acyclic)
    network = nx.DiGraph(zip(children[kept].tolist(), parents[kept].tolist(), strict=True))
    return [child for child, _ in nx.find_cycle(network)]
