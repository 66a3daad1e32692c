"""OpenDP: randomised response of each diagnosis over the codes of its column."""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path

import opendp.prelude as dp
from exchange import read_columns, write_columns

parameters = json.loads(sys.argv[1])
dp.enable_features("contrib")
columns = read_columns()
responses = []
for name in ("principal", "secondary"):
    categories = sorted(set(columns[name]))
    kept = math.exp(parameters["epsilon"])
    probability = kept / (kept + len(categories) - 1)
    responses.append((columns[name], dp.m.make_randomized_response(categories, probability)))
for number in range(parameters["tables"]):
    masked = [[response(value) for value in values] for values, response in responses]
    write_columns([*masked, columns["readmitted"], columns["stay"]], Path(f"masked-{number}.csv"))
print(json.dumps({"epsilon": sum(response.map(1) for _, response in responses)}))
