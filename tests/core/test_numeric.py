"""Numeric attributes: their allowed values, and moments against direct computations."""

from dataclasses import replace

import numpy as np
import pytest

from stream_masker.core.batch import Batch, Column
from stream_masker.core.numeric import Moments, Numeric
from stream_masker.core.statistics import compute_statistics, count_batch
from stream_masker.errors import ParameterError

RNG = np.random.default_rng(8)


def table(n=500, gaps=True):
    age = RNG.normal(60, 18, n)
    values = np.column_stack((age, age * 100 + RNG.normal(0, 900, n) + 1e6, RNG.exponential(4, n)))
    if gaps:
        values[RNG.random(values.shape) < 0.1] = np.nan
    return values


def literal(values):
    """Pairwise complete moments, computed from their definition."""
    q = values.shape[1]
    mean, covariance = np.zeros((q, q)), np.zeros((q, q))
    for i in range(q):
        for j in range(q):
            both = values[~np.isnan(values[:, i]) & ~np.isnan(values[:, j])][:, [i, j]].astype(np.longdouble)
            mean[i, j] = both[:, 0].mean()
            covariance[i, j] = ((both[:, 0] - both[:, 0].mean()) * (both[:, 1] - both[:, 1].mean())).mean()
    return mean, covariance


@pytest.mark.parametrize("gaps", [False, True])
def test_moments_are_means_and_covariances(gaps):
    values = table(gaps=gaps)
    mean, covariance = literal(values)
    moments = Moments.of(values)
    np.testing.assert_allclose(moments.mean, mean, rtol=1e-14)
    np.testing.assert_allclose(moments.covariance, covariance, rtol=1e-11)
    if not gaps:
        np.testing.assert_allclose(moments.covariance, np.cov(values.T, bias=True), rtol=1e-11)


def test_equal_values_have_a_variance_of_exactly_0():
    values = np.full((1001, 1), 0.1)
    merged = Moments.of(values[:7]) + Moments.of(values[7:])
    assert Moments.of(values).products == 0.0
    assert merged.products == 0.0
    assert merged.mean == 0.1


def batch(values):
    return Batch(len(values), (Column(np.arange(len(values), dtype=np.int32) % 5),), numeric=values)


def replaced(counts):
    return replace(counts, values=(), pairs={}, given=(), unknown=())


def statistics(values):
    return compute_statistics(replaced(count_batch(batch(values), [5])), (), (), version=1, numeric="abc").numeric


def test_statistics_are_means_and_covariances():
    values = table(gaps=False)
    found = statistics(values)
    assert found.names == ("a", "b", "c")
    np.testing.assert_allclose(found.mean, values.mean(axis=0))
    np.testing.assert_allclose(found.covariance, np.cov(values.T, bias=True), rtol=1e-10)
    assert found.projection == 0.0


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"minimum": 3, "maximum": 3}, "not below"),
        ({"minimum": float("nan")}, "minimum=nan"),
        ({"maximum": float("inf")}, "maximum=inf"),
        ({"maximum": "9"}, "maximum='9'"),
        ({"minimum": True}, "minimum=True"),
        ({"minimum": 0.5, "integer": True}, "whole number"),
        ({"integer": 1}, "bool"),
    ],
)
def test_invalid_parameters_are_refused(parameters, message):
    with pytest.raises(ParameterError, match=message):
        Numeric(**parameters)


def test_an_attribute_admits_only_its_allowed_values():
    values = np.array([-1.0, 0.0, 3.5, 4.0, 9.0, np.nan, np.inf, -np.inf, 2.0**54])
    assert Numeric(minimum=0, maximum=8, integer=True).admits(values).tolist() == [0, 1, 0, 1, 0, 0, 0, 0, 0]
    assert Numeric().admits(values).tolist() == [1, 1, 1, 1, 1, 0, 0, 0, 0]
