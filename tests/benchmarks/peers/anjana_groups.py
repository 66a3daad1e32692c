"""ANJANA: k-anonymity of both diagnoses by generalising whole columns to one level, and leaving records out."""

from __future__ import annotations

import json

import pandas as pd
from anjana.anonymity import k_anonymity
from tables import parameters, read_columns, write_table

NAMES = ("principal", "secondary")

given = parameters()
frame = pd.DataFrame(dict(zip(NAMES, read_columns(), strict=True)))
frame["row"] = range(len(frame))
with open("ancestors.json") as file:
    ancestors = json.load(file)
hierarchies = {}
for name in NAMES:
    rows = [[code, *ancestors[code]] for code in sorted(set(frame[name]))]
    hierarchies[name] = {level: pd.Series(values).values for level, values in enumerate(zip(*rows, strict=True))}
done = k_anonymity(frame.copy(), [], list(NAMES), given["k"], given["left_out"], hierarchies)
for name in NAMES:
    frame[name] = given["root"]
    frame.loc[done["row"], name] = done[name].to_numpy()
write_table([frame[name] for name in NAMES], 0)
