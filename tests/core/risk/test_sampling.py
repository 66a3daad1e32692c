"""The bounds of estimates."""

from __future__ import annotations

import numpy as np
import pytest

from stream_masker.core.risk.sampling import hoeffding_bound, upper_bound


@pytest.mark.parametrize(("mean", "terms"), [(0.0, 200), (0.02, 200), (0.5, 50), (1.0, 5)])
def test_the_upper_bound_is_above_the_mean_and_at_most_the_simple_one(mean, terms):
    found = upper_bound(mean, terms)
    assert mean <= found <= min(1.0, mean + hoeffding_bound(terms, 0.1)) + 1e-9


def test_without_a_success_it_is_exact():
    """The probability of no success in n trials with probability q is (1 − q)^n."""
    assert (1.0 - upper_bound(0.0, 128)) ** 128 == pytest.approx(0.05)


def test_it_is_missed_by_at_most_one_in_twenty():
    rng = np.random.default_rng(1)
    means = rng.binomial(100, 0.04, 2_000) / 100
    assert np.mean([upper_bound(float(mean), 100) < 0.04 for mean in means]) <= 0.05
