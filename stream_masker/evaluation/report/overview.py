"""The sections that compare all methods: the verdict, utility against risk, numbers, downstream models."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import isinf

from stream_masker.core.risk.risk import Risk
from stream_masker.core.statistics.summary import Statistics
from stream_masker.evaluation.dataset import DataSet
from stream_masker.evaluation.evaluation import Evaluation
from stream_masker.evaluation.measurement import Measurement
from stream_masker.evaluation.report.charts import Point, bar_chart, scatter_chart
from stream_masker.evaluation.report.noise import features_table
from stream_masker.evaluation.report.page import Figure, ReportSection, ReportTable
from stream_masker.summary import three_sentences

RANKED_RECORDS = 1_000
"""The number of records below which the section warns: a share then has a standard error of more than 1.6 %."""

SHOWN_BETTER = 3


def verdict_section(evaluation: Evaluation) -> ReportSection:
    """Return the section with the verdict about the configured method, or about the first one measured."""
    measured = evaluation.measurements
    if not measured:
        return ReportSection("Verdict", ("No method can be measured on these records.",))
    ours = next((one for one in measured if one.candidate.method == "as configured"), measured[0])
    paragraphs = (*_sentences(ours, evaluation.data.statistics), _better(ours, measured), *_warning(evaluation))
    return ReportSection("Verdict", paragraphs)


def _sentences(ours: Measurement, before: Statistics) -> Iterator[str]:
    name = ours.candidate.mechanism.replace("_", " ")
    yield f"{name[0].upper()}{name[1:]}, {ours.candidate.label}:"
    exact = ours.risk if isinstance(ours.risk, Risk) else None
    learned, stays, _ = three_sentences(
        exact, promise=ours.promise, unchanged=ours.risk.unchanged, unchanged_records=ours.unchanged_records
    )
    promised = "Nothing is promised about single records" if ours.promise is None else learned.partition(";")[0]
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
    better = [one.candidate.label for one in measured if _is_better(one, ours)]
    if not better:
        return "No other method measured is better in distance, in what an attacker learns and in correlation at once."
    more = f" and {len(better) - SHOWN_BETTER} more" if len(better) > SHOWN_BETTER else ""
    return (
        "Better in distance, in what an attacker learns and in correlation at once: "
        f"{'; '.join(better[:SHOWN_BETTER])}{more}."
    )


def _is_better(one: Measurement, ours: Measurement) -> bool:
    mine = (ours.rmse, ours.vulnerability, ours.correlation_error)
    other = (one.rmse, one.vulnerability, one.correlation_error)
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
    if not measured:
        return ReportSection("Utility against risk")
    return ReportSection(
        "Utility against risk",
        (
            "Each point is a method with its parameters. Far to the left, masked values are close to the originals. "
            "Far down, the best guess of an attacker is seldom right. Dark points keep the correlation of the "
            "attributes. A point is worth considering if no other one is further left, further down and darker.",
            "The attacker knows the method, its parameters and the distribution of the original records, but not the "
            "secret, and guesses the original of each masked value. Vulnerability is the chance that the guess is "
            "right, for the worst attribute. It is exact where the table says so. Otherwise it is the success rate of "
            "an attack that masks the same records under other secrets, which is a lower bound.",
        ),
        (risk_figure(measured), *_risk_tables(measured)),
    )


def risk_figure(measured: Sequence[Measurement], limits: tuple[float | None, float | None] = (None, None)) -> Figure:
    """Return a chart of RMSE against vulnerability, coloured by ΔsdCor.

    ``limits``: an RMSE and a vulnerability to mark with lines.
    """
    worst = max(max((one.correlation_error for one in measured), default=0.0), 0.05)
    points = [
        Point(one.rmse, one.vulnerability, one.correlation_error / worst, family(one), _tip(one)) for one in measured
    ]
    title = "Utility against risk"
    svg = scatter_chart(
        title, "RMSE (distance of masked values)", "vulnerability", points, scale=("ΔsdCor", 0.0, worst), limits=limits
    )
    return Figure(title, svg, "Greatest RMSE, vulnerability and ΔsdCor of the attributes and pairs.")


def family(one: Measurement) -> str:
    """Return the name of the mechanism as text."""
    return one.candidate.mechanism.replace("_", " ")


def _tip(one: Measurement) -> str:
    figures = f"RMSE {one.rmse:.3f}, vulnerability {one.vulnerability:.3f}, ΔsdCor {one.correlation_error:.3f}"
    return f"{one.candidate.label}: {figures}"


def _risk_tables(measured: Sequence[Measurement]) -> Iterator[ReportTable]:
    """Yield the tables of all methods: utility against risk, and more about the risk."""
    note = "Figures are those of the worst attribute or pair."
    for title, columns in (("All methods", MAIN_COLUMNS), ("All methods: more about the risk", RISK_COLUMNS)):
        rows = tuple((one.candidate.label, *(column.text(one) for column in columns)) for one in measured)
        header = ("method", *(column.name for column in columns))
        yield ReportTable(title, header, rows, note, {column.name: column.meaning for column in columns})


@dataclass(frozen=True, slots=True)
class FigureColumn:
    """A column of figures of methods, and what they mean. ``text``: returns the cell of a measurement."""

    name: str
    meaning: str
    text: Callable[[Measurement], str]


def _share(value: float | None) -> str:
    return "–" if value is None else f"{value:.3f}"


MAIN_COLUMNS = (
    FigureColumn(
        "distance (RMSE)",
        "How far masked codes are from the originals: the root mean square of the semantic distance, 0 for equal "
        "codes, at most 1.",
        lambda one: _share(one.rmse),
    ),
    FigureColumn(
        "right guesses (vulnerability)",
        "The chance that an attacker's best guess of a code is right.",
        lambda one: _share(one.vulnerability),
    ),
    FigureColumn(
        "right guesses of records",
        "The chance that the best guess of all codes of a record is right.",
        lambda one: _share(one.risk.vulnerability_of_record),
    ),
    FigureColumn(
        "right guesses after repeats",
        "The chance for a code, from all masks of five records with equal values and independent noise; – if unknown.",
        lambda one: _share(None if one.repeated is None else _worst(one.repeated)),
    ),
    FigureColumn(
        "unchanged codes",
        "The share of codes that masking leaves as they are.",
        lambda one: _share(_worst(one.risk.unchanged)),
    ),
    FigureColumn(
        "unchanged records",
        "The share of records of which masking changes no code.",
        lambda one: _share(one.unchanged_records),
    ),
    FigureColumn(
        "change of correlation (ΔsdCor)",
        "The difference between the correlation of two attributes before and after masking.",
        lambda one: _share(one.correlation_error),
    ),
    FigureColumn(
        "move of the mean",
        "The semantic distance between the means before and after masking.",
        lambda one: f"{max((u.mean_distance for u in one.utility.attributes.values()), default=0.0):.2f}",
    ),
    FigureColumn(
        "risk",
        "Exact: computed from the transition probabilities. Attack: the success of an attack, which is a lower bound.",
        lambda one: "exact" if isinstance(one.risk, Risk) else "attack",
    ),
)
RISK_COLUMNS = (
    FigureColumn(
        "sure guesses",
        "The share of codes that the attacker guesses with a probability above 0.9.",
        lambda one: _share(_worst(one.risk.certain)),
    ),
    FigureColumn(
        "linked records",
        "The expected share of records that an intruder who knows all originals links to their masked records.",
        lambda one: _share(one.linked),
    ),
    FigureColumn(
        "equal records (anonymity)",
        "The number of records in the smallest set of equal masked records.",
        lambda one: str(one.anonymity),
    ),
    FigureColumn(
        "unique before", "The share of records that no other record equals.", lambda one: _share(one.unique["original"])
    ),
    FigureColumn("unique after", "The same of the masked records.", lambda one: _share(one.unique["masked"])),
    FigureColumn(
        "ε",
        "The ε of differential privacy between two codes of an attribute; – if unknown.",
        lambda one: epsilon_text(one.risk.epsilon),
    ),
)


def epsilon_text(epsilon: Mapping[str, float | None]) -> str:
    """Return the greatest ε of the attributes: ∞ if it is infinite, – if one is unknown."""
    known = [value for value in epsilon.values() if value is not None]
    if len(known) < len(epsilon) or not known:
        return "–"
    return "∞" if isinf(max(known)) else f"{max(known):.2f}"


def _worst(shares: Mapping[str, float]) -> float:
    return max(shares.values(), default=0.0)


def numeric_section(evaluation: Evaluation) -> ReportSection:
    """Return the utility of numeric attributes, for the methods that mask them."""
    with_numbers = [one for one in evaluation.measurements if one.utility.numeric]
    if not with_numbers:
        return ReportSection("Numeric attributes")
    names, pairs = list(with_numbers[0].utility.numeric), list(with_numbers[0].utility.numeric_pairs)
    header = ("method", *(text for a in names for text in (f"{a}: mean", f"{a}: variance")), *map(_pair_name, pairs))
    rows = tuple((one.candidate.label, *_numeric_cells(one, names, pairs)) for one in with_numbers)
    text = (
        "Mean: the difference of the means in standard deviations. Variance: the ratio of masked to original "
        "variance, which is 1 + α for noise. The other columns are the differences of Pearson's correlation."
    )
    return ReportSection("Numeric attributes", (text,), (ReportTable("Numbers (2017: section 3)", header, rows),))


def _pair_name(pair: tuple[str, str]) -> str:
    return f"Δρ({pair[0]}, {pair[1]})"


def _numeric_cells(one: Measurement, names: Sequence[str], pairs: Sequence[tuple[str, str]]) -> Iterator[str]:
    for name in names:
        yield f"{one.utility.numeric[name].mean_difference:.3f}"
        yield f"{one.utility.numeric[name].variance_ratio:.3f}"
    yield from (f"{one.utility.numeric_pairs[pair].correlation_error:.3f}" for pair in pairs)


def downstream_section(evaluation: Evaluation) -> ReportSection:
    """Return the accuracy of models that learn from masked records."""
    predicted = [one for one in evaluation.measurements if one.predictions]
    if not predicted:
        return ReportSection("Models that learn from masked records")
    first = predicted[0].predictions
    header = ("method", "RMSE", *(f"{p.source} → chapter of {p.target}" for p in first))
    rows = [("original records", "0.000", *(f"{p.original:.3f}" for p in first))]
    rows += [
        (one.candidate.label, f"{one.rmse:.3f}", *(f"{p.masked:.3f}" for p in one.predictions)) for one in predicted
    ]
    rows.append(("most frequent chapter", "", *(f"{p.majority:.3f}" for p in first)))
    text = (
        "Naive Bayes learns from half of the records, masked, and predicts the chapter of one attribute (a child of "
        "the root) from the codes of another in the other half, unmasked. The figures are shares of correct "
        "predictions. Compare methods of similar RMSE.",
    )
    return ReportSection(
        "Models that learn from masked records",
        text,
        (_accuracy_figure(predicted), ReportTable("Accuracy", header, tuple(rows))),
    )


def _accuracy_figure(predicted: Sequence[Measurement]) -> Figure:
    """Return the accuracy of each method at the greatest RMSE that is at most that of the median candidate."""
    middle = sorted(one.rmse for one in predicted)[len(predicted) // 2]
    best: dict[str, Measurement] = {}
    for one in predicted:
        if one.rmse <= middle and (one.candidate.method not in best or one.rmse > best[one.candidate.method].rmse):
            best[one.candidate.method] = one
    bars = [(f"{method} ({one.rmse:.2f})", one.predictions[0].masked) for method, one in best.items()]
    first = predicted[0].predictions[0]
    title = f"Accuracy of {first.source} → chapter of {first.target}"
    svg = bar_chart(title, "accuracy", bars, mark=("original", first.original))
    return Figure(
        title, svg, f"The strongest setting of each method with an RMSE of at most {middle:.3f} (in brackets)."
    )


def rejected_section(evaluation: Evaluation) -> ReportSection:
    """Return the methods that cannot be applied to these data."""
    if not evaluation.rejected:
        return ReportSection("Not applicable")
    rows = tuple((one.label, one.reason) for one in evaluation.rejected)
    return ReportSection(
        "Not applicable", (), (ReportTable("Methods that cannot be applied to these data", ("method", "reason"), rows),)
    )
