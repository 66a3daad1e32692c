"""Statistics from values and from counts: examples that can be computed by hand, versions, and errors."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stream_masker.core.arrays import pack_observed, unpack_observed
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
)
from stream_masker.core.statistics.statistics import nearest_psd
from stream_masker.errors import ParameterError, StatisticsError, UnknownConceptError

FLAT = Ontology.from_edges([(c, "root") for c in "wxyz"]).taxonomy()
"""The distance of two of its leaves is 0.5."""

LINKS = [("a", "r"), ("b", "r"), ("a1", "a"), ("a2", "a"), ("b1", "b"), ("b2", "b"), ("a11", "a1")]
TAU = Ontology.from_edges(LINKS).taxonomy()
DAG = Ontology.from_edges([*LINKS, ("a11", "b2")]).taxonomy()
A = ["a11", "a2", "b1", "a2", "b2", "a", "a11"]
B = ["b1", "b1", "a2", "b2", "a1", "b", "b2"]


def test_a_rare_value_among_many_is_not_lost_to_rounding():
    """Two values at distance d, one of them once among n: sdVar = 2·d·(n − 1)/n²."""
    n = 1_000_000
    values = np.full(n, FLAT.position("x"), dtype=np.int32)
    values[17] = FLAT.position("y")
    assert distance_variance(values, WuPalmer(FLAT)) == pytest.approx((n - 1) / n**2, rel=1e-6)


def test_a_negative_sum_is_clamped_to_zero():
    """Wu–Palmer need not be of negative type: here the centred products sum to −0.0039·n²."""
    diamond = Ontology.from_edges([(c, "r") for c in "abc"] + [("e", c) for c in "abc"]).taxonomy()
    d, flat = WuPalmer(diamond), WuPalmer(FLAT)
    a = ["r"] * 3 + ["a"] * 2 + ["b"] * 2 + ["c"] * 2 + ["e"] * 4
    b = ["y"] * 3 + ["x"] * 6 + ["y"] * 4
    centre = np.eye(len(a)) - 1 / len(a)
    products = (centre @ d.matrix(a) @ centre) * (centre @ flat.matrix(b) @ centre)
    assert products.sum() / len(a) ** 2 < -0.003
    assert distance_covariance(a, d, b, flat) == 0.0
    assert distance_correlation(a, d, b, flat) == 0.0


def test_wrong_values_are_refused_and_not_shown():
    d = WuPalmer(FLAT)
    with pytest.raises(UnknownConceptError) as error:
        semantic_mean(["x", "secret"], d)
    assert error.value.position == 1
    assert "secret" not in str(error.value)
    with pytest.raises(UnknownConceptError):
        distance_variance(np.array([0, 99]), d)
    for statistic in (semantic_mean, semantic_variance, distance_variance):
        with pytest.raises(StatisticsError, match="at least one value"):
            statistic([], d)
    with pytest.raises(StatisticsError, match="at least one value"):
        distance_covariance([], d, [], d)
    with pytest.raises(ParameterError, match="same number of rows"):
        distance_correlation(["x"], d, ["x", "y"], d)


def column(tau, *values):
    return Column(np.array([ABSENT if v is None else tau.position(v) for v in values], dtype=np.int32))


def statistics(*columns, taus=None, **parameters):
    distances = [WuPalmer(tau) for tau in taus or [TAU] * len(columns)]
    batch = Batch(len(columns[0]), tuple(column(d.taxonomy, *c) for c, d in zip(columns, distances, strict=True)))
    counts = count_batch(batch, [len(d.taxonomy) for d in distances])
    return compute_statistics(counts, "pqs"[: len(columns)], distances, **{"version": 1} | parameters)


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
    again = Statistics.from_dict(s.to_dict())
    assert again.to_dict() == s.to_dict()
    np.testing.assert_array_equal(again.covariance, s.covariance)


def test_rows_without_a_value_count_only_for_the_other_attribute():
    s, d = statistics([*A, "b1", None], [*B, None, "a11"]), WuPalmer(TAU)
    assert s.covariance[0, 0] == pytest.approx(distance_variance([*A, "b1"], d))
    assert s.covariance[1, 1] == pytest.approx(distance_variance([*B, "a11"], d))
    assert s.covariance[0, 1] == pytest.approx(distance_covariance(A, d, B, d))
    assert s.correlation[0, 1] == pytest.approx(distance_correlation(A, d, B, d))


def test_a_pair_is_centred_by_its_own_rows_also_if_they_are_as_many_as_those_of_the_attributes():
    """Counts of expected masks have pairs that are drawn apart."""
    own, others = (
        count_batch(Batch(4, (column(FLAT, *a), column(FLAT, *b))), [len(FLAT)] * 2)
        for a, b in (("wwxy", "wxxy"), ("wxyz", "wxyz"))
    )
    mixed, expected = (
        compute_statistics(counts, "ab", [WuPalmer(FLAT)] * 2, version=1)
        for counts in (replace(others, pairs=own.pairs), own)
    )
    assert mixed.covariance[0, 1] == pytest.approx(expected.covariance[0, 1])


def test_observed_concepts_stay_observed():
    first = statistics(["a1", "a2"])
    second = statistics(["a1", "b1", "b1", "b2"], previous=first)
    third = statistics(["a1", "a2", "b1", "a11"], previous=second)
    observed = np.flatnonzero(unpack_observed(third.observed["p"], len(TAU)))
    assert set(TAU.decode(observed)) == {"a1", "a2", "b1", "b2", "a11"}


def test_windows_without_values_and_other_previous_statistics_are_refused():
    with pytest.raises(StatisticsError, match="value of q"):
        statistics(["a1", "a2"], [None, None])
    with pytest.raises(StatisticsError, match="previous statistics have"):
        statistics(A, B, previous=statistics(A))
    wide = Ontology.from_edges([*LINKS, *((f"c{k}", "r") for k in range(20))]).taxonomy()
    with pytest.raises(StatisticsError, match="unexpected size"):
        statistics(A, previous=statistics(A, taus=[wide]))


@given(bits=st.lists(st.booleans(), min_size=1, max_size=100))
def test_packed_masks_unpack(bits):
    np.testing.assert_array_equal(unpack_observed(pack_observed(np.array(bits)), len(bits)), bits)


@pytest.mark.parametrize("text", ["not base64!", "AAAA", "", pack_observed(np.ones(16, dtype=bool))])
def test_texts_that_are_no_packed_masks_are_refused(text):
    with pytest.raises(StatisticsError):
        unpack_observed(text, 40)


def test_an_indefinite_matrix_is_projected_and_another_one_is_returned():
    """The elementwise root of a positive semidefinite matrix need not be positive semidefinite."""
    root = np.sqrt([[1.0, 0.6, 0.0], [0.6, 1.0, 0.6], [0.0, 0.6, 1.0]])
    nearest, norm = nearest_psd(root)
    least = np.linalg.eigvalsh(root)[0]
    assert least < -0.09
    assert np.linalg.eigvalsh(nearest)[0] == pytest.approx(0.0, abs=1e-12)
    assert norm == pytest.approx(-least)
    np.testing.assert_array_equal(nearest, nearest.T)
    matrix = np.array([[0.2, 0.1], [0.1, 0.05]])
    assert nearest_psd(matrix) == (matrix, 0.0)


@pytest.mark.parametrize("cells", [1, 7, 40])
def test_a_covariance_in_blocks_of_any_size_is_the_same(monkeypatch, cells):
    expected = distance_covariance(A, WuPalmer(TAU), B, WuPalmer(DAG))
    monkeypatch.setattr("stream_masker.core.statistics.statistics.HELD_CELLS", cells)
    assert distance_covariance(A, WuPalmer(TAU), B, WuPalmer(DAG)) == pytest.approx(expected, rel=1e-12)
