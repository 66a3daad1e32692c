"""Ontologies, the taxonomies of semantic domains, and the mapping of values to concepts.

* ``formats`` finds a name, a file or a folder, and reads it into a ``Draft``. ``draft`` makes arrays of it.
* ``taxonomy`` answers questions about concepts and their links; an ``Ontology`` is the taxonomy of all concepts of a
  source. ``store`` has the arrays, and keeps them in files that later processes map.
* ``concepts`` finds the concepts of data values.
"""

from stream_masker.core.ontology.concepts import ConceptMap, Match
from stream_masker.core.ontology.taxonomy import UNKNOWN, Closure, Ontology, Taxonomy

__all__ = ["UNKNOWN", "Closure", "ConceptMap", "Match", "Ontology", "Taxonomy"]
