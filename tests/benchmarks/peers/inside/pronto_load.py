"""pronto: the seconds to read an OBO file, and its concepts."""

import pronto
from timing import obo_file, report_load

report_load(lambda: pronto.Ontology(obo_file()), lambda ontology: sum(1 for _ in ontology.terms()))
