"""Pearson's χ² against manual computations."""

from __future__ import annotations

import numpy as np
import pytest
from support.nominal import BANK, counts_of, flat_taxonomies

from stream_masker.evaluation.co_occurrence import chi_squares, contingency


def association(pairs):
    """χ² of two attributes, from (value, value, count)."""
    records = [{"a": a, "b": b} for a, b, count in pairs for _ in range(count)]
    taxonomies = flat_taxonomies(records)
    return chi_squares(counts_of(records, taxonomies), [len(tau) for tau in taxonomies.values()])[0, 1]


def test_the_statistic_matches_a_manual_computation():
    """E = [[12, 18], [28, 42]]: χ² = 64/12 + 64/18 + 64/28 + 64/42."""
    given = [("x", "u", 20), ("x", "v", 10), ("y", "u", 20), ("y", "v", 50)]
    assert association(given) == pytest.approx(64 / 12 + 64 / 18 + 64 / 28 + 64 / 42)


def test_independent_attributes_have_a_statistic_of_0():
    given = [(a, b, k * n) for k, a in ((1, "x"), (2, "y"), (3, "z")) for n, b in ((10, "u"), (20, "v"))]
    assert association(given) == pytest.approx(0, abs=1e-12)


def test_counts_provide_the_table_of_each_pair():
    taxonomies = flat_taxonomies(BANK)
    counts = counts_of(BANK, taxonomies)
    sizes = [len(tau) for tau in taxonomies.values()]
    np.testing.assert_array_equal(contingency(counts.pairs[1, 3], sizes[3]), [[2, 0, 0, 0], [0, 1, 1, 0], [0, 0, 2, 1]])
    assert len(chi_squares(counts, sizes)) == 6
