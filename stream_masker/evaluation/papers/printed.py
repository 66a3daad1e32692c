"""The figures that the papers print, by paper and table, and tables that compare ours with them.

``printed.txt`` has for each table a line ``# paper, table, of, of`` and a line for each metric with its figures, one
for each column. ``reasons.txt`` says for each paper what is compared, and where and why the figures differ.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

from stream_masker.evaluation.report.page import ReportTable, paragraphs, text_parts


class PrintedTable(NamedTuple):
    """A table of a paper. ``of``: what it is of, such as the data set and the method. ``figures``: by metric."""

    name: str
    of: tuple[str, ...]
    figures: Mapping[str, tuple[float, ...]]

    def beside(
        self, title: str, header: tuple[str, ...], ours: Mapping[str, Sequence[float]], digits: int = 2
    ) -> ReportTable:
        """Return the table with our figure of each metric before the printed one."""
        rows = (
            (metric, *(compared(a, b, digits) for a, b in zip(ours[metric], theirs, strict=True)))
            for metric, theirs in self.figures.items()
        )
        return ReportTable(title, header, tuple(rows))


@cache
def printed_tables(paper: str) -> tuple[PrintedTable, ...]:
    """Return the tables of a paper, such as ``2017``."""
    heads = [
        (head.split(", "), text.splitlines()) for head, text in text_parts(Path(__file__).with_suffix(".txt")).items()
    ]
    return tuple(PrintedTable(name, tuple(of), _figures(lines)) for (year, name, *of), lines in heads if year == paper)


def reasons(name: str) -> tuple[str, ...]:
    """Return the paragraphs of ``reasons.txt`` with a name, such as ``2017``."""
    return paragraphs(name, Path(__file__).with_name("reasons.txt"))


def _figures(lines: Sequence[str]) -> dict[str, tuple[float, ...]]:
    cells = (line.partition(": ") for line in lines)
    return {metric: tuple(map(float, values.split())) for metric, _, values in cells}


def compared(ours: float, theirs: float, digits: int = 2) -> str:
    """Return a measure followed by the printed figure in parentheses."""
    return f"{ours:.{digits}f} ({theirs:.{digits}f})"


NOISE_ALPHAS = (0.1, 0.3, 0.5, 1.0)
"""The noise levels α of the columns of 2017's tables."""

PRINTED_MARGINALITIES = (6.94, 6.22, 6.22, 6.14, 5.07, 5.07, 5.30, 5.30, 5.88)
"""The marginalities of Table 1 of 2013."""

UNREACHABLE_PAIRS = (frozenset({"alzheimer", "meningitis"}), frozenset({"alzheimer", "sclerosis"}))
UNREACHABLE_DISTANCE = 0.65
"""The pairs of 2013's Example 1 whose printed distance no taxonomy has that gives the other distances."""

ASSOCIATIONS: Mapping[str, str] = {"original": "2711.8", "VICUS": "above 1500", "Random": "below 1000"}
"""Figure 7 of 2012: χ² of cap-color and stalk-surface-below-ring in the original file, and in 30 masked files."""
