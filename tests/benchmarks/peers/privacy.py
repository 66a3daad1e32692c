"""Masking of two columns of codes by another program: ``privacy.py PACKAGE PARAMETERS``, a JSON object.

``bench_privacy.py`` writes the columns to ``records.csv``; this script writes the masked tables.
"""

from __future__ import annotations

import csv
import json
import math
import sys
from collections.abc import Iterable, Sequence

Columns = list[list[str]]


def opendp(columns: Columns, epsilon: float, tables: int) -> None:
    """Randomised response of each diagnosis over the codes of its column."""
    import opendp.prelude as dp

    dp.enable_features("contrib")
    responses = []
    for codes in columns:
        categories = sorted(set(codes))
        kept = math.exp(epsilon)
        response = dp.m.make_randomized_response(categories, kept / (kept + len(categories) - 1))
        responses.append((codes, response))
    for number in range(tables):
        write_table([[response(code) for code in codes] for codes, response in responses], number)


def anjana(columns: Columns, k: int, left_out: float, root: str) -> None:
    """k-anonymity of both diagnoses by generalising whole columns to one level, and leaving records out."""
    import pandas as pd
    from anjana.anonymity import k_anonymity

    names = ("principal", "secondary")
    frame = pd.DataFrame(dict(zip(names, columns, strict=True)))
    frame["row"] = range(len(frame))
    with open("ancestors.json") as file:
        ancestors = json.load(file)
    hierarchies = {}
    for name in names:
        rows = [[code, *ancestors[code]] for code in sorted(set(frame[name]))]
        hierarchies[name] = {level: pd.Series(values).values for level, values in enumerate(zip(*rows, strict=True))}
    done = k_anonymity(frame.copy(), [], list(names), k, left_out, hierarchies)
    for name in names:
        frame[name] = root
        frame.loc[done["row"], name] = done[name].to_numpy()
    write_table([frame[name] for name in names], 0)


def dpmm(columns: Columns, epsilon: float, delta: float) -> None:
    """MST, noisy two-way counts from which a synthetic table is drawn; ε holds for the whole table."""
    import numpy as np
    import pandas as pd
    from dpmm.models.mst import MSTGM

    values = [np.unique(codes) for codes in columns]
    frame = pd.DataFrame({str(j): np.searchsorted(values[j], codes) for j, codes in enumerate(columns)})
    model = MSTGM(epsilon=epsilon, delta=delta, n_iters=1_000, n_jobs=1)
    model.set_random_state(np.random.RandomState(0))
    model.set_domain({str(j): len(found) for j, found in enumerate(values)})
    model.fit(frame)
    drawn = model.generate(n_records=len(frame))
    write_table([found[drawn[str(j)].astype(int)] for j, found in enumerate(values)], 0)


def write_table(columns: Sequence[Iterable[str]], number: int) -> None:
    with open(f"masked-{number}.csv", "w", newline="") as out:
        csv.writer(out).writerows(zip(*columns, strict=True))


with open("records.csv", newline="") as lines:
    read = list(map(list, zip(*csv.reader(lines), strict=True)))
{"opendp": opendp, "anjana": anjana, "dpmm": dpmm}[sys.argv[1]](read, **json.loads(sys.argv[2]))
