"""diffprivlib: the exponential mechanism over the codes of a column, with the negative semantic distance as utility."""

from __future__ import annotations

import numpy as np
from diffprivlib.mechanisms import Exponential
from tables import parameters, read_columns, write_table

given = parameters()
mechanisms = []
for column, codes in enumerate(read_columns()):
    values = sorted(set(codes))
    utilities = -np.load(f"distances-{column}.npy")
    settings = {"epsilon": given["epsilon"], "sensitivity": 1.0, "candidates": values}
    own = {
        value: Exponential(utility=utility.tolist(), random_state=seed, **settings)
        for seed, (value, utility) in enumerate(zip(values, utilities, strict=True))
    }
    mechanisms.append((codes, own))
for number in range(given["tables"]):
    write_table([[own[code].randomise() for code in codes] for codes, own in mechanisms], number)
