"""The papers' tables on generated data: exact where the data are printed, otherwise with the findings of the papers."""

from __future__ import annotations

import re
from itertools import product

import pytest

from stream_masker.errors import ParameterError, ServiceError
from stream_masker.evaluation.grouped import swapping_row
from stream_masker.evaluation.papers import samples
from stream_masker.evaluation.papers.printed import printed_tables
from stream_masker.evaluation.papers.reproduction import PAPERS, reproduction
from stream_masker.evaluation.report.page import ReportTable

pytestmark = pytest.mark.scheduled


@pytest.fixture(scope="module")
def tables():
    """Every table of every paper, by paper and title, as rows by name."""
    return {
        (paper, block.title): {row[0]: [pair(cell) for cell in row[1:]] for row in block.rows}
        for paper in PAPERS
        for section in reproduction(paper)
        for block in section.blocks
        if isinstance(block, ReportTable)
    }


def pair(cell):
    """The measure and the printed figure of a cell, or the measure alone."""
    return tuple(map(float, re.findall(r"[\d.]+", cell)))


def figures(tables, paper, title):
    (found,) = [rows for (one, name), rows in tables.items() if one == paper and name.startswith(title)]
    return found


def test_every_table_is_there_with_its_printed_figures(tables):
    counts = {paper: sum(one == paper for one, _ in tables) for paper in PAPERS}
    assert counts == {"2012": 5, "2013": 5, "2016": 2, "2017": 9, "2019": 6}
    assert [cell[1] for cell in figures(tables, "2017", "Table 4")["sdCor"]] == [0.84, 0.76, 0.71, 0.59]


def test_2012_agrees_with_the_paper_to_the_printed_digit(tables):
    for name in ("S′", "S″", "S"):
        rows = figures(tables, "2012", f"Table 2: {name}") if name != "S" else tables["2012", "Table 2: S"]
        assert all(abs(cell[0] - cell[1]) <= 0.0011 for row in rows.values() for cell in row)
    entropies = figures(tables, "2012", "Table 3")
    assert all(row[3][0] > row[2][0] for row in entropies.values())


def test_2013_marginalities_differ_by_rounding_and_by_two_distances(tables):
    rows = list(figures(tables, "2013", "Table 1").values())
    exact, rounded, as_printed = ([abs(row[i][0] - row[i][1]) < 0.005 for row in rows] for i in range(3))
    assert exact == [False] * 9
    assert rounded == [True] * 4 + [False] * 5
    assert as_printed == [True] * 9


def test_2013_findings(tables):
    for title in ("Table 4", "Table 5"):
        ratios = [row[2][0] for row in figures(tables, "2013", title).values()]
        assert max(ratios) < 0.7
    for title in ("Table 2", "Table 3"):
        assert max(row[2][0] for row in figures(tables, "2013", title).values()) <= 1.0


def test_2017_data_are_like_those_of_the_paper(tables):
    first, second = figures(tables, "2017", "Table 1"), figures(tables, "2017", "Table 6")
    assert all(abs(cell[0] - cell[1]) < 0.1 for rows in (first, second) for (cell,) in rows.values())
    targets = figures(tables, "2017", "Table 3")["target a"]
    assert all(abs(ours - theirs) <= 0.04 for ours, theirs in targets)


def test_2017_findings(tables):
    first, second, third = (figures(tables, "2017", f"Table {n}")["sdCor"] for n in (2, 3, 4))
    assert all(a[0] < b[0] < c[0] for a, b, c in zip(first[1:], second[1:], third[1:], strict=True))
    for n in (2, 3, 4, 7, 8):
        rows = figures(tables, "2017", f"Table {n}")
        errors = [cell[0] for cell in rows["RMSE a"]]
        assert errors == sorted(errors)
        assert errors[0] > 1.5 * rows["target a"][0][0]


def test_2017_the_distance_of_both_diagnoses_decides_the_correlation_that_algorithm_2_keeps(tables):
    """Columns: mean sd(a, b), share beyond reach, RMSE, target, and the sdCor of the methods of tables 2 to 4."""
    near, apart, valued = figures(tables, "2017", "What sdCor").values()
    assert near[0][0] < 0.3 < 0.8 < apart[0][0]
    assert near[1][0] > 2 * apart[1][0]
    assert near[2][0] < 0.85 * near[3][0]
    assert apart[2][0] == pytest.approx(apart[2][1], abs=0.03)
    assert near[-1][0] - apart[-1][0] > 0.1
    assert valued[4] == (pytest.approx(0.38, abs=0.03), 0.38)
    assert valued[-2][0] == pytest.approx(valued[-1][0], abs=0.02)


def test_2019_findings(tables):
    first, second, third = (figures(tables, "2019", f"Table {n}") for n in (2, 3, 4))
    for metric in ("RMSE a", "RMSE b"):
        assert all(b[0] < a[0] for a, b in zip(first[metric], second[metric], strict=True))
        assert [cell[0] for cell in second[metric]] == sorted(cell[0] for cell in second[metric])
    assert all(b[0] < c[0] for b, c in zip(second["RMSE a"], third["RMSE a"], strict=True))
    assert all(b[0] < c[0] for b, c in zip(second["RMSE b"][:4], third["RMSE b"][:4], strict=True))


def test_2019_algorithm_3_keeps_the_most_correlation_at_every_k(tables):
    first, second, third = (figures(tables, "2019", f"Table {n}")["sdCor a b"] for n in (2, 3, 4))
    assert all(a[0] < b[0] < c[0] for a, b, c in zip(first, second, third, strict=True))
    assert third[4][0] - second[4][0] > 0.04
    assert all(abs(c[0] - c[1]) < 0.06 for c in third)


def test_2019_algorithm_3_needs_near_records():
    """Classes far larger than k, and a third of the values independent of them."""
    taxonomies = {"a": samples.diseases(), "b": samples.procedures()}
    data = samples.paired(taxonomies, (783, 430), 1_172, clusters=(6, 3), noise=0.35, skew=0.2)
    original = float(data.statistics.correlation[0, 1])
    cases = product(("Algorithm 2", "Algorithm 3"), (10, 100))
    kept = {case: swapping_row(data, *case).correlation["a", "b"] for case in cases}
    assert all(kept["Algorithm 2", k] == pytest.approx(original, abs=0.01) for k in (10, 100))
    assert original - kept["Algorithm 3", 100] > 0.02


def test_other_papers_and_other_data_are_errors(tmp_path):
    with pytest.raises(ParameterError, match=r"^paper='1999' is not allowed: use 2012, 2013, 2016, 2017, 2019$"):
        reproduction("1999")
    with pytest.raises(ParameterError, match=r"only 2012 takes a data set$"):
        reproduction("2017", tmp_path)
    (tmp_path / "x.csv").write_text("a,b\n")
    with pytest.raises(
        ServiceError, match=r"x\.csv is not the mushroom data set: it has 2 columns, which should be 23$"
    ):
        reproduction("2012", tmp_path / "x.csv")


@pytest.mark.parametrize(("paper", "columns"), [("2016", {2}), ("2017", {1, 2, 4}), ("2019", {1, 6}), ("2013", {10})])
def test_printed_figures_have_a_value_for_each_column(paper, columns):
    assert {len(values) for table in printed_tables(paper) for values in table.figures.values()} == columns
