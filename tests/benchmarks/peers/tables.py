"""The files that a script exchanges with ``bench_privacy.py``: two columns of codes, and the masked tables."""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any


def parameters() -> dict[str, Any]:
    return json.loads(sys.argv[1])


def read_columns(file: str | Path = "records.csv") -> list[list[str]]:
    with open(file, newline="") as lines:
        return list(map(list, zip(*csv.reader(lines), strict=True)))


def write_table(columns: Sequence[Iterable[str]], number: int) -> None:
    with open(f"masked-{number}.csv", "w", newline="") as out:
        csv.writer(out).writerows(zip(*columns, strict=True))
