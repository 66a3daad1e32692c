"""The tables and figures of VICUS (2012), microaggregation (2013) and swapping (2019)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from stream_masker.evaluation.co_occurrence import CoOccurrence, EntropyRow, Similarities
from stream_masker.evaluation.evaluation import Evaluation
from stream_masker.evaluation.report.charts import bar_chart, line_chart
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


def transition_section(evaluation: Evaluation) -> ReportSection:
    """Return the section of VICUS; empty if it was not measured."""
    measured = evaluation.co_occurrence
    if measured is None:
        return ReportSection("VICUS (2012)")
    if measured.reason:
        return ReportSection("VICUS (2012)", (f"Not measured: {measured.reason}.",))
    return ReportSection(
        "VICUS (2012)",
        (
            "Entropies are in bits, on average over all records, for an intruder who wants "
            f"{measured.confidential}. The intruder knows the transition probabilities and the masked file, and some "
            "original values of one record. A greater entropy means a greater uncertainty.",
        ),
        (
            *_similarity_tables(measured.similarities),
            entropy_table(measured.entropies),
            knowledge_figure(measured),
            association_figure(measured, "The pair with the greatest χ² of the original."),
        ),
    )


ENTROPY_HEADER = ("record: VICUS", "record: Random", "confidential: VICUS", "confidential: Random")


def entropy_figures(rows: Sequence[EntropyRow]) -> list[float]:
    """Return the entropies of both methods in the order of ``ENTROPY_HEADER``."""
    both = sorted(rows, key=lambda row: row.method != "VICUS")
    return [row.record for row in both] + [row.confidential for row in both]


def entropy_rows(rows: Sequence[EntropyRow]) -> dict[str, list[float]]:
    """Return ``entropy_figures`` by k1 and k2."""
    settings = {(row.k1, row.k2): f"k1 = {row.k1:g}, k2 = {row.k2:g}" for row in rows}
    return {
        text: entropy_figures([row for row in rows if (row.k1, row.k2) == setting])
        for setting, text in settings.items()
    }


def entropy_table(rows: Sequence[EntropyRow]) -> ReportTable:
    """Return the average record and confidential entropies (Table 3)."""
    lines = tuple((text, *(f"{figure:.4f}" for figure in figures)) for text, figures in entropy_rows(rows).items())
    title = "Average entropy if one attribute is known (2012: Table 3)"
    return ReportTable(title, ("parameters", *ENTROPY_HEADER), lines)


def _similarity_tables(similar: Similarities | None) -> Iterator[ReportTable]:
    if similar is None:
        return
    for name, matrix in (("S′", similar.direct), ("S″", similar.transitive), ("S", similar.total)):
        title = f"{name} of the most frequent values of {similar.attribute} (2012: Table 2)"
        lines = zip(similar.values, matrix, strict=True)
        rows = tuple((value, *(f"{cell:.3f}" for cell in line)) for value, line in lines)
        yield ReportTable(title, ("value", *similar.values), rows)


def knowledge_figure(measured: CoOccurrence) -> Figure:
    """Return the entropies by the number of known attributes (Figure 5)."""
    series: dict[str, list[tuple[str, float]]] = {}
    for row in measured.by_knowledge:
        series.setdefault(f"{row.method}, record", []).append((str(row.known), row.record))
        series.setdefault(f"{row.method}, confidential", []).append((str(row.known), row.confidential))
    title = "Entropy by the number of known attributes (2012: Figure 5)"
    return Figure(title, line_chart(title, "known attributes", "entropy in bits", series), "k1 = 5, k2 = 20.")


def association_figure(measured: CoOccurrence, note: str = "") -> Figure:
    """Return χ² of a pair of attributes in the original file and in masked ones (Figure 7). ``note``: for the
    caption."""
    bars = [(f"{method}, file {i}", value) for method, values in measured.files for i, value in enumerate(values, 1)]
    title = f"χ² of {measured.pair[0]} and {measured.pair[1]} (2012: Figure 7)"
    chart = bar_chart(title, "Pearson's χ²", bars, mark=("original", measured.original))
    return Figure(title, chart, f"k1 = 5, k2 = 20. {note}".strip())
