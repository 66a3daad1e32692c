"""The sections that compare all methods: the verdict, utility against risk, numbers, downstream models."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TypeAlias

from stream_masker.core.risk.risk import Risk
from stream_masker.core.statistics.summary import Statistics
from stream_masker.evaluation.dataset import DataSet
from stream_masker.evaluation.evaluation import Evaluation
from stream_masker.evaluation.measurement import Measurement
from stream_masker.evaluation.report.charts import Point, scatter_chart
from stream_masker.evaluation.report.page import Figure, ReportSection, ReportTable, explanations, section
from stream_masker.evaluation.report.papers import features_table
from stream_masker.summary import three_sentences

RANKED_RECORDS = 1_000
"""The number of records below which the section warns: a share then has a standard error of more than 1.6 %."""

SHOWN_BETTER = 3


def verdict_section(evaluation: Evaluation) -> ReportSection:
    """Return the section with the verdict about the configured method, or about the first one measured."""
    measured = evaluation.measurements
    if not measured:
        return ReportSection("Verdict", ("No method can be measured on these records.",))
    ours = next((m for m in measured if m.candidate.method == "as configured"), measured[0])
    paragraphs = (*_sentences(ours, evaluation.data.statistics), _better(ours, measured), *_warning(evaluation))
    return ReportSection("Verdict", paragraphs)


def _sentences(ours: Measurement, before: Statistics) -> Iterator[str]:
    yield f"{family(ours).capitalize()}, {ours.candidate.label}:"
    exact = ours.risk if isinstance(ours.risk, Risk) else None
    learned, stays, _ = three_sentences(
        exact,
        promise=ours.promise,
        unchanged=ours.risk.unchanged,
        unchanged_records=ours.unchanged_records,
        incomplete=ours.incomplete,
    )
    is_promised = ours.promise is not None and not ours.incomplete
    promised = learned.partition(";")[0] if is_promised else "Nothing is promised about single records"
    measured = f"the best guess of a code was right in {ours.vulnerability:.0%} of the cases of an attack."
    yield f"{promised}; {measured}" if exact is None else learned
    yield stays
    yield _kept(ours, before)


def _kept(ours: Measurement, before: Statistics) -> str:
    moved = [name for name, mean in ours.means.items() if mean != before.mean[name]]
    means = f"the means of {', '.join(moved)} move" if moved else "every mean stays the same concept"
    change = max(abs(ours.utility.attributes[a].variance - before.variance[a]) for a in before.attributes)
    pairs = f" and correlations by at most {ours.correlation_error:.3f}" if ours.utility.pairs else ""
    return f"{means[0].upper()}{means[1:]}, dispersions change by at most {change:.3f}{pairs}."


def _better(ours: Measurement, measured: Sequence[Measurement]) -> str:
    """Return which methods measured are better in all three respects."""
    better = [m.candidate.label for m in measured if _is_better(m, ours)]
    aims = "in distance, in what an attacker learns and in correlation at once"
    if not better:
        return f"No other method measured is better {aims}."
    more = f" and {len(better) - SHOWN_BETTER} more" if len(better) > SHOWN_BETTER else ""
    return f"Better {aims}: {'; '.join(better[:SHOWN_BETTER])}{more}."


def _is_better(m: Measurement, ours: Measurement) -> bool:
    mine = (ours.rmse, ours.vulnerability, ours.correlation_error)
    other = (m.rmse, m.vulnerability, m.correlation_error)
    return other != mine and all(a <= b for a, b in zip(other, mine, strict=True))


def _warning(evaluation: Evaluation) -> Iterator[str]:
    records = evaluation.data.whole.size
    if records < RANKED_RECORDS:
        error = 0.5 / max(records, 1) ** 0.5
        yield (
            f"Warning: {records:,} records are too few to rank methods. Shares have a standard error of up to "
            f"{error:.1%}: smaller differences are chance."
        )


def data_section(evaluation: Evaluation) -> ReportSection:
    """Return the section with the number of records and their statistics."""
    data = evaluation.data
    numeric = f" and the numbers {', '.join(data.numeric)}" if data.numeric else ""
    text = f"{data.whole.size:,} records with the nominal attributes {', '.join(data.attributes)}{numeric}."
    return ReportSection("The data", (text, *_origin(data)), (features_table(evaluation),))


def _origin(data: DataSet) -> Iterator[str]:
    if data.available is not None:
        yield f"They are a random sample of {data.available:,}, always the same one."
    if data.left_out:
        yield f"{data.left_out:,} events of the file are left out, because they cannot be masked as configured."


def risk_section(evaluation: Evaluation) -> ReportSection:
    """Return the section on utility against risk: a chart and a table."""
    measured = evaluation.measurements
    return section("Utility against risk", [risk_figure(measured)] if measured else [], _risk_tables(measured))


def risk_figure(measured: Sequence[Measurement], limits: tuple[float | None, float | None] = (None, None)) -> Figure:
    """Return a chart of RMSE against vulnerability, coloured by ΔsdCor.

    ``limits``: an RMSE and a vulnerability to mark with lines.
    """
    title = "Utility against risk"
    svg = _scatter(title, "vulnerability", [(m, m.vulnerability) for m in measured], limits)
    return Figure(title, svg, "Greatest RMSE, vulnerability and ΔsdCor of the attributes and pairs.")


def _scatter(
    title: str, label: str, values: Sequence[tuple[Measurement, float]], limits: tuple[float | None, float | None]
) -> str:
    """Return a chart of a value of each measurement against its RMSE, coloured by ΔsdCor."""
    worst = max([0.05, *(m.correlation_error for m, _ in values)])
    points = [Point(m.rmse, y, m.correlation_error / worst, family(m), _tip(m)) for m, y in values]
    x_label, scale = "RMSE (distance of masked values)", ("ΔsdCor", 0.0, worst)
    return scatter_chart(title, x_label, label, points, scale=scale, limits=limits)


def family(m: Measurement) -> str:
    """Return the name of the mechanism as text."""
    return m.candidate.mechanism.replace("_", " ")


def _tip(m: Measurement) -> str:
    figures = f"RMSE {m.rmse:.3f}, vulnerability {m.vulnerability:.3f}, ΔsdCor {m.correlation_error:.3f}"
    return f"{m.candidate.label}: {figures}"


def _risk_tables(measured: Sequence[Measurement]) -> Iterator[ReportTable]:
    """Yield the tables of all methods: utility against risk, and more about the risk."""
    note = "Figures are those of the worst attribute or pair."
    for title, columns in (("All methods", MAIN_COLUMNS), ("All methods: more about the risk", RISK_COLUMNS)):
        rows = tuple((m.candidate.label, *(text(m) for text in columns.values())) for m in measured)
        if rows:
            yield ReportTable(title, ("method", *columns), rows, note, explanations(columns))


def _share(value: float | None) -> str:
    return "–" if value is None else f"{value:.3f}"


MethodColumns: TypeAlias = Mapping[str, Callable[[Measurement], str]]
"""The columns of a table of methods; ``page.txt`` says what each means."""

MAIN_COLUMNS: MethodColumns = {
    "distance (RMSE)": lambda m: _share(m.rmse),
    "right guesses (vulnerability)": lambda m: _share(m.vulnerability),
    "right guesses from all masks": lambda m: _share(m.vulnerability_of_record),
    "unchanged codes": lambda m: _share(_worst(m.risk.unchanged.values())),
    "unchanged records": lambda m: _share(m.unchanged_records),
    "change of correlation (ΔsdCor)": lambda m: _share(m.correlation_error),
    "move of the mean": lambda m: f"{_worst(u.mean_distance for u in m.utility.attributes.values()):.2f}",
    "risk": lambda m: "exact" if isinstance(m.risk, Risk) else "attack",
}
RISK_COLUMNS: MethodColumns = {
    "sure guesses": lambda m: _share(m.certain),
    "linked records": lambda m: _share(m.linked),
    "equal records (anonymity)": lambda m: str(m.anonymity),
    "unique before": lambda m: _share(m.unique["original"]),
    "unique after": lambda m: _share(m.unique["masked"]),
}


def _worst(figures: Iterable[float]) -> float:
    return max(figures, default=0.0)


def numeric_section(evaluation: Evaluation) -> ReportSection:
    """Return the utility of numeric attributes, for the methods that mask them."""
    with_numbers = [m for m in evaluation.measurements if m.utility.numeric]
    if not with_numbers:
        return ReportSection("Numeric attributes")
    names, pairs = list(with_numbers[0].utility.numeric), list(with_numbers[0].utility.numeric_pairs)
    of_names = (text for a in names for text in (f"{a}: mean", f"{a}: variance"))
    header = ("method", *of_names, *(f"Δρ({a}, {b})" for a, b in pairs))
    rows = tuple((m.candidate.label, *_numeric_cells(m, names, pairs)) for m in with_numbers)
    table = ReportTable("Numbers (2017: section 3)", header, rows)
    return section("Numeric attributes", [table])


def _numeric_cells(m: Measurement, names: Sequence[str], pairs: Sequence[tuple[str, str]]) -> Iterator[str]:
    for name in names:
        yield f"{m.utility.numeric[name].mean_difference:.3f}"
        yield f"{m.utility.numeric[name].variance_ratio:.3f}"
    yield from (f"{m.utility.numeric_pairs[pair].correlation_error:.3f}" for pair in pairs)


def downstream_section(evaluation: Evaluation) -> ReportSection:
    """Return the accuracy of models that learn from masked records."""
    predicted = [m for m in evaluation.measurements if m.predictions]
    if not predicted:
        return ReportSection("Models that learn from masked records")
    first = predicted[0].predictions
    header = ("method", "RMSE", *(f"{p.source} → chapter of {p.target}" for p in first))
    rows = [("original records", "0.000", *(f"{p.original:.3f}" for p in first))]
    rows += [(m.candidate.label, f"{m.rmse:.3f}", *(f"{p.masked:.3f}" for p in m.predictions)) for m in predicted]
    rows.append(("most frequent chapter", "", *(f"{p.majority:.3f}" for p in first)))
    table = ReportTable("Accuracy", header, tuple(rows))
    return section("Models that learn from masked records", [_accuracy_figure(predicted), table])


def _accuracy_figure(predicted: Sequence[Measurement]) -> Figure:
    """Return a chart of RMSE against the accuracy for the first pair of attributes."""
    first = predicted[0].predictions[0]
    title = f"Accuracy of {first.source} → chapter of {first.target}"
    svg = _scatter(title, "accuracy", [(m, m.predictions[0].masked) for m in predicted], (None, first.original))
    return Figure(title, svg, "The line is the accuracy of a model that learns from the original records.")


def rejected_section(evaluation: Evaluation) -> ReportSection:
    """Return the methods that cannot be applied to these data."""
    rows = tuple((rejection.label, rejection.reason) for rejection in evaluation.rejected)
    table = ReportTable("Methods that cannot be applied to these data", ("method", "reason"), rows)
    return ReportSection("Not applicable", (), (table,) if rows else ())
