"""The seconds to read an OBO file by obonet, fastobo or pronto."""

from __future__ import annotations

import sys
import time
from importlib import import_module

READERS = {"obonet": "read_obo", "fastobo": "load", "pronto": "Ontology"}

read = getattr(import_module(sys.argv[1]), READERS[sys.argv[1]])
start = time.process_time()
read(sys.argv[2])
print(time.process_time() - start)
