"""The statistics on examples that can be computed by hand, and the errors they raise."""

import numpy as np
import pytest
from support.graphs import FIGURE_1

from stream_masker.core.distance import WuPalmer
from stream_masker.core.ontology import Ontology
from stream_masker.core.statistics import (
    distance_correlation,
    distance_covariance,
    distance_variance,
    semantic_mean,
    semantic_variance,
)
from stream_masker.errors import ParameterError, StatisticsError, UnknownConceptError

FLAT = Ontology.from_edges([(c, "root") for c in "wxyz"]).taxonomy()
FIGURE = Ontology.from_edges(FIGURE_1).taxonomy()
HALF = 0.5
"""The Wu–Palmer distance of two children of the root."""


def test_a_constant_attribute_has_exactly_zero_covariance():
    d = WuPalmer(FIGURE)
    constant, other = ["hematoma"] * 3, ["gastritis", "gingivitis", "hematoma"]
    assert distance_variance(constant, d) == 0.0
    assert distance_covariance(constant, d, other, d) == 0.0
    assert distance_correlation(constant, d, other, d) == 0.0


def test_a_rare_value_among_many_is_not_lost_to_rounding():
    """Two values at distance d, one of them once among n: sdVar = 2·d·(n − 1)/n²."""
    n = 1_000_000
    values = np.full(n, FLAT.position("x"), dtype=np.int32)
    values[17] = FLAT.position("y")
    assert distance_variance(values, WuPalmer(FLAT)) == pytest.approx(2 * HALF * (n - 1) / n**2, rel=1e-6)


def test_a_negative_sum_is_clamped_to_zero():
    """Wu–Palmer need not be of negative type: here the centred products sum to −0.0039·n²."""
    diamond = Ontology.from_edges([(c, "r") for c in "abc"] + [("e", c) for c in "abc"]).taxonomy()
    d, flat = WuPalmer(diamond), WuPalmer(FLAT)
    a = ["r"] * 3 + ["a"] * 2 + ["b"] * 2 + ["c"] * 2 + ["e"] * 4
    b = ["y"] * 3 + ["x"] * 6 + ["y"] * 4
    n = len(a)
    centre = np.eye(n) - 1 / n
    products = (centre @ d.matrix(a) @ centre) * (centre @ flat.matrix(b) @ centre)
    assert products.sum() / n**2 < -0.003
    assert distance_covariance(a, d, b, flat) == 0.0
    assert distance_correlation(a, d, b, flat) == 0.0


def test_errors_name_the_position_of_an_unknown_value_but_not_the_value():
    with pytest.raises(UnknownConceptError) as error:
        semantic_mean(["x", "secret"], WuPalmer(FLAT))
    assert error.value.position == 1
    assert "secret" not in str(error.value)
    with pytest.raises(UnknownConceptError):
        distance_variance(np.array([0, 99]), WuPalmer(FLAT))


def test_empty_values_and_unequal_lengths_are_rejected():
    d = WuPalmer(FLAT)
    for statistic in (semantic_mean, semantic_variance):
        with pytest.raises(StatisticsError, match="at least one value"):
            statistic([], d)
    with pytest.raises(StatisticsError, match="at least one value"):
        distance_variance([], d)
    with pytest.raises(StatisticsError, match="at least one value"):
        distance_covariance([], d, [], d)
    with pytest.raises(ParameterError, match="same number of rows"):
        distance_correlation(["x"], d, ["x", "y"], d)
