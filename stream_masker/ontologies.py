"""Ontologies, their taxonomies, and the search for the concept of a code."""

from __future__ import annotations

from stream_masker.core.ontology import UNKNOWN, ConceptMap, Match, Ontology, Taxonomy
from stream_masker.core.ontology.concepts import read_mapping

__all__ = ["UNKNOWN", "ConceptMap", "Match", "Ontology", "Taxonomy", "read_mapping"]
