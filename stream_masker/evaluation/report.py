"""The report of an evaluation: an HTML page with the verdict, one table and three figures; its measures as data."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stream_masker.errors import ServiceError, installation_of
from stream_masker.evaluation.measurement import AS_CONFIGURED, Evaluation, Measurement, Recommendation
from stream_masker.summary import three_sentences

if TYPE_CHECKING:
    from matplotlib.axes import Axes

TEMPLATE = Path(__file__).with_name("report.html")

RANKED_RECORDS = 1_000
"""The number of records below which the page warns: a share then has a standard error of more than 1.6 %."""

SHOWN_BETTER = 3


COLUMNS: Mapping[str, tuple[str, Callable[[Measurement], float | None]]] = {
    "distance": (
        "RMSE, the root mean square of the semantic distance between originals and masks: 0 for equal codes, at most 1",
        lambda m: m.rmse,
    ),
    "right guesses": (
        "Vulnerability: the chance that an attacker's best guess of a code is right, from its own mask",
        lambda m: m.vulnerability,
    ),
    "from all masks": (
        "The same from all masks of the record; – if it is not known",
        lambda m: None if m.risk.record is None else max(each.vulnerability for each in m.risk.record.values()),
    ),
    "sure guesses": (
        "The share of codes that the attacker guesses with a probability above 0.9",
        lambda m: max(each.certain for each in m.risk.value.values()),
    ),
    "unchanged codes": (
        "The share of codes that masking leaves as they are",
        lambda m: max(m.risk.unchanged.values(), default=0.0),
    ),
    "unchanged records": ("The share of records of which masking changes no code", lambda m: m.unchanged_records),
    "ΔsdCor": (
        "The difference between the correlation of two attributes before and after masking",
        lambda m: m.correlation_error,
    ),
    "move of the mean": (
        "The semantic distance between the means before and after masking",
        lambda m: max((u.mean_distance for u in m.utility.attributes.values()), default=0.0),
    ),
}
"""The columns of the table: what each means, and its value, None if it is not known. Figures are those of the worst
attribute or pair."""

FIGURES: Mapping[str, tuple[str, str]] = {
    "Utility against risk": (
        "right guesses",
        "Far left, masks are near their originals; far down, an attacker seldom guesses right.",
    ),
    "What all masks of a record tell": (
        "from all masks",
        "The same for an attacker who sees all masks of a record; not of methods that mask groups.",
    ),
    "Utility against correlation": ("ΔsdCor", "Far down, the correlation of attributes is kept."),
}
"""The figures: the column of the vertical axis, and the caption; the horizontal axis is the distance."""


def report_html(evaluation: Evaluation, recommendation: Recommendation | None = None) -> str:
    """Return the report as an HTML page without links to other files.

    Raises ServiceError without the extra ``evaluate``.
    """
    try:
        from jinja2 import Environment
    except ImportError:
        raise ServiceError(f"the report needs jinja2: {installation_of('evaluate')}") from None
    template = Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True).from_string(
        TEMPLATE.read_text(encoding="utf-8")
    )
    measured = evaluation.measurements
    return template.render(
        verdict=[*([recommendation.text] if recommendation else []), *verdict(evaluation)],
        data=list(_described(evaluation)),
        columns={name: meaning for name, (meaning, _) in COLUMNS.items()},
        rows=[(m.candidate.label, *(_text(value(m)) for _, value in COLUMNS.values())) for m in measured],
        figures=[
            {"title": title, "svg": _scatter(measured, column), "caption": caption}
            for title, (column, caption) in (FIGURES.items() if measured else ())
        ],
        rejected=list(evaluation.rejected.items()),
    )


def _described(evaluation: Evaluation) -> Iterator[str]:
    data = evaluation.data
    yield f"{data.whole.size:,} records with the attributes {', '.join(data.attributes)}."
    if data.available is not None:
        yield f"They are a random sample of {data.available:,}, always the same one."
    if data.left_out:
        yield f"{data.left_out:,} events of the file are left out, because they cannot be masked as configured."


def _text(value: float | None) -> str:
    return "–" if value is None else str(value) if type(value) is int else f"{value:.3f}"


def _scatter(measured: Sequence[Measurement], column: str) -> str:
    """Return an SVG picture of a column of each measurement against its RMSE, a colour for each mechanism."""
    import matplotlib
    from matplotlib.figure import Figure

    value = COLUMNS[column][1]
    with matplotlib.rc_context({"svg.hashsalt": "stream-masker", "svg.fonttype": "none", "font.size": 9}):
        figure = Figure(figsize=(8.2, 4.2), layout="constrained")
        axes: Axes = figure.subplots()
        for name in dict.fromkeys(m.candidate.mechanism for m in measured):
            points = [(m.rmse, value(m)) for m in measured if m.candidate.mechanism == name and value(m) is not None]
            if points:
                x, y = zip(*points, strict=True)
                axes.scatter(x, y, s=22, label=name.replace("_", " "))
        axes.set(xlabel="distance (RMSE)", ylabel=column, xlim=(0, None), ylim=(0, None))
        axes.grid(visible=True, alpha=0.3)
        if axes.collections:
            axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), frameon=False)
        text = io.StringIO()
        figure.savefig(text, format="svg", metadata={"Date": None, "Creator": None})
    picture = text.getvalue()
    return picture[picture.index("<svg") :]


def verdict(evaluation: Evaluation) -> list[str]:
    """Return the verdict about the configured method, or the first one measured, as sentences."""
    measured = evaluation.measurements
    if not measured:
        return ["No method can be measured on these records."]
    ours = next((m for m in measured if m.candidate.label == AS_CONFIGURED), measured[0])
    name = ours.candidate.mechanism.replace("_", " ").capitalize()
    said = three_sentences(
        ours.risk,
        promise=ours.promise,
        unchanged_records=ours.unchanged_records,
        before=evaluation.data.statistics,
        after=ours.after,
    )
    sentences = [f"{name}, {ours.candidate.label}:", *said, _better(ours, measured)]
    records = evaluation.data.whole.size
    if records < RANKED_RECORDS:
        sentences.append(
            f"Warning: {records:,} records are too few to rank methods. Shares have a standard error of up to "
            f"{0.5 / max(records, 1) ** 0.5:.1%}: smaller differences are chance."
        )
    return sentences


def _better(ours: Measurement, measured: Iterable[Measurement]) -> str:
    """Return which methods measured are better in distance, risk and correlation at once."""

    def figures(m: Measurement) -> tuple[float, float, float]:
        return m.rmse, m.vulnerability, m.correlation_error

    mine = figures(ours)
    better = [
        m.candidate.label
        for m in measured
        if figures(m) != mine and all(a <= b for a, b in zip(figures(m), mine, strict=True))
    ]
    aims = "in distance, in what an attacker learns and in correlation at once"
    if not better:
        return f"No other method measured is better {aims}."
    more = f" and {len(better) - SHOWN_BETTER} more" if len(better) > SHOWN_BETTER else ""
    return f"Better {aims}: {'; '.join(better[:SHOWN_BETTER])}{more}."


def report_data(evaluation: Evaluation) -> dict[str, Any]:
    """Return the measures as JSON-serialisable data, with 10 digits, so that they do not depend on the order of sums.

    Numbers that are infinite or unknown are null.
    """
    data, statistics = evaluation.data, evaluation.data.statistics.to_dict()
    return {
        "records": data.whole.size,
        "available": data.available,
        "left_out": data.left_out,
        "attributes": list(data.attributes),
        "statistics": _rounded({name: statistics[name] for name in ("mean", "variance", "covariance", "correlation")}),
        "measurements": [_rounded(measured.to_dict()) for measured in evaluation.measurements],
        "rejected": dict(evaluation.rejected),
    }


def _rounded(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _rounded(each) for key, each in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_rounded(each) for each in value]
    return (float(f"{value:.10g}") if isfinite(value) else None) if isinstance(value, float) else value
