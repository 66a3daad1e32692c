"""The report: well-formed, self-contained, reproducible, and with the measures as they are."""

from __future__ import annotations

import csv
import io
import json
import re
import shutil
import subprocess
import xml.etree.ElementTree as ET

import pytest
from support.evaluating import dataset

from stream_masker.core.mechanisms import MECHANISMS
from stream_masker.core.risk.risk import Risk
from stream_masker.evaluation.evaluation import evaluation_tasks, run_tasks
from stream_masker.evaluation.grouped import sse_row, swapping_row
from stream_masker.evaluation.measurement import MeasuredRisk
from stream_masker.evaluation.report.charts import Axis, Point, line_chart, scatter_chart
from stream_masker.evaluation.report.document import report_csv, report_html, report_json

pytestmark = pytest.mark.scheduled

SVG = "{http://www.w3.org/2000/svg}"


def evaluated(processes=1):
    data = dataset(150)
    tasks = evaluation_tasks(data, list(MECHANISMS), [0.3, 1.0], confidential="b", repeats=2)
    return run_tasks(data, tasks, processes=processes)


@pytest.fixture(scope="module")
def evaluation():
    return evaluated()


@pytest.fixture(scope="module")
def page(evaluation):
    return ET.fromstring(report_html(evaluation).removeprefix("<!DOCTYPE html>\n"))


def cell(page, title, row, column):
    """A cell of the first table below a heading that starts with a text."""
    parts = list(page.iter())
    at = next(i for i, part in enumerate(parts) if part.tag == "h3" and part.text.startswith(title))
    table = next(part for part in parts[at:] if part.tag == "table")
    header = [th.text for th in table.iter("th")]
    found = next(tr for tr in table.iter("tr") if tr.find("td") is not None and tr.find("td").text == row)
    return found.findall("td")[header.index(column)].text


def test_the_page_needs_no_other_file_and_has_no_time_in_it(evaluation, page):
    text = report_html(evaluation)
    assert "<script" not in text
    assert not re.search(r'(src|href)="(?!#)', text)
    assert not re.search(r"url\(|@import", text)
    assert "http" not in text.replace("http://www.w3.org/2000/svg", "")
    anchors = {section.get("id") for section in page.iter("section")} - {"verdict"}
    assert {a.get("href") for a in page.iter("a")} == {f"#{anchor}" for anchor in anchors}


def test_equal_data_give_equal_bytes_in_one_process_or_in_two(evaluation):
    again = evaluated(processes=2)
    for write in (report_html, report_json, report_csv):
        assert write(evaluation) == write(again)


def test_pictures_have_a_title_and_a_description(page):
    pictures = list(page.iter(f"{SVG}svg"))
    assert len(pictures) >= 10
    for picture in pictures:
        assert picture.get("role") == "img"
        assert picture.get("aria-label") == picture.find(f"{SVG}title").text
        assert picture.find(f"{SVG}desc").text


def test_the_tables_of_2017_hold_the_measures(evaluation, page):
    one = next(
        m
        for m in evaluation.measurements
        if m.candidate.label == "Semantic noise, correlated, from the pair, ceil, α = 0.3"
    )
    a, pair = one.utility.attributes["a"], one.utility.pairs["a", "b"]
    title = "Correlated-Algorithm2, ceil (2017: Table 4)"
    assert cell(page, title, "RMSE(a) actual, target", "α = 0.3") == f"{a.rmse_actual:.3f}, {a.rmse_target:.3f}"
    assert (
        cell(page, title, "sdCor(a*, b*), error", "α = 0.3") == f"{pair.correlation:.3f}, {pair.correlation_error:.3f}"
    )
    assert cell(
        page, "Uncorrelated and correlated noise (2016", "RMSE(a) actual, target", "Correlated-Algorithm2, α = 0.2"
    )


def test_the_tables_of_2019_and_2013_hold_the_measures(evaluation, page):
    data = evaluation.data
    row = swapping_row(data, "Algorithm 3", 5)
    assert cell(page, "Algorithm 3 (2019", "RMSE(a, a*)", "k = 5") == f"{row.rmse['a']:.4f}"
    classic, semantic = sse_row(data, 4, "classic"), sse_row(data, 4, "semantic")
    assert float(cell(page, "Sum of squared errors", "4", "SSE(a), classic")) == pytest.approx(
        classic.sse["a"], rel=0.01
    )
    assert float(cell(page, "Sum of squared errors", "4", "SSE(stay), semantic")) == pytest.approx(
        semantic.sse["stay"], rel=0.01
    )


def test_each_column_of_the_tables_of_all_methods_is_explained(page):
    parts = list(page.iter())
    for title in ("All methods", "All methods: more about the risk"):
        at = next(i for i, part in enumerate(parts) if part.tag == "h3" and part.text == title)
        table, terms = (next(part for part in parts[at:] if part.tag == tag) for tag in ("table", "dl"))
        assert ["method", *(term.text for term in terms.iter("dt"))] == [th.text for th in table.iter("th")]
        assert all(meaning.text.endswith(".") for meaning in terms.iter("dd"))


MEASURE = """<script>document.title = JSON.stringify([...document.querySelectorAll(".scroll, body")].map(
  box => box.scrollWidth - box.clientWidth))</script></body>"""


@pytest.mark.skipif(not shutil.which("chromium"), reason="chromium is not installed")
def test_the_page_fits_1280_pixels(evaluation, tmp_path):
    path = tmp_path / "report.html"
    path.write_text(report_html(evaluation).replace("</body>", MEASURE))
    command = ["chromium", "--headless", "--no-sandbox", "--disable-gpu", "--window-size=1280,1000", "--dump-dom"]
    done = subprocess.run([*command, path.as_uri()], capture_output=True, text=True, timeout=300, check=True)
    beyond = json.loads(re.search(r"<title>(.*?)</title>", done.stdout)[1])
    assert len(beyond) > 10
    assert set(beyond) == {0}


