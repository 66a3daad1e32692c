"""fastobo: the seconds to read an OBO file, and its concepts."""

import fastobo
from timing import obo_file, report_load

report_load(lambda: fastobo.load(obo_file()), lambda frames: sum(type(f) is fastobo.term.TermFrame for f in frames))
