"""Ontologies, the taxonomies of semantic domains, and the mapping of values to concepts.

* ``sources`` finds a name, a file or a folder. A reader in ``formats`` reads it into a ``Draft``.
* ``ontology`` is the public class, which checks a draft and orders its concepts with ``graph``. ``taxonomy`` has them
  as arrays, and ``texts`` their ids and names. ``store`` keeps these arrays in files that later processes map.
* ``concepts`` finds the concepts of data values.
"""

from stream_masker.core.ontology.concepts import UNKNOWN, ConceptMap, Match
from stream_masker.core.ontology.ontology import Ontology
from stream_masker.core.ontology.taxonomy import Closure, Taxonomy

__all__ = ["UNKNOWN", "Closure", "ConceptMap", "Match", "Ontology", "Taxonomy"]
