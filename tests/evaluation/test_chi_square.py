"""Chi-square tests against manual computations and published percentiles."""

from __future__ import annotations

import math

import numpy as np
import pytest
from support.nominal import BANK, counts_of, flat_taxonomies

from stream_masker.errors import ParameterError
from stream_masker.evaluation.chi_square import chi_square, chi_squares, contingency, p_value


@pytest.mark.parametrize(
    ("statistic", "degrees", "p"),
    [
        (3.841458820694124, 1, 0.05),
        (6.634896601021213, 1, 0.01),
        (18.307038053275146, 10, 0.05),
        (124.34211340400407, 100, 0.05),
        (77.92946516501726, 100, 0.95),
        (2.0, 2, np.exp(-1)),
        (1.386294361119891, 2, 0.5),
        (1074.6794458400, 1000, 0.05),
    ],
)
def test_p_values_match_published_percentiles(statistic, degrees, p):
    assert p_value(statistic, degrees) == pytest.approx(p, rel=1e-6)


def test_p_values_at_the_limits():
    assert p_value(0.0, 3) == 1.0
    assert p_value(5.0, 0) == 1.0
    assert p_value(1e5, 2) == 0.0
    assert p_value(1e6, 1_000_000) == pytest.approx(0.5, abs=0.01)


def test_both_statistics_match_a_manual_computation():
    """E = [[12, 18], [28, 42]]: χ² = 64/12 + 64/18 + 64/28 + 64/42."""
    found = chi_square(np.array([[20, 10], [20, 50]]))
    assert found.pearson == pytest.approx(64 / 12 + 64 / 18 + 64 / 28 + 64 / 42)
    ratio = 2 * (20 * np.log(20 / 12) + 10 * np.log(10 / 18) + 20 * np.log(20 / 28) + 50 * np.log(50 / 42))
    assert found.likelihood_ratio == pytest.approx(ratio)
    assert found.degrees == 1
    assert found.pearson_p == pytest.approx(math.erfc(math.sqrt(found.pearson / 2)))
    assert found.large_sample


def test_independent_attributes_have_a_statistic_of_0():
    found = chi_square(np.outer([1, 2, 3], [10, 20]))
    assert found.pearson == pytest.approx(0, abs=1e-12)
    assert found.likelihood_ratio == pytest.approx(0, abs=1e-12)
    assert found.pearson_p == pytest.approx(1.0)


def test_empty_rows_and_columns_are_removed():
    assert chi_square(np.array([[20, 0, 10], [0, 0, 0], [20, 0, 50]])) == chi_square(np.array([[20, 10], [20, 50]]))


@pytest.mark.parametrize(("table", "large"), [([[6, 6], [6, 6]], True), ([[1, 9], [1, 9]], False)])
def test_a_large_sample_has_few_small_cells(table, large):
    assert chi_square(np.array(table)).large_sample == large


def test_counts_provide_the_table_of_each_pair():
    taxonomies = flat_taxonomies(BANK)
    counts = counts_of(BANK, taxonomies)
    sizes = [len(tau) for tau in taxonomies.values()]
    np.testing.assert_array_equal(contingency(counts.pairs[1, 3], sizes[3]), [[2, 0, 0, 0], [0, 1, 1, 0], [0, 0, 2, 1]])
    found = chi_squares(counts, sizes)
    assert len(found) == 6
    assert found[1, 3].degrees == 6


@pytest.mark.parametrize("table", [np.zeros((2, 2)), np.zeros((0, 2)), [[-1, 2]], [1, 2]])
def test_invalid_tables_are_refused(table):
    with pytest.raises(ParameterError, match="contingency"):
        chi_square(np.array(table))
