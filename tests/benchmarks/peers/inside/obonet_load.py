"""obonet: the seconds to read an OBO file, and its concepts."""

import obonet
from timing import obo_file, report_load

report_load(lambda: obonet.read_obo(obo_file()), len)
