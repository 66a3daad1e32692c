"""The tables of microaggregation (2013: tables 2 to 5)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from stream_masker.evaluation.evaluation import Evaluation
from stream_masker.evaluation.report.charts import line_chart
from stream_masker.evaluation.report.page import Figure, ReportSection, ReportTable
from stream_masker.evaluation.sse import SseRow


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
        (errors_table(evaluation.errors), *_figures(evaluation.errors)),
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


def _figures(rows: Sequence[SseRow]) -> Iterator[Figure]:
    for a in rows[0].sse:
        series: dict[str, list[tuple[str, float]]] = {}
        for row in rows:
            series.setdefault(row.variant, []).append((str(row.k), row.sse[a]))
        title = f"SSE of {a} by k"
        yield Figure(title, line_chart(title, "k", f"SSE({a})", series))
