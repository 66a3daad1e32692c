"""Compensated sums and their error terms, against exact fractions."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stream_masker.core.statistics.compensated import CompensatedSums, exact_product, exact_sum

NUMBERS = st.integers(-(1 << 53), 1 << 53).map(lambda n: n / (1 << 40))


def test_sums_stay_exact_over_many_slides():
    """A window of 1,000 weighted numbers slides 200,000 times; large weights leave, and weights come in two parts."""
    rng = np.random.default_rng(5)
    numbers, weights = rng.random(201_000) / 3.0, rng.integers(1, 1000, 201_000)
    weights[:100_000] *= 1_000_000
    added, removed, part = slice(1000, None), slice(None, -1000), weights // 3
    matrix = np.stack((numbers[added], numbers[added], numbers[removed]), axis=1).ravel()
    factors = np.stack((part[added], (weights - part)[added], -weights[removed]), axis=1).ravel().astype(np.float64)
    sums = CompensatedSums(np.zeros(1))
    sums.add_products(numbers[None, :1000], weights[:1000].astype(np.float64))
    initial = sums.values[0]
    sums.add_products(matrix[None, :], factors)
    last = zip(numbers[-1000:].tolist(), weights[-1000:].tolist(), strict=True)
    exact = float(sum(Fraction(number) * weight for number, weight in last))
    assert sums.values[0] == pytest.approx(exact, rel=3e-16, abs=0)
    plain = np.cumsum(np.concatenate(([initial], matrix * factors)))[-1]
    assert abs(plain - exact) > 1e-12 * exact


@given(x=NUMBERS, y=NUMBERS)
def test_products_and_sums_have_exact_errors(x, y):
    for of, exact in ((exact_product, Fraction(x) * Fraction(y)), (exact_sum, Fraction(x) + Fraction(y))):
        rounded, error = of.py_func(x, y)
        assert rounded == float(exact)
        assert Fraction(rounded) + Fraction(error) == exact
