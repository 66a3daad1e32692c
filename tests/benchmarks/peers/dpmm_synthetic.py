"""dpmm: MST, noisy two-way counts from which a synthetic table is drawn; ε holds for the whole table."""

from __future__ import annotations

import numpy as np
import pandas as pd
from dpmm.models.mst import MSTGM
from tables import parameters, read_columns, write_table

given = parameters()
columns = [np.array(codes) for codes in read_columns()]
values = [np.unique(codes) for codes in columns]
frame = pd.DataFrame({str(j): np.searchsorted(values[j], codes) for j, codes in enumerate(columns)})
model = MSTGM(epsilon=given["epsilon"], delta=given["delta"], n_iters=1_000, n_jobs=1)
model.set_random_state(np.random.RandomState(0))
model.set_domain({str(j): len(found) for j, found in enumerate(values)})
model.fit(frame)
drawn = model.generate(n_records=len(frame))
write_table([found[drawn[str(j)].astype(int)] for j, found in enumerate(values)], 0)
