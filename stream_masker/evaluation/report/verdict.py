"""The first section of the report: what masking as configured does, and whether another method is better."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from stream_masker.core.risk.risk import Risk
from stream_masker.core.statistics.summary import Statistics
from stream_masker.evaluation.evaluation import Evaluation
from stream_masker.evaluation.measurement import Measurement
from stream_masker.evaluation.report.page import ReportSection
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
    learned, stays, _ = three_sentences(exact, unchanged=ours.risk.unchanged, unchanged_records=ours.unchanged_records)
    yield (
        learned
        if exact is not None
        else (
            f"An attacker's best guess of a code is right in at least {ours.vulnerability:.0%} of the cases, "
            "measured by an attack."
        )
    )
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
    return other != mine and all(theirs <= own for theirs, own in zip(other, mine, strict=True))


def _warning(evaluation: Evaluation) -> Iterator[str]:
    records = evaluation.data.whole.size
    if records < RANKED_RECORDS:
        error = 0.5 / max(records, 1) ** 0.5
        yield (
            f"Warning: {records:,} records are too few to rank methods. Shares have a standard error of up to "
            f"{error:.1%}: smaller differences are chance."
        )
