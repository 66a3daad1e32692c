"""dpmm: MST, the maximum spanning tree of noisy two-way marginals, from which a synthetic table is drawn."""

from __future__ import annotations

import json
import sys

import numpy as np
import pandas as pd
from dpmm.models.mst import MSTGM
from exchange import COLUMNS, read_columns, write_columns

parameters = json.loads(sys.argv[1])
columns = read_columns()
values = {name: np.array(sorted(set(columns[name]))) for name in COLUMNS}
frame = pd.DataFrame({name: np.searchsorted(values[name], columns[name]) for name in COLUMNS})
model = MSTGM(epsilon=parameters["epsilon"], delta=parameters["delta"], n_iters=parameters["iterations"], n_jobs=1)
model.set_random_state(np.random.RandomState(0))
model.set_domain({name: len(found) for name, found in values.items()})
model.fit(frame)
drawn = model.generate(n_records=len(frame))
write_columns([values[name][drawn[name].astype(int)] for name in COLUMNS])
print(json.dumps({"epsilon": parameters["epsilon"], "delta": parameters["delta"]}))
