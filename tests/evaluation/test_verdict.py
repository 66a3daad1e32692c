"""The first section of the report."""

from __future__ import annotations

import pytest
from support.evaluating import dataset

from stream_masker.evaluation.candidates import Candidate
from stream_masker.evaluation.evaluation import evaluation_tasks, run_tasks
from stream_masker.evaluation.report.document import report_html
from stream_masker.evaluation.report.overview import verdict_section


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
    assert report_html(evaluation).index("Verdict</h2>") < report_html(evaluation).index("The data</h2>")
