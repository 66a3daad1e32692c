"""The report: the verdict, the table, the figures, and equal figures in the page and as data."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from stream_masker.evaluation.measurement import (
    AS_CONFIGURED,
    Candidate,
    Limits,
    candidates,
    evaluate,
    kept_correlation,
    recommend,
)
from stream_masker.evaluation.report import COLUMNS, FIGURES, report_data, report_html, verdict
from tests.evaluation.evaluating import dataset

COMPARED = [
    Candidate("exponential", AS_CONFIGURED, {"epsilon": 5.0}),
    *candidates(["pram"], [0.3]),
    Candidate("rank_swapping", "Rank swapping, k = 2", {"k": 2}),
    Candidate("semantic_noise", "wrong <b>", {"alpha": {"z": 1.0}}),
]


@pytest.fixture(scope="module")
def evaluation():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("stream_masker.core.mechanisms.grouped.MAX_GROUPS", 100)
        return evaluate(dataset(150), COMPARED)


def test_the_verdict_is_in_plain_sentences(evaluation):
    name, learned, stays, kept, better, warning = verdict(evaluation)
    assert name == "Exponential, as configured:"
    assert learned.startswith("Nothing is promised about single records: some masks make an attacker ")
    assert stays.endswith("% of the records stay as they were.")
    assert "dispersions change by at most" in kept
    assert "in distance, in what an attacker learns and in correlation at once" in better
    assert warning == (
        "Warning: 150 records are too few to rank methods. Shares have a standard error of up to 4.1%: "
        "smaller differences are chance."
    )


def test_the_page_needs_no_other_file_and_escapes_texts(evaluation):
    page = report_html(evaluation)
    assert "<script" not in page
    assert not re.search(r'(src|href)="(?!#)', page.replace("xlink:href", ""))
    assert "wrong &lt;b&gt;" in page
    assert "wrong <b>" not in page
    assert page.count("<svg") == len(FIGURES) == 3
    assert all(f"<dt>{name}</dt>" in page and f">{name}</th>" in page for name in COLUMNS)


def test_all_forms_have_the_same_figures(evaluation):
    page, data = report_html(evaluation), report_data(evaluation)
    for one, measured in zip(evaluation.measurements, data["measurements"], strict=True):
        (row,) = re.findall(rf"<tr><td>{re.escape(one.candidate.label)}</td>(.*)</tr>", page)
        assert row.startswith(f"<td>{one.rmse:.3f}</td><td>{one.vulnerability:.3f}</td>")
        assert measured["unchanged_records"] == pytest.approx(one.unchanged_records)
    assert list(data["rejected"]) == ["wrong <b>"]


def test_equal_data_give_equal_bytes_in_one_process_or_in_two(evaluation):
    again = evaluate(dataset(150), COMPARED[:3], processes=2)
    first = replace(evaluation, measurements=evaluation.measurements[:3], rejected={})
    for write in (report_html, report_data):
        assert write(first) == write(again)


def test_the_best_within_limits_is_chosen(evaluation):
    data, measured = evaluation.data, evaluation.measurements
    least = recommend(measured, Limits(rmse=1.0), data)
    assert least.best.vulnerability == min(m.vulnerability for m in measured)
    near = recommend(measured, Limits(vulnerability=1.0), data)
    assert near.best.rmse == min(m.rmse for m in measured)
    kept = sorted(kept_correlation(m, data) for m in measured)
    some = recommend(measured, Limits(correlation=kept[-2]), data)
    assert kept_correlation(some.best, data) >= kept[-2]
    assert some.meeting == sum(share >= kept[-2] for share in kept)
    none = recommend(measured, Limits(0.0, 0.0, 1.0), data)
    assert (none.meeting, "Relax a limit" in none.text) == (0, True)
    assert not Limits()
