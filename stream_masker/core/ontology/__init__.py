"""Ontologies, the taxonomies of semantic domains, and the mapping of values to concepts.

* ``sources`` finds a name, a file or a folder. A reader in ``formats`` reads it into a ``Draft``.
* ``taxonomy`` has concepts and their links as arrays. ``ontology`` is the public class: the taxonomy of all concepts,
  made of a draft. ``store`` has the arrays of texts, and keeps all arrays in files that later processes map.
* ``concepts`` finds the concepts of data values.
"""

from stream_masker.core.ontology.concepts import UNKNOWN, ConceptMap, Match
from stream_masker.core.ontology.ontology import Ontology
from stream_masker.core.ontology.taxonomy import Closure, Taxonomy

__all__ = ["UNKNOWN", "Closure", "ConceptMap", "Match", "Ontology", "Taxonomy"]
