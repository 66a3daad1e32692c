"""The tables and figures of semantic noise: 2017 (tables 1 to 8, figures 6 to 8) and 2016 (Table 1)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product

from stream_masker.core.ontology import Taxonomy
from stream_masker.core.utility import AttributeUtility, PairUtility
from stream_masker.evaluation.candidates import NOISE_METHODS, ROUNDINGS_COMPARED
from stream_masker.evaluation.evaluation import ALPHAS_2016, Evaluation
from stream_masker.evaluation.measurement import Measurement
from stream_masker.evaluation.report.charts import line_chart
from stream_masker.evaluation.report.page import Figure, ReportSection, ReportTable

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
    return ReportTable(title, ("feature", "value"), tuple(rows), explained=FEATURES)


FEATURES = {
    "mean (sMean)": "The most typical concept: that with the least sum of semantic distances to all codes.",
    "variance (sVar)": "The mean squared semantic distance of the codes to their mean, in [0, 1].",
    "distance variance (sdVar), distance covariance (sdCov)": "How much the distances between codes of one attribute "
    "differ, and how far those of two attributes go together.",
    "correlation (sdCor)": "sdCov in relation to both sdVar: 0 for independent attributes, at most 1.",
}
"""The semantic features, explained."""


def named(taxonomy: Taxonomy, concept: str) -> str:
    """Return a concept followed by its label, if it has one."""
    label = taxonomy.labels[taxonomy.position(concept)]
    return f"{concept} {label}" if label and label != concept else concept


def noise_section(evaluation: Evaluation) -> ReportSection:
    """Return the section of semantic noise; empty if it was not measured."""
    measured = [one for one in evaluation.of("semantic_noise") if one.candidate.method in NOISE_METHODS]
    levels = {one.candidate.options["alpha"] for one in measured if one.candidate.is_noise(*ALL_LEVELS)}
    if not levels:
        return ReportSection("Semantic noise (2017, 2016)")
    compared = [one for one in measured if one.candidate.options["alpha"] in levels]
    return ReportSection(
        "Semantic noise (2017, 2016)",
        (
            "Algorithm 1 keeps the mean, Algorithm 2 the correlation of two attributes of one taxonomy, Algorithm 3 "
            "that of any attributes. `ceil` is the rounding of the papers, `calibrated` that of stream-masker, whose "
            "actual RMSE meets the target. Differences are zero if a statistic is kept perfectly.",
        ),
        (
            *_method_tables(compared),
            *_figures(evaluation, compared),
            *_means(evaluation, compared),
            *_of_2016(measured),
        ),
    )


def by_alpha(measured: Sequence[Measurement], method: str, rounding: str) -> list[Measurement]:
    """Return the measurements of a method and rounding in the order of α."""
    levels = [one for one in measured if one.candidate.is_noise(method, rounding)]
    return sorted(levels, key=lambda one: float(one.candidate.options["alpha"]))


def _method_tables(measured: Sequence[Measurement]) -> Iterator[ReportTable]:
    for method, rounding in product(NOISE_METHODS, ROUNDINGS_COMPARED):
        if by_level := by_alpha(measured, method, rounding):
            title = f"{method}, {rounding} (2017: {TABLE_NUMBERS[method]})"
            yield noise_table(title, by_level, [_alpha(one) for one in by_level])


def noise_table(title: str, compared: Sequence[Measurement], columns: Sequence[str]) -> ReportTable:
    """Return the metrics of measurements, as in the tables of 2016 and 2017."""
    rows: list[tuple[str, ...]] = []
    for a in compared[0].utility.attributes:
        each = [one.utility.attributes[a] for one in compared]
        rows += [(f"sMean({a}*)", *(one.means[a] for one in compared)), *_attribute_rows(a, each)]
    for a, b in compared[0].utility.pairs:
        rows += _pair_rows(a, b, [one.utility.pairs[a, b] for one in compared])
    return ReportTable(title, ("metric", *columns), tuple(rows))


def _alpha(one: Measurement) -> str:
    return f"α = {one.candidate.options['alpha']:g}"


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


def _figures(evaluation: Evaluation, measured: Sequence[Measurement]) -> Iterator[Figure]:
    attributes = evaluation.data.attributes
    for a in attributes:
        series = {
            label: [(name, one.utility.attributes[a].rmse_actual) for name, one in points]
            for label, points in _lines(evaluation, measured)
        }
        title = f"RMSE of {a} by noise level (2017: figures 6 and 7)"
        yield Figure(title, line_chart(title, "α", f"RMSE({a})", series), "Dotted: methods without a noise level.")
    for pair in measured[0].utility.pairs:
        series = {
            label: [(name, one.utility.pairs[pair].correlation) for name, one in points]
            for label, points in _lines(evaluation, measured)
        }
        i, j = (attributes.index(a) for a in pair)
        series["original"] = [("original", float(evaluation.data.statistics.correlation[i, j]))]
        title = f"sdCor of {pair[0]} and {pair[1]} by noise level (2017: Figure 8)"
        yield Figure(title, line_chart(title, "α", "sdCor", series), "Dotted: the original, and methods without noise.")


def _lines(
    evaluation: Evaluation, measured: Sequence[Measurement]
) -> Iterator[tuple[str, list[tuple[str, Measurement]]]]:
    for method, rounding in product(NOISE_METHODS, ROUNDINGS_COMPARED):
        if by_level := by_alpha(measured, method, rounding):
            yield f"{method}, {rounding}", [(f"{one.candidate.options['alpha']:g}", one) for one in by_level]
    for name, label in DISTORTIONS.items():
        for one in evaluation.of(name):
            yield label, [(label, one)]


def _means(evaluation: Evaluation, measured: Sequence[Measurement]) -> Iterator[ReportTable]:
    strongest = [levels[-1] for method in NOISE_METHODS if (levels := by_alpha(measured, method, "ceil"))]
    compared = [*(one for name in DISTORTIONS for one in evaluation.of(name)), *strongest]
    rows = tuple(
        (f"sd(sMean({a}*), sMean({a}))", *(f"{one.utility.attributes[a].mean_distance:.2f}" for one in compared))
        for a in evaluation.data.attributes
    )
    if strongest:
        yield ReportTable("Semantic mean (2017: Table 5)", ("metric", *(one.candidate.label for one in compared)), rows)


def _of_2016(measured: Sequence[Measurement]) -> Iterator[ReportTable]:
    compared = [
        one
        for method in ("Uncorrelated-Algorithm1", "Correlated-Algorithm2")
        for one in by_alpha(measured, method, "ceil")
        if one.candidate.options["alpha"] in ALPHAS_2016
    ]
    if compared:
        columns = [f"{one.candidate.method}, {_alpha(one)}" for one in compared]
        yield noise_table("Uncorrelated and correlated noise (2016: Table 1)", compared, columns)
