"""The tables and figures of rank swapping (2019: tables 2 to 6, figures 5 to 7)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from stream_masker.evaluation.evaluation import Evaluation
from stream_masker.evaluation.report.charts import line_chart
from stream_masker.evaluation.report.page import Figure, ReportSection, ReportTable
from stream_masker.evaluation.swapping import SwappingRow

TABLES_OF_2019 = {"Algorithm 1": "Table 2", "Algorithm 2": "Table 3", "Algorithm 3": "Tables 4 to 6"}


def swapping_section(evaluation: Evaluation) -> ReportSection:
    """Return the section of rank swapping; empty if it was not measured."""
    if not evaluation.swapping:
        return ReportSection("Rank swapping (2019)")
    return ReportSection(
        "Rank swapping (2019)",
        (
            "The file is swapped as one group. Swapping keeps every attribute's values, so means and variances are "
            "kept exactly. A greater k swaps over a longer interval. Linked is the expected share of records that an "
            "intruder who knows all original values links to their masked record.",
        ),
        (*swapping_tables(evaluation.swapping), *_figures(evaluation)),
    )


def swapping_tables(rows: Sequence[SwappingRow]) -> Iterator[ReportTable]:
    """Yield a table for each method: metrics by k."""
    for method in dict.fromkeys(row.method for row in rows):
        found = [row for row in rows if row.method == method]
        title = f"{method} (2019: {TABLES_OF_2019.get(method, 'figures 5 to 7')})"
        yield ReportTable(
            title, ("metric", *(f"k = {row.k}" if row.k else "any k" for row in found)), tuple(_cells(found))
        )


def _cells(found: Sequence[SwappingRow]) -> Iterator[tuple[str, ...]]:
    for a in found[0].rmse:
        yield (f"sd(sμ({a}*), sμ({a}))", *(f"{row.mean_distance[a]:.4f}" for row in found))
        yield (f"|sdVar({a}*) − sdVar({a})|", *(f"{row.variance_error[a]:.4f}" for row in found))
        yield (f"RMSE({a}, {a}*)", *(f"{row.rmse[a]:.4f}" for row in found))
    for a, b in found[0].correlation:
        yield (f"sdCor({a}*, {b}*)", *(f"{row.correlation[a, b]:.4f}" for row in found))
        yield (f"|sdCor({a}*, {b}*) − sdCor({a}, {b})|", *(f"{row.correlation_error[a, b]:.4f}" for row in found))
    yield ("linked", *(f"{row.risk:.4f}" for row in found))
    yield ("values not swapped", *(f"{max(row.kept.values()):.4f}" for row in found))


def _figures(evaluation: Evaluation) -> Iterator[Figure]:
    for a in evaluation.data.attributes:
        title = f"RMSE of {a} by interval (2019: figures 5 and 6)"
        series = _series(evaluation.swapping, lambda row, a=a: row.rmse[a])  # type: ignore[misc]
        yield Figure(title, line_chart(title, "k", f"RMSE({a})", series))
    for pair in evaluation.swapping[0].correlation:
        title = f"sdCor of {pair[0]} and {pair[1]} by interval (2019: Figure 7)"
        series = _series(evaluation.swapping, lambda row, pair=pair: row.correlation[pair])  # type: ignore[misc]
        i, j = (evaluation.data.attributes.index(a) for a in pair)
        series["original"] = [("original", float(evaluation.data.statistics.correlation[i, j]))]
        yield Figure(title, line_chart(title, "k", "sdCor", series), "Dotted: the original, and methods without k.")


def _series(rows: Sequence[SwappingRow], measure: Callable[[SwappingRow], float]) -> dict[str, list[tuple[str, float]]]:
    found: dict[str, list[tuple[str, float]]] = {}
    for row in rows:
        found.setdefault(row.method, []).append((str(row.k) if row.k else "any k", measure(row)))
    return found
