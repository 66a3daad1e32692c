"""Noise sampling: covariance, distribution, and the dependence of arrays on their record's scalars."""

from __future__ import annotations

import numpy as np
import pytest

from stream_masker.core.batch import ABSENT, Batch, Column
from stream_masker.core.mechanisms.noise_law import SCALES
from stream_masker.core.mechanisms.semantic_noise import NoiseSampler
from stream_masker.core.random import PositionKeys, draw_words

N = 60_000
SIGMA = np.array([[0.14, 0.04, 0.06], [0.04, 0.15, 0.02], [0.06, 0.02, 0.09]])
ALPHA = np.array([0.3, 0.5, 1.0])
TARGET = np.sqrt(np.outer(ALPHA, ALPHA)) * SIGMA


def scalar(size) -> Column:
    return Column(np.zeros(size, np.int32))


def array(lengths) -> Column:
    offsets = np.concatenate(([0], np.cumsum(lengths))).astype(np.int64)
    return Column(np.zeros(int(offsets[-1]), np.int32), offsets)


def noise_of(batch, distribution="normal"):
    keys = PositionKeys(b"secret of the tests", "topic", 0, np.arange(batch.size))
    source = NoiseSampler(sigma=SIGMA, alpha=ALPHA, correlated=True, distribution=distribution)
    return source.draw(keys, batch, draw_words(keys, batch))


def kurtosis(values):
    return float(np.mean(values**4) / np.mean(values**2) ** 2)


@pytest.mark.parametrize("distribution", SCALES)
def test_scalars_have_the_requested_covariance(distribution):
    drawn = np.array(noise_of(Batch(N, tuple(scalar(N) for _ in range(3))), distribution=distribution))
    np.testing.assert_allclose(np.cov(drawn), TARGET, atol=0.004)
    np.testing.assert_allclose(drawn.mean(axis=1), 0, atol=0.005)
    for values in drawn:
        assert kurtosis(values) == pytest.approx(6 if distribution == "laplace" else 3, abs=0.5)


@pytest.mark.parametrize("place", [0, 1, 2])
@pytest.mark.parametrize("distribution", SCALES)
def test_every_element_has_the_covariance_with_the_scalars(place, distribution):
    columns = [scalar(N) for _ in range(3)]
    columns[place] = array([2] * N)
    drawn = noise_of(Batch(N, tuple(columns)), distribution=distribution)
    for k in (0, 1):
        rows = [values[k::2] if j == place else values for j, values in enumerate(drawn)]
        np.testing.assert_allclose(np.cov(np.array(rows)), TARGET, atol=0.005)


def test_present_values_keep_their_covariance_if_others_are_absent():
    codes = np.zeros(N, np.int32)
    codes[::2] = ABSENT
    drawn = noise_of(Batch(N, (Column(codes), scalar(N), scalar(N))))
    for rows in (slice(0, None, 2), slice(1, None, 2)):
        np.testing.assert_allclose(np.cov(drawn[1][rows], drawn[2][rows]), TARGET[1:, 1:], atol=0.006)
    np.testing.assert_allclose(np.cov(np.array([values[1::2] for values in drawn])), TARGET, atol=0.006)
