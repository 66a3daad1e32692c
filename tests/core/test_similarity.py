"""Similarity by co-occurrence: Table 2 of 2012, and properties that follow from the definitions."""

from __future__ import annotations

import numpy as np
from support.nominal import BANK, counts_of, flat_taxonomies

from stream_masker.core.mechanisms.vicus import ValueGraph

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
    exact = g.similarities(threshold=0.4, c1=0.6)[0]
    assert np.abs(exact - printed(S)).max() < 0.0006
