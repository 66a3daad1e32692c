"""The files that a script exchanges with the command: the records, and the masked tables."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Sequence

COLUMNS = ("principal", "secondary", "readmitted", "stay")


def read_columns() -> dict[str, list[str]]:
    """The columns of the records, as texts."""
    with open("records.csv", newline="") as lines:
        rows = list(csv.reader(lines))
    return dict(zip(rows[0], map(list, zip(*rows[1:], strict=True)), strict=True))


def write_columns(number: int, columns: Sequence[Iterable[object]]) -> None:
    """Write one masked table, with the columns of the records in their order."""
    with open(f"masked-{number}.csv", "w", newline="") as out:
        writer = csv.writer(out)
        writer.writerow(COLUMNS)
        writer.writerows(zip(*columns, strict=True))