def test_the_picture_has_a_point_for_each_setting(evaluation, page):
    picture = next(p for p in page.iter(f"{SVG}svg") if p.get("aria-label") == "Utility against risk")
    tips = {
        mark.find(f"{SVG}title").text.split(": RMSE")[0]
        for mark in picture.iter()
        if mark.find(f"{SVG}title") is not None
    }
    assert {one.candidate.label for one in evaluation.measurements} <= tips


def test_the_sections_of_2012_numbers_and_models(page, evaluation):
    entropies = evaluation.co_occurrence.entropies
    assert cell(page, "Average entropy", "k1 = 5, k2 = 20", "record: VICUS") == f"{entropies[2].record:.4f}"
    assert cell(page, "Numbers", "Semantic noise, correlated, from the mean, ceil, α = 1", "stay: variance")
    accuracy = evaluation.measurements[0].predictions[0]
    assert cell(page, "Accuracy", "original records", "a → chapter of b") == f"{accuracy.original:.3f}"


def test_the_json_has_the_names_of_the_risk_and_the_csv_the_same_figures(evaluation, page):
    data = json.loads(report_json(evaluation))
    risks = {one["mechanism"]: one["risk"] for one in data["measurements"]}
    assert set(risks["pram"]) == set(Risk.__dataclass_fields__)
    assert set(risks["rank_swapping"]) == set(MeasuredRisk.__dataclass_fields__) <= set(Risk.__dataclass_fields__)
    assert {one["exact"] for one in data["measurements"] if one["mechanism"] in ("pram", "vicus")} == {True}
    risk = data["measurements"][0]["risk"]
    assert risk["value"]["a"]["vulnerability"] == pytest.approx(
        evaluation.measurements[0].risk.value["a"].vulnerability
    )
    rows = list(csv.DictReader(io.StringIO(report_csv(evaluation))))
    first = {(row["measure"], row["attribute"]): row["value"] for row in rows if row["setting"] == "ceil, α = 0.3"}
    assert float(first["certain", "b"]) >= 0
    for one in evaluation.measurements:
        shown = cell(page, "All methods", one.candidate.label, "unchanged records")
        assert shown == f"{one.unchanged_records:.3f}"
    assert ("unchanged_records", "") in first
    assert {"sdCor", "correlation_error"} & {row["measure"] for row in rows}
    assert len({len(row) for row in rows}) == 1


def test_the_tables_of_2019_2013_and_2012_are_in_the_json_and_in_the_csv(evaluation):
    data = json.loads(report_json(evaluation))
    rows = {
        (row["mechanism"], row["method"], row["setting"], row["measure"], row["attribute"]): row["value"]
        for row in csv.DictReader(io.StringIO(report_csv(evaluation)))
    }
    swapped = next(row for row in data["swapping"] if (row["method"], row["k"]) == ("Algorithm 3", 5))
    assert float(rows["rank_swapping", "2019: Algorithm 3", "k = 5", "rmse", "a"]) == swapped["rmse"]["a"]
    assert float(rows["rank_swapping", "2019: Algorithm 3", "k = 5", "correlation", "a b"]) > 0
    assert ("rank_swapping", "2019: Algorithm 1", "k = 2", "risk", "") in rows
    errors = data["microaggregation"][-1]
    setting = f"k = {errors['k']}"
    assert (
        float(rows["microaggregation", f"2013: {errors['variant']}", setting, "sse", "stay"]) == errors["sse"]["stay"]
    )
    entropy = data["vicus"][0]
    found = rows["vicus", "2012: VICUS", "k1 = 2, k2 = 20, known = 1", "confidential", ""]
    assert float(found) == entropy["confidential"]
    assert data["similarities"]["attribute"] == "a"
    assert len(data["similarities"]["total"]) == len(data["similarities"]["values"])
    assert data["associations"]["attributes"] == ["a", "b"]
    assert len(data["associations"]["files"]["VICUS"]) == 10


def test_what_was_not_measured_is_null():
    data = json.loads(report_json(evaluated_one()))
    assert [data[name] for name in ("vicus", "similarities", "associations", "available")] == [None] * 4
    assert data["left_out"] == 0


def evaluated_one():
    data = dataset(60)
    return run_tasks(data, evaluation_tasks(data, ["pram"], [0.3], confidential="b", repeats=2)[:1], processes=1)


@pytest.mark.parametrize(
    ("values", "ticks"),
    [
        ([0.0, 0.79], (0, 0.2, 0.4, 0.6, 0.8)),
        ([3.0], (0, 0.5, 1, 1.5, 2, 2.5, 3)),
        ([0.0], (0, 1)),
        ([1234.0], (0, 500, 1000, 1500)),
    ],
)
def test_axes_end_at_ticks(values, ticks):
    assert Axis.over("x", values, floor=0.0).ticks == pytest.approx(ticks)


def test_charts_escape_their_texts():
    charts = [
        line_chart("<&>", "x", "y", {"<a>": [("1", 0.5), ("2", 1.0)], "flat": [("other", 0.2)]}),
        scatter_chart(
            "<&>", "x", "y", [Point(0.1, 0.2, 0.3, "<g>", "<tip>")], scale=("<s>", 0.0, 1.0), limits=(0.1, 0.1)
        ),
    ]
    for chart in charts:
        assert ET.fromstring(chart).find(f"{SVG}title").text == "<&>"
