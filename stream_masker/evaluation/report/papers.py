"""The tables and figures of the papers: VICUS (2012), microaggregation (2013), noise (2016, 2017), swapping (2019)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import product
from typing import NamedTuple

from stream_masker.core.ontology import Taxonomy
from stream_masker.core.utility import AttributeUtility, PairUtility
from stream_masker.evaluation.candidates import NOISE_METHODS, ROUNDINGS_COMPARED
from stream_masker.evaluation.co_occurrence import CoOccurrence, EntropyRow, Similarities
from stream_masker.evaluation.evaluation import ALPHAS_2016, METHODS_2016, Evaluation
from stream_masker.evaluation.grouped import SseRow, SwappingRow
from stream_masker.evaluation.measurement import Measurement
from stream_masker.evaluation.report.charts import line_chart
from stream_masker.evaluation.report.page import Figure, ReportSection, ReportTable, explanations, section

TABLES_OF_2019 = {"Algorithm 1": "Table 2", "Algorithm 2": "Table 3", "Algorithm 3": "Tables 4 to 6"}


def swapping_section(evaluation: Evaluation) -> ReportSection:
    """Return the section of rank swapping; empty if it was not measured."""
    return section("Rank swapping (2019)", swapping_tables(evaluation.swapping), _swapping_figures(evaluation))


def swapping_tables(rows: Sequence[SwappingRow]) -> Iterator[ReportTable]:
    """Yield a table for each method: metrics by k."""
    for method in dict.fromkeys(row.method for row in rows):
        of_method = [row for row in rows if row.method == method]
        title = f"{method} (2019: {TABLES_OF_2019[method]})"
        yield ReportTable(
            title,
            ("metric", *(f"k = {row.k}" for row in of_method)),
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
    lines = [FigurePoint(row.method, str(row.k), row.rmse, row.correlation) for row in evaluation.swapping]
    titles = "interval (2019: figures 5 and 6)", "interval (2019: Figure 7)"
    return _figures(evaluation, "k", lines, titles, ("", "Dotted: the original."))


class FigurePoint(NamedTuple):
    """A point of each figure: the method, its setting, the RMSE of each attribute, and the sdCor of each pair."""

    method: str
    setting: str
    rmse: Mapping[str, float]
    correlation: Mapping[tuple[str, str], float]


def _figures(
    evaluation: Evaluation, x_label: str, lines: Sequence[FigurePoint], titles: tuple[str, str], notes: tuple[str, str]
) -> Iterator[Figure]:
    """Yield a figure of the RMSE of each attribute, and one of the sdCor of each pair, with that of the original."""
    for a in evaluation.data.attributes if lines else ():
        title = f"RMSE of {a} by {titles[0]}"
        series = _series((line.method, line.setting, line.rmse[a]) for line in lines)
        yield Figure(title, line_chart(title, x_label, f"RMSE({a})", series), notes[0])
    for pair in lines[0].correlation if lines else ():
        title = f"sdCor of {pair[0]} and {pair[1]} by {titles[1]}"
        series = _series((line.method, line.setting, line.correlation[pair]) for line in lines)
        i, j = (evaluation.data.attributes.index(a) for a in pair)
        series["original"] = [("original", float(evaluation.data.statistics.correlation[i, j]))]
        yield Figure(title, line_chart(title, x_label, "sdCor", series), notes[1])


def _series(points: Iterable[tuple[str, str, float]]) -> dict[str, list[tuple[str, float]]]:
    """Return points as settings and values, by the name that they begin with."""
    series: dict[str, list[tuple[str, float]]] = {}
    for name, setting, value in points:
        series.setdefault(name, []).append((setting, value))
    return series


def aggregation_section(evaluation: Evaluation) -> ReportSection:
    """Return the section of microaggregation; empty if it was not measured."""
    rows = evaluation.errors
    return section("Microaggregation (2013)", [errors_table(rows)] if rows else (), _error_figures(rows))


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
    for a in rows[0].sse if rows else ():
        title = f"SSE of {a} by k"
        series = _series((row.variant, str(row.k), row.sse[a]) for row in rows)
        yield Figure(title, line_chart(title, "k", f"SSE({a})", series))


def transition_section(evaluation: Evaluation) -> ReportSection:
    """Return the section of VICUS; empty if it was not measured."""
    measured = evaluation.co_occurrence
    if measured is None:
        return ReportSection("VICUS (2012)")
    association = association_figure(measured, "The pair with the greatest χ² of the original.")
    others = entropy_table(measured.entropies), knowledge_figure(measured), association
    similarities = _similarity_tables(measured.similarities)
    return section("VICUS (2012)", similarities, others, confidential=measured.confidential)


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
    series = _series(
        point
        for row in measured.by_knowledge
        for point in (
            (f"{row.method}, record", str(row.known), row.record),
            (f"{row.method}, confidential", str(row.known), row.confidential),
        )
    )
    title = "Entropy by the number of known attributes (2012: Figure 5)"
    return Figure(title, line_chart(title, "known attributes", "entropy in bits", series), "k1 = 5, k2 = 20.")


def association_figure(measured: CoOccurrence, note: str = "") -> Figure:
    """Return χ² of a pair of attributes in the original file and in masked ones (Figure 7). ``note``: for the
    caption."""
    series = {method: [(str(i), value) for i, value in enumerate(values, 1)] for method, values in measured.files}
    series["original"] = [("original", measured.original)]
    title = f"χ² of {measured.pair[0]} and {measured.pair[1]} (2012: Figure 7)"
    chart = line_chart(title, "masked file", "Pearson's χ²", series)
    return Figure(title, chart, f"k1 = 5, k2 = 20. {note}".strip())


TABLE_NUMBERS = {
    "Uncorrelated-Algorithm1": "Table 2",
    "Correlated-Algorithm1": "Tables 3 and 7",
    "Correlated-Algorithm2": "Table 4",
    "Correlated-Algorithm3": "Table 8",
}

ALL_LEVELS = ("Correlated-Algorithm1", "ceil")
"""A method and rounding that are measured for every noise level of the tables of 2017."""

DISTORTIONS = {"naive_distortion": "Naive distortion", "probabilistic_distortion": "Probabilistic distortion"}
"""The baselines of figures 6 to 8."""


def features_table(evaluation: Evaluation) -> ReportTable:
    """Return the semantic features of the data (2017: tables 1 and 6; 2019: Table 1)."""
    data, statistics = evaluation.data, evaluation.data.statistics
    rows = [(f"mean of {a} (sMean)", named(data.taxonomies[a], statistics.mean[a])) for a in data.attributes]
    rows += [(f"variance of {a} (sVar)", f"{statistics.variance[a]:.4f}") for a in data.attributes]
    for i, a in enumerate(data.attributes):
        rows.append((f"distance variance of {a} (sdVar)", f"{statistics.covariance[i, i]:.4f}"))
        for j, b in list(enumerate(data.attributes))[i + 1 :]:
            rows.append((f"distance covariance of {a} and {b} (sdCov)", f"{statistics.covariance[i, j]:.4f}"))
            rows.append((f"correlation of {a} and {b} (sdCor)", f"{statistics.correlation[i, j]:.4f}"))
    title = "Semantic features (2017: tables 1 and 6; 2019: Table 1)"
    return ReportTable(title, ("feature", "value"), tuple(rows), explained=explanations(FEATURES))


FEATURES = (
    "mean (sMean)",
    "variance (sVar)",
    "distance variance (sdVar), distance covariance (sdCov)",
    "correlation (sdCor)",
)


def named(taxonomy: Taxonomy, concept: str) -> str:
    """Return a concept followed by its label, if it has one."""
    label = taxonomy.labels[taxonomy.position(concept)]
    return f"{concept} {label}" if label and label != concept else concept


def noise_section(evaluation: Evaluation) -> ReportSection:
    """Return the section of semantic noise; empty if it was not measured."""
    measured = [m for m in evaluation.of("semantic_noise") if m.candidate.method in NOISE_METHODS]
    levels = {m.candidate.options["alpha"] for m in measured if m.candidate.is_noise(*ALL_LEVELS)}
    if not levels:
        return ReportSection("Semantic noise (2017, 2016)")
    compared = [m for m in measured if m.candidate.options["alpha"] in levels]
    return section(
        "Semantic noise (2017, 2016)",
        _method_tables(compared),
        _noise_figures(evaluation, compared),
        _means(evaluation, compared),
        _of_2016(measured),
    )


def by_alpha(measured: Sequence[Measurement], method: str, rounding: str) -> list[Measurement]:
    """Return the measurements of a method and rounding in the order of α."""
    levels = [m for m in measured if m.candidate.is_noise(method, rounding)]
    return sorted(levels, key=lambda m: float(m.candidate.options["alpha"]))


def _method_tables(measured: Sequence[Measurement]) -> Iterator[ReportTable]:
    for method, rounding in product(NOISE_METHODS, ROUNDINGS_COMPARED):
        if by_level := by_alpha(measured, method, rounding):
            title = f"{method}, {rounding} (2017: {TABLE_NUMBERS[method]})"
            yield noise_table(title, by_level, [_alpha(m) for m in by_level])


def noise_table(title: str, compared: Sequence[Measurement], columns: Sequence[str]) -> ReportTable:
    """Return the metrics of measurements, as in the tables of 2016 and 2017."""
    rows: list[tuple[str, ...]] = []
    for a in compared[0].utility.attributes:
        each = [m.utility.attributes[a] for m in compared]
        rows += [(f"sMean({a}*)", *(m.means[a] for m in compared)), *_attribute_rows(a, each)]
    for a, b in compared[0].utility.pairs:
        rows += _pair_rows(a, b, [m.utility.pairs[a, b] for m in compared])
    return ReportTable(title, ("metric", *columns), tuple(rows))


def _alpha(m: Measurement) -> str:
    return f"α = {m.candidate.options['alpha']:g}"


def _attribute_rows(a: str, each: Sequence[AttributeUtility]) -> Iterator[tuple[str, ...]]:
    yield (f"sd(sMean({a}*), sMean({a}))", *(f"{u.mean_distance:.2f}" for u in each))
    yield (
        f"sVar({a}*), |sVar({a}*) − (1+α)·sVar({a})|",
        *(f"{u.variance:.3f}, {u.variance_error:.3f}" for u in each),
    )
    yield (f"RMSE({a}) actual, target", *(f"{u.rmse_actual:.3f}, {u.rmse_target:.3f}" for u in each))


def _pair_rows(a: str, b: str, each: Sequence[PairUtility]) -> Iterator[tuple[str, ...]]:
    yield (f"sdCov({a}*, {b}*), error", *(f"{u.covariance:.3f}, {u.covariance_error:.3f}" for u in each))
    yield (f"sdCor({a}*, {b}*), error", *(f"{u.correlation:.3f}, {u.correlation_error:.3f}" for u in each))


def _noise_figures(evaluation: Evaluation, measured: Sequence[Measurement]) -> Iterator[Figure]:
    noise = (
        (f"{method}, {rounding}", f"{m.candidate.options['alpha']:g}", m)
        for method, rounding in product(NOISE_METHODS, ROUNDINGS_COMPARED)
        for m in by_alpha(measured, method, rounding)
    )
    baselines = ((label, label, m) for name, label in DISTORTIONS.items() for m in evaluation.of(name))
    lines = [
        FigurePoint(
            method,
            setting,
            {a: utility.rmse_actual for a, utility in m.utility.attributes.items()},
            {pair: utility.correlation for pair, utility in m.utility.pairs.items()},
        )
        for method, setting, m in (*noise, *baselines)
    ]
    titles = "noise level (2017: figures 6 and 7)", "noise level (2017: Figure 8)"
    notes = "Dotted: methods without a noise level.", "Dotted: the original, and methods without noise."
    return _figures(evaluation, "α", lines, titles, notes)


def _means(evaluation: Evaluation, measured: Sequence[Measurement]) -> Iterator[ReportTable]:
    strongest = [levels[-1] for method in NOISE_METHODS if (levels := by_alpha(measured, method, "ceil"))]
    compared = [*(m for name in DISTORTIONS for m in evaluation.of(name)), *strongest]
    rows = tuple(
        (f"sd(sMean({a}*), sMean({a}))", *(f"{m.utility.attributes[a].mean_distance:.2f}" for m in compared))
        for a in evaluation.data.attributes
    )
    if strongest:
        yield ReportTable("Semantic mean (2017: Table 5)", ("metric", *(m.candidate.label for m in compared)), rows)


def _of_2016(measured: Sequence[Measurement]) -> Iterator[ReportTable]:
    compared = [
        m
        for method in METHODS_2016
        for m in by_alpha(measured, method, "ceil")
        if m.candidate.options["alpha"] in ALPHAS_2016
    ]
    if compared:
        columns = [f"{m.candidate.method}, {_alpha(m)}" for m in compared]
        yield noise_table("Uncorrelated and correlated noise (2016: Table 1)", compared, columns)
