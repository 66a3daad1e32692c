"""ANJANA: k-anonymity of both diagnoses by generalising whole columns to one level, and leaving records out."""

from __future__ import annotations

import json
import sys

import pandas as pd
from anjana.anonymity import k_anonymity
from exchange import COLUMNS, read_columns, write_columns

DIAGNOSES = ("principal", "secondary")

parameters = json.loads(sys.argv[1])
columns = read_columns()
frame = pd.DataFrame(columns | {"row": range(len(columns["stay"]))})
hierarchies = {}
with open("hierarchies.json") as file:
    ancestors = json.load(file)
for name in DIAGNOSES:
    rows = [[code, *ancestors[code]] for code in sorted(set(columns[name]))]
    hierarchies[name] = {level: pd.Series(values).values for level, values in enumerate(zip(*rows, strict=True))}
done = k_anonymity(frame, [], list(DIAGNOSES), parameters["k"], parameters["suppressed"], hierarchies)
levels = {name: sorted(set(done[name]))[:3] for name in DIAGNOSES}
for name in DIAGNOSES:
    frame[name] = parameters["root"]
    frame.loc[done["row"], name] = done[name].to_numpy()
write_columns([frame[name] for name in COLUMNS])
print(json.dumps({"left out": len(frame) - len(done), "levels": levels}))
