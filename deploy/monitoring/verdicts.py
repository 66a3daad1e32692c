"""The verdicts of the overview: a word for the worst that is true, in any installation.

Each number is the position of a case in the list of a verdict, and the first case that holds counts. Most cases are the
conditions of alerts, without the time for which they must last.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from alerts import Expressions, Thresholds, alerts
from panels import Panel, Query, Word
from queries import SELECTED_SERIES

NEAR = Expressions(Thresholds(), SELECTED_SERIES)
IN_RANGE = Expressions(Thresholds(window="$__range"), SELECTED_SERIES)
"""Conditions of the last minutes, and of the time that the dashboard shows."""

MEAN_MOVED, SPREAD_CHANGED, CORRELATION_CHANGED = 0.2, 0.2, 0.1
"""Semantic distance of the means; share of sVar; difference of correlations."""

VERDICT_COLUMNS = (5, 5, 5, 4, 5)


@dataclass(frozen=True, slots=True)
class Case:
    """What is said if an expression has a result."""

    word: Word
    expression: str


@dataclass(frozen=True, slots=True)
class Verdict:
    """A question, its cases from the worst to the best, and the dashboard that tells more.

    ``otherwise``: what is said if no case holds.
    """

    question: str
    meaning: str
    dashboard: str
    cases: Sequence[Case]
    otherwise: Word

    @property
    def expression(self) -> str:
        """The expression whose value is the number of a case."""
        found = " or ".join(f"clamp({case.expression}, {i}, {i})" for i, case in enumerate(self.cases))
        return f"min({found}) or vector({len(self.cases)})"

    @property
    def words(self) -> dict[int, Word]:
        """The word of each number."""
        return dict(enumerate((*(case.word for case in self.cases), self.otherwise)))


def _alert(name: str, text: str, color: str = "red", found: Expressions = NEAR) -> Case:
    """Return a case that holds while the condition of an alert does."""
    (expression,) = (alert.expression for alert in alerts(found.at, found.matchers) if alert.name == name)
    return Case(Word(text, color), expression)  # type: ignore[arg-type]


def _good(text: str, expression: str) -> Case:
    return Case(Word(text, "green"), expression)


def _uncertain(text: str, expression: str) -> Case:
    return Case(Word(text, "orange"), expression)


RECORDS = NEAR.rate("records_in_total", NEAR.at.window)
LAG = NEAR.sum("consumer_lag_assigned")

VERDICTS = (
    Verdict(
        "Masking?",
        "Whether records are masked and committed now.",
        "processes",
        [
            _alert("NoWorker", "no worker"),
            _alert("NoBroker", "no broker"),
            _alert("NotMasking", "stopped"),
            _alert("PartitionUnreadable", "partition stuck"),
            Case(Word("no input", "blue"), f"{RECORDS} == 0"),
            _good("yes", RECORDS),
        ],
        Word("starting", "blue"),
    ),
    Verdict(
        "Protected?",
        "Whether the last version keeps the limits of the risk and what is promised for every record, and whether "
        "values change.",
        "protection",
        [
            _alert("RiskOverLimit", "limit crossed"),
            _alert("ValuesUnchanged", "unchanged"),
            _alert("StatisticsWithheld", "withheld"),
            _good("yes", NEAR.most("risk_certainty", given="record")),
            _uncertain("on average", NEAR.most("risk_limits_crossed")),
        ],
        Word("not known", "orange"),
    ),
    Verdict(
        "Meaning kept?",
        "Whether correlations, spread and mean of masked values are what the mechanism promises.",
        "semantics",
        [
            _uncertain("correlations off", f"{NEAR.most('utility_correlation')} > {CORRELATION_CHANGED}"),
            _uncertain(
                "spread off",
                f"{NEAR.most('utility_variance', 'attribute')} / {NEAR.most('svar', 'attribute', data='original')} "
                f"> {SPREAD_CHANGED}",
            ),
            _uncertain("mean moved", f"{NEAR.most('utility_mean')} > {MEAN_MOVED}"),
            _alert("UtilityOffTarget", "distance off", "orange"),
            _good("yes", NEAR.most("utility_variance")),
        ],
        Word("not known", "orange"),
    ),
    Verdict(
        "Behind?",
        "Whether workers keep up with the input, and statistics with the values. Workers without statistics have no "
        "partitions and so no lag.",
        "processes",
        [
            _alert("LagGrowing", "falling behind"),
            _uncertain("catching up", f"{LAG} > {NEAR.at.lag}"),
            _alert("StatisticsStale", "statistics old", "orange"),
            _good("no", f"{LAG} unless {NEAR.most('held')} > 0"),
        ],
        Word("not known", "orange"),
    ),
    Verdict(
        "Rejecting or skipping?",
        "Whether records were skipped or rejected, or messages refused, in the time that the dashboard shows.",
        "records",
        [
            _alert("RecordsSkipped", "skipped", found=IN_RANGE),
            _alert("MessagesRefused", "messages refused", found=IN_RANGE),
            _alert("RejectionRate", "rejecting", "orange", IN_RANGE),
            _good("no", IN_RANGE.rate("records_in_total", IN_RANGE.at.window)),
        ],
        Word("not known", "orange"),
    ),
)


def verdict_panels() -> list[Panel]:
    """Return the panels of all verdicts, which fill a row."""
    return [
        Panel(
            verdict.question,
            verdict.meaning,
            [Query(verdict.expression, verdict.question)],
            columns=columns,
            kind="stat",
            words=verdict.words,
            dashboard=verdict.dashboard,
        )
        for verdict, columns in zip(VERDICTS, VERDICT_COLUMNS, strict=True)
    ]
