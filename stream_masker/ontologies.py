"""Ontologies, their taxonomies, and the search for the concept of a code."""

from __future__ import annotations

from stream_masker.core.ontology import ConceptMap, Ontology, Taxonomy

__all__ = ["ConceptMap", "Ontology", "Taxonomy"]
