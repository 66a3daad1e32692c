"""diffprivlib: the exponential mechanism over the codes of a column, with the negative semantic distance as utility."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
from diffprivlib.mechanisms import Exponential
from exchange import read_columns, write_columns

parameters = json.loads(sys.argv[1])
columns = read_columns()
mechanisms = []
for name in ("principal", "secondary"):
    codes, utility = sorted(set(columns[name])), -np.load(f"distances-{name}.npy")
    mechanisms.append(
        {
            code: Exponential(
                epsilon=parameters["epsilon"],
                sensitivity=1.0,
                utility=row.tolist(),
                candidates=codes,
                random_state=seed,
            )
            for seed, (code, row) in enumerate(zip(codes, utility, strict=True))
        }
    )
for number in range(parameters["tables"]):
    masked = [
        [own[value].randomise() for value in columns[name]]
        for name, own in zip(("principal", "secondary"), mechanisms, strict=True)
    ]
    write_columns([*masked, columns["readmitted"], columns["stay"]], Path(f"masked-{number}.csv"))
print(json.dumps({"epsilon": 2 * parameters["epsilon"]}))
