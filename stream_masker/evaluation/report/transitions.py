"""The tables and figures of VICUS (2012: tables 2 and 3, figures 5 and 7)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from stream_masker.core.dtypes import Float64Array
from stream_masker.evaluation.co_occurrence import CoOccurrence, EntropyRow, Similarities
from stream_masker.evaluation.evaluation import Evaluation
from stream_masker.evaluation.report.charts import bar_chart, line_chart
from stream_masker.evaluation.report.page import Figure, ReportSection, ReportTable


def transition_section(evaluation: Evaluation) -> ReportSection:
    """Return the section of VICUS; empty if it was not measured."""
    found = evaluation.co_occurrence
    if found is None:
        return ReportSection("VICUS (2012)")
    if found.reason:
        return ReportSection("VICUS (2012)", (f"Not measured: {found.reason}.",))
    return ReportSection(
        "VICUS (2012)",
        (
            f"Entropies are in bits, on average over all records, for an intruder who wants {found.confidential}. The "
            "intruder knows the transition probabilities and the masked file, and some original values of one record. "
            "A greater entropy means a greater uncertainty.",
        ),
        (
            *_similarity_tables(found.similarities),
            entropy_table(found.entropies),
            knowledge_figure(found),
            association_figure(found, "The pair with the greatest χ² of the original."),
        ),
    )


def entropy_table(rows: Sequence[EntropyRow]) -> ReportTable:
    """Return the average record and confidential entropies (Table 3)."""
    header = ("parameters", "record: VICUS", "record: Random", "confidential: VICUS", "confidential: Random")
    cells = {(row.k1, row.k2, row.method): row for row in rows}
    lines = tuple(
        (
            f"k1 = {k1:g}, k2 = {k2:g}",
            *(f"{cells[k1, k2, method].record:.4f}" for method in ("VICUS", "Random")),
            *(f"{cells[k1, k2, method].confidential:.4f}" for method in ("VICUS", "Random")),
        )
        for k1, k2 in dict.fromkeys((row.k1, row.k2) for row in rows)
    )
    return ReportTable("Average entropy if one attribute is known (2012: Table 3)", header, lines)


def _similarity_tables(found: Similarities | None) -> Iterator[ReportTable]:
    if found is None:
        return
    for name, matrix in (("S′", found.direct), ("S″", found.transitive), ("S", found.total)):
        title = f"{name} of the most frequent values of {found.attribute} (2012: Table 2)"
        yield ReportTable(title, ("value", *found.values), tuple(_matrix_rows(found.values, matrix)))


def _matrix_rows(values: Sequence[str], matrix: Float64Array) -> Iterator[tuple[str, ...]]:
    for value, row in zip(values, matrix, strict=True):
        yield (value, *(f"{cell:.3f}" for cell in row))


def knowledge_figure(found: CoOccurrence) -> Figure:
    """Return the entropies by the number of known attributes (Figure 5)."""
    series: dict[str, list[tuple[str, float]]] = {}
    for row in found.by_knowledge:
        series.setdefault(f"{row.method}, record", []).append((str(row.known), row.record))
        series.setdefault(f"{row.method}, confidential", []).append((str(row.known), row.confidential))
    title = "Entropy by the number of known attributes (2012: Figure 5)"
    return Figure(title, line_chart(title, "known attributes", "entropy in bits", series), "k1 = 5, k2 = 20.")


def association_figure(found: CoOccurrence, note: str = "") -> Figure:
    """Return χ² of a pair of attributes in the original file and in masked ones (Figure 7). ``note``: for the
    caption."""
    bars = [(f"{method}, file {i}", value) for method, values in found.files for i, value in enumerate(values, 1)]
    title = f"χ² of {found.pair[0]} and {found.pair[1]} (2012: Figure 7)"
    chart = bar_chart(title, "Pearson's χ²", bars, mark=("original", found.original))
    return Figure(title, chart, f"k1 = 5, k2 = 20. {note}".strip())
