"""The utility metrics of 2017, section 5, one by one."""

import math

import pytest

from stream_masker.core.batch import Batch, Column, Distortion
from stream_masker.core.distance import WuPalmer
from stream_masker.core.ontology import Ontology
from stream_masker.core.statistics import (
    compute_statistics,
    count_batch,
    distance_correlation,
    distance_covariance,
    semantic_mean,
    semantic_variance,
)
from stream_masker.core.statistics.utility import utility
from stream_masker.errors import ParameterError, StatisticsError

LINKS = [("a", "r"), ("b", "r"), ("a1", "a"), ("a2", "a"), ("b1", "b"), ("b2", "b")]
D = WuPalmer(Ontology.from_edges(LINKS).taxonomy())

A, B = ["a1", "a1", "a2", "b1", "a1"], ["b1", "b1", "b2", "a1", "b2"]
MASKED_A, MASKED_B = ["a2", "b1", "a", "b1", "b2"], ["b2", "b1", "b", "a2", "b1"]
DISTORTIONS = (
    Distortion(values=5, squared_distance=0.8, squared_noise=0.45),
    Distortion(values=4, squared_distance=1.0),
)


def statistics(*columns, names=("p", "q")):
    batch = Batch(len(columns[0]), tuple(Column(D.taxonomy.encode(values)) for values in columns))
    counts = count_batch(batch, [len(D.taxonomy)] * len(columns))
    return compute_statistics(counts, names, [D] * len(columns), version=1)


ORIGINAL, MASKED = statistics(A, B), statistics(MASKED_A, MASKED_B)


def test_metrics_of_an_attribute():
    measures = utility(ORIGINAL, MASKED, DISTORTIONS, 0.3, [D, D]).attributes["p"]
    assert measures.mean_distance == D(semantic_mean(MASKED_A, D), semantic_mean(A, D)) > 0
    assert measures.variance == semantic_variance(MASKED_A, D)
    assert measures.variance_error == abs(semantic_variance(MASKED_A, D) - 1.3 * semantic_variance(A, D)) > 0
    assert measures.rmse_actual == pytest.approx(0.4)
    assert measures.rmse_target == pytest.approx(0.3)


def test_metrics_of_a_pair():
    measures = utility(ORIGINAL, MASKED, DISTORTIONS, 0.3, [D, D]).pairs["p", "q"]
    before, after = distance_covariance(A, D, B, D), distance_covariance(MASKED_A, D, MASKED_B, D)
    assert measures.covariance == pytest.approx(after)
    assert measures.covariance_error == pytest.approx(abs(after - 1.3 * before))
    correlation = distance_correlation(MASKED_A, D, MASKED_B, D)
    assert measures.correlation == pytest.approx(correlation)
    assert measures.correlation_error == pytest.approx(abs(correlation - distance_correlation(A, D, B, D)))


def test_different_noise_levels_use_their_geometric_mean():
    levels = {"p": 0.1, "q": 0.9}
    each = utility(ORIGINAL, MASKED, DISTORTIONS, levels, [D, D])
    growth = math.sqrt(1.1 * 1.9)
    expected = abs(float(MASKED.covariance[0, 1]) - growth * float(ORIGINAL.covariance[0, 1]))
    assert each.pairs["p", "q"].covariance_error == pytest.approx(expected)
    assert each.attributes["q"].variance_error == pytest.approx(
        abs(MASKED.variance["q"] - 1.9 * ORIGINAL.variance["q"])
    )


def test_invalid_arguments_are_refused():
    with pytest.raises(ParameterError, match="2 attributes and 1 distortions"):
        utility(ORIGINAL, MASKED, DISTORTIONS[:1], 0.3, [D, D])
    with pytest.raises(ParameterError, match="no level for q"):
        utility(ORIGINAL, MASKED, DISTORTIONS, {"p": 0.3}, [D, D])
    with pytest.raises(StatisticsError, match="same attributes"):
        utility(ORIGINAL, statistics(A, B, names=("p", "s")), DISTORTIONS, 0.3, [D, D])
