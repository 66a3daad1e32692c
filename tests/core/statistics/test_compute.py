"""The computation of versioned statistics from counts."""

import numpy as np
import pytest

from stream_masker.core.batch import ABSENT, Batch, Column
from stream_masker.core.distance import WuPalmer
from stream_masker.core.ontology import Ontology
from stream_masker.core.statistics import (
    Statistics,
    compute_statistics,
    count_batch,
    distance_correlation,
    distance_covariance,
    distance_variance,
    semantic_mean,
    semantic_variance,
    unpack_observed,
)
from stream_masker.errors import StatisticsError

LINKS = [("a", "r"), ("b", "r"), ("a1", "a"), ("a2", "a"), ("b1", "b"), ("b2", "b"), ("a11", "a1")]
TAU = Ontology.from_edges(LINKS).taxonomy()
DAG = Ontology.from_edges([*LINKS, ("a11", "b2")]).taxonomy()


def column(tau, *values):
    return Column(np.array([ABSENT if v is None else tau.position(v) for v in values], dtype=np.int32))


def statistics(*columns, taus=None, unknown=None, lost=None, **parameters):
    distances = [WuPalmer(tau) for tau in taus or [TAU] * len(columns)]
    batch = Batch(len(columns[0]), tuple(column(d.taxonomy, *c) for c, d in zip(columns, distances, strict=True)))
    counts = count_batch(batch, [len(d.taxonomy) for d in distances], unknown, lost)
    return compute_statistics(counts, "pqs"[: len(columns)], distances, **{"version": 1} | parameters)


A = ["a11", "a2", "b1", "a2", "b2", "a", "a11"]
B = ["b1", "b1", "a2", "b2", "a1", "b", "b2"]


@pytest.mark.parametrize("taus", [(TAU, TAU), (DAG, DAG), (TAU, DAG), (DAG, TAU)])
def test_statistics_equal_those_of_the_public_functions(taus):
    d_a, d_b = map(WuPalmer, taus)
    s = statistics(A, B, taus=taus, version=5)
    assert (s.version, s.records, s.attributes) == (5, 7, ("p", "q"))
    assert s.mean == {"p": semantic_mean(A, d_a), "q": semantic_mean(B, d_b)}
    assert s.variance == {"p": semantic_variance(A, d_a), "q": semantic_variance(B, d_b)}
    shared = distance_covariance(A, d_a, B, d_b)
    assert shared > 0.01
    expected = [[distance_variance(A, d_a), shared], [shared, distance_variance(B, d_b)]]
    np.testing.assert_allclose(s.covariance, expected, rtol=1e-12)
    assert s.correlation[0, 1] == s.correlation[1, 0] == distance_correlation(A, d_a, B, d_b)
    assert s.correlation[0, 0] == s.correlation[1, 1] == 1.0
    assert s.projection == 0.0


def test_rows_without_a_value_count_only_for_the_other_attribute():
    a, b = [*A, "b1", None], [*B, None, "a11"]
    s = statistics(a, b)
    d = WuPalmer(TAU)
    assert s.covariance[0, 0] == pytest.approx(distance_variance(a[:-1], d))
    assert s.covariance[1, 1] == pytest.approx(distance_variance([*B, "a11"], d))
    assert s.covariance[0, 1] == pytest.approx(distance_covariance(A, d, B, d))
    assert s.correlation[0, 1] == pytest.approx(distance_correlation(A, d, B, d))


def test_shares_of_unknown_and_of_rolled_up_values():
    s = statistics(["a1", "a2", "b1"], unknown=[1], lost=[1])
    assert s.unknown == {"p": 0.25}
    assert statistics(["a1", "a2", "b1", "b1"], unknown=[3]).unknown == {"p": 0.75}
    assert statistics(["a1", "a2"]).unknown == {"p": 0}


def test_observed_concepts_stay_observed_and_are_not_novel():
    first = statistics(["a1", "a2"])
    assert first.novel == {"p": 0.0}
    second = statistics(["a1", "b1", "b1", "b2"], previous=first)
    assert second.novel == {"p": 0.75}
    third = statistics(["a1", "a2", "b1", "a11"], previous=second)
    assert third.novel == {"p": 0.25}
    observed = np.flatnonzero(unpack_observed(third.observed["p"], len(TAU)))
    assert set(TAU.decode(observed)) == {"a1", "a2", "b1", "b2", "a11"}


def test_statistics_round_trip_through_a_dictionary():
    s = statistics(A, B)
    again = Statistics.from_dict(s.to_dict())
    assert again.to_dict() == s.to_dict()
    np.testing.assert_array_equal(again.covariance, s.covariance)


def test_an_attribute_without_values_is_rejected_by_name():
    with pytest.raises(StatisticsError, match="value of q"):
        statistics(["a1", "a2"], [None, None])


def test_previous_statistics_of_other_attributes_or_taxonomies_are_rejected():
    with pytest.raises(StatisticsError, match="attribute q"):
        statistics(A, B, previous=statistics(A))
    wide = Ontology.from_edges([*LINKS, *((f"c{k}", "r") for k in range(20))]).taxonomy()
    with pytest.raises(StatisticsError, match="unexpected size"):
        statistics(A, previous=statistics(A, taus=[wide]))
