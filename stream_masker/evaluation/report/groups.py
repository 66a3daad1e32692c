"""The tables and figures of mechanisms that mask groups: microaggregation (2013) and swapping (2019)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from stream_masker.evaluation.evaluation import Evaluation
from stream_masker.evaluation.report.charts import line_chart
from stream_masker.evaluation.report.page import Figure, ReportSection, ReportTable
from stream_masker.evaluation.sse import SseRow
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
        (*swapping_tables(evaluation.swapping), *_swapping_figures(evaluation)),
    )


def swapping_tables(rows: Sequence[SwappingRow]) -> Iterator[ReportTable]:
    """Yield a table for each method: metrics by k."""
    for method in dict.fromkeys(row.method for row in rows):
        of_method = [row for row in rows if row.method == method]
        title = f"{method} (2019: {TABLES_OF_2019.get(method, 'figures 5 to 7')})"
        yield ReportTable(
            title,
            ("metric", *(f"k = {row.k}" if row.k else "any k" for row in of_method)),
            tuple(_swapping_rows(of_method)),
        )


def _swapping_rows(of_method: Sequence[SwappingRow]) -> Iterator[tuple[str, ...]]:
    for a in of_method[0].rmse:
        yield (f"sd(sμ({a}*), sμ({a}))", *(f"{row.mean_distance[a]:.4f}" for row in of_method))
        yield (f"|sdVar({a}*) − sdVar({a})|", *(f"{row.variance_error[a]:.4f}" for row in of_method))
        yield (f"RMSE({a}, {a}*)", *(f"{row.rmse[a]:.4f}" for row in of_method))
    for a, b in of_method[0].correlation:
        yield (f"sdCor({a}*, {b}*)", *(f"{row.correlation[a, b]:.4f}" for row in of_method))
        yield (f"|sdCor({a}*, {b}*) − sdCor({a}, {b})|", *(f"{row.correlation_error[a, b]:.4f}" for row in of_method))
    yield ("linked", *(f"{row.risk:.4f}" for row in of_method))
    yield ("values not swapped", *(f"{max(row.kept.values()):.4f}" for row in of_method))


def _swapping_figures(evaluation: Evaluation) -> Iterator[Figure]:
    for a in evaluation.data.attributes:
        title = f"RMSE of {a} by interval (2019: figures 5 and 6)"
        series = _by_interval(evaluation.swapping, lambda row, a=a: row.rmse[a])  # type: ignore[misc]
        yield Figure(title, line_chart(title, "k", f"RMSE({a})", series))
    for pair in evaluation.swapping[0].correlation:
        title = f"sdCor of {pair[0]} and {pair[1]} by interval (2019: Figure 7)"
        series = _by_interval(evaluation.swapping, lambda row, pair=pair: row.correlation[pair])  # type: ignore[misc]
        i, j = (evaluation.data.attributes.index(a) for a in pair)
        series["original"] = [("original", float(evaluation.data.statistics.correlation[i, j]))]
        yield Figure(title, line_chart(title, "k", "sdCor", series), "Dotted: the original, and methods without k.")


def _by_interval(
    rows: Sequence[SwappingRow], measure: Callable[[SwappingRow], float]
) -> dict[str, list[tuple[str, float]]]:
    series: dict[str, list[tuple[str, float]]] = {}
    for row in rows:
        series.setdefault(row.method, []).append((str(row.k) if row.k else "any k", measure(row)))
    return series


def aggregation_section(evaluation: Evaluation) -> ReportSection:
    """Return the section of microaggregation; empty if it was not measured."""
    if not evaluation.errors:
        return ReportSection("Microaggregation (2013)")
    return ReportSection(
        "Microaggregation (2013)",
        (
            "The file is one group. SSE is the sum of squared distances between original and masked values: the "
            "distance of the paper for codes, the difference for numbers. The semantic variant measures similarity in "
            "the taxonomy, the classic one only equality. Anonymity is the size of the smallest set of equal masked "
            "records.",
        ),
        (errors_table(evaluation.errors), *_error_figures(evaluation.errors)),
    )


def errors_table(rows: Sequence[SseRow]) -> ReportTable:
    """Return SSE by k, attribute and variant."""
    variants = list(dict.fromkeys(row.variant for row in rows))
    cells = {(row.k, row.variant): row for row in rows}
    names = list(rows[0].sse)
    header = ("k", *(f"SSE({a}), {v}" for a in names for v in variants), *(f"anonymity, {v}" for v in variants))
    lines = tuple(
        (
            str(k),
            *(error_text(cells[k, v].sse[a]) for a in names for v in variants),
            *(str(cells[k, v].anonymity) for v in variants),
        )
        for k in dict.fromkeys(row.k for row in rows)
    )
    return ReportTable("Sum of squared errors (2013: tables 2 to 5)", header, lines)


def error_text(error: float) -> str:
    """Format an SSE as in the paper's tables."""
    return f"{error:.2f}" if error < 1e3 else f"{error:.0f}" if error < 1e6 else f"{error:.2E}"


def _error_figures(rows: Sequence[SseRow]) -> Iterator[Figure]:
    for a in rows[0].sse:
        series: dict[str, list[tuple[str, float]]] = {}
        for row in rows:
            series.setdefault(row.variant, []).append((str(row.k), row.sse[a]))
        title = f"SSE of {a} by k"
        yield Figure(title, line_chart(title, "k", f"SSE({a})", series))
