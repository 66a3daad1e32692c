"""Elementary functions of arrays, and least squares, against NumPy."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stream_masker.core.kernels.elementary import exponentials, inner_product, least_squares, logarithm, logarithms

SEEDS = st.integers(0, 2**32 - 1)


@given(seed=SEEDS, shape=st.sampled_from([(0,), (7,), (3, 5), (5, 1)]))
def test_functions_keep_the_shape_and_are_those_of_numpy(seed, shape):
    values = np.random.default_rng(seed).uniform(-30, 30, shape)
    assert exponentials(values) == pytest.approx(np.exp(values), rel=1e-15)
    assert logarithms(np.abs(values)) == pytest.approx(np.log(np.abs(values)), rel=1e-15)
    assert exponentials(values.T).shape == values.T.shape
    assert inner_product(values.ravel(), values.ravel()) == pytest.approx((values**2).sum())


def test_the_logarithm_of_nothing_is_infinite():
    assert logarithms(np.array([0.0, 1.0])).tolist() == [-np.inf, 0.0]
    assert [logarithm(0.0), logarithm(1.0)] == [-np.inf, 0.0]


@given(seed=SEEDS, size=st.integers(1, 5), length=st.integers(5, 60))
def test_least_squares_are_those_of_numpy(seed, size, length):
    rng = np.random.default_rng(seed)
    rows, wanted = rng.normal(size=(size, length)), rng.normal(size=length)
    expected = np.linalg.lstsq(rows.T, wanted, rcond=None)[0]
    assert least_squares(rows, wanted) == pytest.approx(expected, rel=1e-6, abs=1e-9)


@given(seed=SEEDS)
def test_a_dependent_row_has_no_part(seed):
    rng = np.random.default_rng(seed)
    rows, wanted = rng.normal(size=(2, 20)), rng.normal(size=20)
    coefficients = least_squares(np.array([rows[0], rows[0] * 3.0, rows[1], np.zeros(20)]), wanted)
    assert coefficients[[1, 3]].tolist() == [0.0, 0.0]
    assert coefficients[[0, 2]] == pytest.approx(np.linalg.lstsq(rows.T, wanted, rcond=None)[0], rel=1e-6, abs=1e-9)
