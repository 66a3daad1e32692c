"""Ontologies, the taxonomies of semantic domains, and the mapping of values to concepts."""

from stream_masker.core.ontology.mapping import UNKNOWN, ConceptMap, Match
from stream_masker.core.ontology.ontology import Ontology
from stream_masker.core.ontology.taxonomy import Closure, Taxonomy, TreeTable

__all__ = ["UNKNOWN", "Closure", "ConceptMap", "Match", "Ontology", "Taxonomy", "TreeTable"]
