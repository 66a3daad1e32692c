"""The first section of the report."""

from __future__ import annotations

from dataclasses import replace

import pytest
from support.evaluating import dataset

from stream_masker.evaluation.candidates import Candidate
from stream_masker.evaluation.evaluation import evaluation_tasks, run_tasks
from stream_masker.evaluation.measurement import MeasuredGuess, MeasuredRisk
from stream_masker.evaluation.report.document import report_html
from stream_masker.evaluation.report.overview import verdict_section
from stream_masker.summary import ATTACKER


@pytest.fixture(scope="module")
def evaluation():
    data = dataset(150, numeric=False)
    configured = [Candidate("exponential", "as configured", "", {"epsilon": 5.0})]
    tasks = evaluation_tasks(data, ["pram"], [0.3], confidential="b", configured=configured, repeats=1)
    return run_tasks(data, tasks, processes=1)


def test_the_report_opens_with_the_verdict_in_plain_sentences(evaluation):
    name, learned, stays, kept, better, warning = verdict_section(evaluation).paragraphs
    assert name == "Exponential, as configured:"
    assert learned.startswith("Nothing is promised about single records: some masks make an attacker ")
    assert stays.endswith("% of the records stay as they were.")
    assert "dispersions change by at most" in kept
    assert "in distance, in what an attacker learns and in correlation at once" in better
    assert warning == (
        "Warning: 150 records are too few to rank methods. Shares have a standard error of up to 4.1%: "
        "smaller differences are chance."
    )
    text = report_html(evaluation)
    assert '<h1>Utility and risk of masking</h1>\n<section id="verdict">' in text
    assert text.count("Verdict</h2>") == 1


def test_the_promise_of_the_configured_method_is_stated_where_its_risk_is_measured(evaluation):
    first = evaluation.measurements[0]
    guesses = {"a": MeasuredGuess(0.4, 0.0), "b": MeasuredGuess(0.3, 0.0)}
    risk = MeasuredRisk(guesses, {"a": 0.1, "b": 0.1}, {"a": 0.5, "b": 0.5})
    for promise, begin in (
        (0.5, f"{ATTACKER} can be at most 50% sure"),
        (None, "Nothing is"),
    ):
        measured = [replace(first, promise=promise, risk=risk)]
        learned = verdict_section(replace(evaluation, measurements=measured)).paragraphs[1]
        assert learned.startswith(begin)
        assert learned.endswith("; the best guess of a code was right in 40% of the cases of an attack.")
