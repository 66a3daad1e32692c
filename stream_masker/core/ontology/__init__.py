"""Ontologies, the taxonomies of semantic domains, and the mapping of values to concepts.

* ``sources`` resolves a name, a file or a folder. A reader in ``formats`` parses it into a ``draft``.
* ``data`` checks a draft with ``graph``, and orders it: the result is a ``taxonomy`` and ``names``.
* ``compiled`` writes that result to a file of arrays, and maps it again.
* ``ontology`` is the public class over it. ``mapping`` finds the concepts of data values.
* ``text_table`` and ``lookup`` store texts as arrays and find them.
"""

from stream_masker.core.ontology.mapping import UNKNOWN, ConceptMap, Match
from stream_masker.core.ontology.ontology import Ontology
from stream_masker.core.ontology.taxonomy import Closure, Taxonomy, TreeTable

__all__ = ["UNKNOWN", "Closure", "ConceptMap", "Match", "Ontology", "Taxonomy", "TreeTable"]
