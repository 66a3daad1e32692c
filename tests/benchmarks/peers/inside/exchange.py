"""The files that a script exchanges with the command: the records, and the masked tables."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Sequence
from pathlib import Path

COLUMNS = ("principal", "secondary", "readmitted", "stay")


def read_columns(file: Path = Path("records.csv")) -> dict[str, list[str]]:
    """The columns of a table, by default of the records, as texts."""
    with file.open(newline="") as lines:
        rows = list(csv.reader(lines))
    return dict(zip(rows[0], map(list, zip(*rows[1:], strict=True)), strict=True))


def write_columns(columns: Sequence[Iterable[object]], file: Path = Path("masked-0.csv")) -> None:
    """Write a table, by default the only masked one, with the columns of the records in their order."""
    with file.open("w", newline="") as out:
        writer = csv.writer(out)
        writer.writerow(COLUMNS)
        writer.writerows(zip(*columns, strict=True))
