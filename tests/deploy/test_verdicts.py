"""The verdicts of the overview: words for the state, from the worst to the best."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import prometheus
import pytest
from alert_series import FIRING, JOB, MINUTES, WORKING, Series, run_promtool
from dashboards import DASHBOARDS, dashboard_json
from panels import COLUMNS
from queries import metric
from verdicts import VERDICTS, Verdict

HEALTHY: Series = {
    **WORKING,
    metric("utility_correlation", JOB, first="principal", second="secondary"): f"0.02x{MINUTES}",
    metric("utility_mean", JOB, attribute="principal"): f"0.05x{MINUTES}",
    metric("utility_variance", JOB, attribute="principal"): f"0.003x{MINUTES}",
    metric("svar", JOB, attribute="principal", data="original"): f"0.494x{MINUTES}",
}
GOOD = {
    "Masking?": "yes",
    "Protected?": "yes",
    "Meaning kept?": "yes",
    "Behind?": "no",
    "Rejecting or skipping?": "no",
}
UNKNOWN = {
    "Masking?": "no worker",
    "Protected?": "not known",
    "Meaning kept?": "not known",
    "Behind?": "not known",
    "Rejecting or skipping?": "not known",
}
BAD: Sequence[tuple[str, str, str]] = (
    ("Masking?", "NoWorker", "no worker"),
    ("Masking?", "NoBroker", "no broker"),
    ("Masking?", "NotMasking", "stopped"),
    ("Masking?", "PartitionUnreadable", "partition stuck"),
    ("Protected?", "RiskOverLimit", "limit crossed"),
    ("Protected?", "ValuesUnchanged", "unchanged"),
    ("Protected?", "StatisticsWithheld", "withheld"),
    ("Meaning kept?", "UtilityOffTarget", "distance off"),
    ("Behind?", "LagGrowing", "falling behind"),
    ("Behind?", "StatisticsStale", "statistics old"),
    ("Rejecting or skipping?", "RejectionRate", "rejecting"),
    ("Rejecting or skipping?", "RecordsSkipped", "skipped"),
    ("Rejecting or skipping?", "MessagesRefused", "messages refused"),
)
OTHERS: Sequence[tuple[str, Series, str]] = (
    (
        "Masking?",
        {metric("records_in_total", JOB): f"9x{MINUTES}", metric("consumer_lag_assigned", JOB): "0x90"},
        "no input",
    ),
    (
        "Protected?",
        {metric("risk_certainty", JOB, attribute="principal", given="record"): f"_x{MINUTES}"},
        "on average",
    ),
    ("Meaning kept?", {metric("utility_variance", JOB, attribute="principal"): f"0.152x{MINUTES}"}, "spread off"),
    ("Meaning kept?", {metric("utility_mean", JOB, attribute="principal"): f"0.5x{MINUTES}"}, "mean moved"),
    (
        "Meaning kept?",
        {metric("utility_correlation", JOB, first="principal", second="secondary"): f"0.3x{MINUTES}"},
        "correlations off",
    ),
    ("Behind?", {metric("consumer_lag_assigned", JOB): f"900000-5000x{MINUTES}"}, "catching up"),
    ("Behind?", {metric("held", JOB): f"1x{MINUTES}", metric("consumer_lag_assigned", JOB): "0x90"}, "not known"),
)
SAID = [
    *((question, HEALTHY, word) for question, word in GOOD.items()),
    *((question, {metric("rejected_share", JOB): f"0x{MINUTES}"}, word) for question, word in UNKNOWN.items()),
    *((question, {**HEALTHY, **FIRING[alert][0]}, word) for question, alert, word in BAD),
    *((question, {**HEALTHY, **series}, word) for question, series, word in OTHERS),
]
"""A question, series of Prometheus, and the word that answers it then."""


def panels() -> list[dict]:
    return [panel for panel in json.loads(dashboard_json(DASHBOARDS[0]))["panels"] if panel["type"] != "row"]


def in_promtool(expression: str) -> str:
    for variable, value in {"$job": ".*", "$__range": "1h"}.items():
        expression = expression.replace(variable, value)
    return expression


def test_there_are_five_in_the_first_row_of_the_overview() -> None:
    first = panels()[:5]
    assert [panel["title"] for panel in first] == [verdict.question for verdict in VERDICTS]
    assert {panel["gridPos"]["y"] for panel in first} == {first[0]["gridPos"]["y"]}
    assert sum(panel["gridPos"]["w"] for panel in first) == COLUMNS


@pytest.mark.parametrize("verdict", VERDICTS, ids=lambda verdict: verdict.question)
def test_each_has_a_word_and_a_color_for_every_value_and_leads_to_a_dashboard(verdict: Verdict) -> None:
    (panel,) = (panel for panel in panels() if panel["title"] == verdict.question)
    defaults = panel["fieldConfig"]["defaults"]
    ((mapping,),) = [defaults["mappings"]]
    assert list(mapping["options"]) == [str(value) for value in range(len(verdict.cases) + 1)]
    assert all(word["text"] and word["color"] for word in mapping["options"].values())
    (link,) = defaults["links"]
    assert link["url"].startswith(f"/d/stream-masker-{verdict.dashboard}?")
    assert verdict.dashboard in {dashboard.name for dashboard in DASHBOARDS}


@pytest.mark.exhaustive
@pytest.mark.parametrize(("question", "series", "word"), SAID)
def test_it_says_the_worst_that_is_true(question: str, series: Series, word: str, tmp_path: Path) -> None:
    prometheus.required()
    (verdict,) = (one for one in VERDICTS if one.question == question)
    (value,) = (value for value, one in verdict.words.items() if one.text == word)
    assert run_promtool(tmp_path, series, f"({in_promtool(verdict.expression)}) == bool {value}", expected=True) == ""
