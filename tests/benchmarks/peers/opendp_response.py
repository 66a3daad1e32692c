"""OpenDP: randomised response of each diagnosis over the codes of its column."""

from __future__ import annotations

import math

import opendp.prelude as dp
from tables import parameters, read_columns, write_table

given = parameters()
dp.enable_features("contrib")
responses = []
for codes in read_columns():
    categories = sorted(set(codes))
    kept = math.exp(given["epsilon"])
    response = dp.m.make_randomized_response(categories, kept / (kept + len(categories) - 1))
    responses.append((codes, response))
for number in range(given["tables"]):
    write_table([[response(code) for code in codes] for codes, response in responses], number)
