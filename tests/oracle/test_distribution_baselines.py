"""The baselines that use only distributions, in section 5 of 2017, on 10,000 real discharges.

The data of the paper are not public, and its Figures 6 to 8 print no numbers. Its findings hold here as well:

* Naive and probabilistic distortion add more noise than semantic noise with α = 1: RMSE 0.74 and 0.71 instead of 0.37.
* They preserve no correlation: 0.08 and 0.05 of 0.29, like shuffled values, whereas semantic noise preserves 0.23.
* Probabilistic distortion preserves the mean, and naive distortion moves it by 0.33 (Table 5: 0.04 and 0, and 0.20 and
  0.27).
"""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from support.data import icd9cm
from support.real_codes import as_batch, real_pairs

from stream_masker.core.batch import Batch
from stream_masker.core.mechanisms import mechanism
from stream_masker.core.random import PositionKeys
from stream_masker.core.statistics import compute_statistics, count_batch
from stream_masker.core.statistics.utility import utility

pytestmark = pytest.mark.scheduled

SIZE = 10_000
BASELINES = ("naive_distortion", "probabilistic_distortion")


@cache
def original():
    tau = icd9cm().taxonomy()
    return tau, as_batch(real_pairs()[:, :SIZE])


@cache
def measured(name, **parameters):
    tau, batch = original()
    made = mechanism(name)({"a": tau, "b": tau}, seed=b"s...............", **parameters)
    sizes = [len(tau)] * 2
    before = made.compute(count_batch(batch, sizes), version=1)
    made.restore(made.snapshot_of(before))
    masked = made.mask_batch(batch, PositionKeys(b"s", "t", 0, np.arange(SIZE)))
    after = compute_statistics(count_batch(Batch(SIZE, masked.columns), sizes), ("a", "b"), made.distances, version=1)
    return utility(before, after, masked.distortions, {"a": 1.0, "b": 1.0}, made.distances), before


def measures(name, **parameters):
    """The RMSE of a and b, the distances between their means, and the preserved correlation."""
    found, _ = measured(name, **parameters)
    a, b = found.attributes.values()
    return a.rmse_actual, b.rmse_actual, a.mean_distance, b.mean_distance, found.pairs["a", "b"].correlation


@pytest.mark.parametrize("baseline", BASELINES)
def test_the_baselines_add_more_noise_than_semantic_noise(baseline):
    noise = measures("semantic_noise", alpha=1.0)
    assert min(measures(baseline)[:2]) > max(noise[:2])


@pytest.mark.parametrize("baseline", BASELINES)
def test_the_baselines_preserve_no_correlation(baseline):
    _, before = measured(baseline)
    baseline_correlation, noise_correlation = measures(baseline)[4], measures("semantic_noise", alpha=1.0)[4]
    assert before.correlation[0, 1] > 0.2
    assert baseline_correlation < 0.1
    assert noise_correlation > 2 * baseline_correlation


def test_probabilistic_distortion_preserves_the_mean_and_naive_distortion_does_not():
    assert measures("probabilistic_distortion")[2:4] == (0.0, 0.0)
    assert min(measures("naive_distortion")[2:4]) > 0.2
