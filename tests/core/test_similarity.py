"""Similarity by co-occurrence: Table 2 of 2012, and properties that follow from the definitions."""

from __future__ import annotations

import numpy as np
import pytest
from support.nominal import BANK, counts_of, flat_taxonomies

from stream_masker.core.similarity import ValueGraph

TAXONOMIES = flat_taxonomies(BANK)
COUNTS = counts_of(BANK, TAXONOMIES)
SIZES = tuple(len(tau) for tau in TAXONOMIES.values())

S1 = """1.000 0.667 0.000 0.000 0.000 0.000
        0.667 1.000 0.000 0.000 0.000 0.258
        0.000 0.000 1.000 0.333 0.000 0.258
        0.000 0.000 0.333 1.000 0.667 0.258
        0.000 0.000 0.000 0.667 1.000 0.516
        0.000 0.258 0.258 0.258 0.515 1.000"""

S2 = """1.000 1.000 0.000 0.000 0.000 0.258
        1.000 1.000 0.000 0.000 0.000 0.258
        0.000 0.000 1.000 1.000 1.000 0.775
        0.000 0.000 1.000 1.000 1.000 0.882
        0.000 0.000 1.000 1.000 1.000 0.882
        0.258 0.258 0.775 0.882 0.882 1.000"""

S = """1.000 0.800 0.000 0.000 0.000 0.103
       0.800 1.000 0.000 0.000 0.000 0.258
       0.000 0.000 1.000 0.600 0.400 0.465
       0.000 0.000 0.600 1.000 0.800 0.508
       0.000 0.000 0.400 0.800 1.000 0.663
       0.103 0.258 0.465 0.508 0.663 1.000"""


def printed(table):
    return np.array([[float(cell) for cell in line.split()] for line in table.splitlines()])


def graph(counts=COUNTS, sizes=SIZES, *, multigraph=False):
    return ValueGraph.of(counts, sizes, multigraph=multigraph)


def test_the_first_part_of_table_2_except_a_misprint():
    """The symmetric value 2/√15 = 0.5164 is printed as 0.515 in row 6, column 5, and as 0.516 in row 5, column 6."""
    expected = printed(S1)
    expected[5, 4] = expected[4, 5]
    np.testing.assert_array_equal(graph().direct()[0].round(3), expected)


def test_the_second_part_of_table_2():
    g = graph()
    np.testing.assert_array_equal(g.transitive(g.direct(), 0.4)[0].round(3), printed(S2))


def test_the_third_part_of_table_2_from_the_printed_second_part():
    """S56 = 0.6·0.5164 + 0.4·0.8815 = 0.6625 rounds to 0.662; the printed 0.663 uses the rounded S'' = 0.882."""
    g = graph()
    first = g.direct()[0]
    np.testing.assert_array_equal((0.6 * first + 0.4 * printed(S2)).round(3), printed(S))
    exact = g.similarities(threshold=0.4, c1=0.6, c2=0.4)[0]
    assert np.abs(exact - printed(S)).max() < 0.0006


@pytest.mark.parametrize("multigraph", [False, True])
@pytest.mark.parametrize("threshold", [0.0, 0.4, 1.0])
def test_similarities_are_symmetric_and_between_0_and_1(multigraph, threshold):
    g = graph(multigraph=multigraph)
    for first, second in zip(g.direct(), g.transitive(g.direct(), threshold), strict=True):
        for matrix in (first, second):
            np.testing.assert_allclose(matrix, matrix.T, atol=1e-15)
            np.testing.assert_array_equal(np.diag(matrix), 1.0)
            assert matrix.min() >= 0
            assert matrix.max() <= 1
        assert (second >= first - 1e-12).all()


def test_a_threshold_of_1_merges_nothing():
    g = graph()
    for first, second in zip(g.direct(), g.transitive(g.direct(), 1.0), strict=True):
        np.testing.assert_allclose(first, second)


def test_the_multigraph_counts_co_occurrences():
    """Clients 5 and 6 have 1 and 2 edges to branch 9, and 1 edge each to advisor 16: (√2 + 1) / √(3·6)."""
    assert graph(multigraph=True).direct()[0][4, 5] == pytest.approx((2**0.5 + 1) / 18**0.5)


def test_a_value_without_edges_is_similar_only_to_itself():
    records = [{"a": "x", "b": None}, {"a": "y", "b": "u"}, {"a": "z", "b": "u"}]
    taxonomies = {"a": flat_taxonomies([{"a": r["a"]} for r in records])["a"]}
    taxonomies["b"] = flat_taxonomies([{"b": "u"}])["b"]
    g = graph(counts_of(records, taxonomies), tuple(len(tau) for tau in taxonomies.values()))
    np.testing.assert_array_equal(g.similarities(threshold=0.5, c1=0.5, c2=0.5)[0], [[1, 0, 0], [0, 1, 1], [0, 1, 1]])
