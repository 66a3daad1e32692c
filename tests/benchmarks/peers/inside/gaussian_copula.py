"""copulas: a Gaussian copula of all columns, whose categories are intervals in the order of their frequency."""

from __future__ import annotations

import numpy as np
import pandas as pd
from copulas.multivariate import GaussianMultivariate
from copulas.univariate import UniformUnivariate
from exchange import COLUMNS, read_columns, write_columns

rng = np.random.default_rng(0)
columns = read_columns()
encoded, edges, values = {}, {}, {}
for name in COLUMNS:
    found, place, counts = np.unique(columns[name], return_inverse=True, return_counts=True)
    order = np.argsort(-counts, kind="stable")
    values[name] = found[order]
    edges[name] = np.concatenate([[0.0], np.cumsum(counts[order]) / len(place)])
    rank = np.argsort(order)[place]
    encoded[name] = edges[name][rank] + rng.random(len(place)) * np.diff(edges[name])[rank]
copula = GaussianMultivariate(distribution=UniformUnivariate, random_state=0)
copula.fit(pd.DataFrame(encoded))
drawn = copula.sample(len(columns["principal"]))
places = [
    np.clip(np.searchsorted(edges[name], drawn[name], side="right") - 1, 0, len(values[name]) - 1) for name in COLUMNS
]
write_columns([values[name][place] for name, place in zip(COLUMNS, places, strict=True)])
