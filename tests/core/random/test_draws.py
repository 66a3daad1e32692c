"""Variates drawn from random words."""

from __future__ import annotations

import numpy as np

from stream_masker.core.random.draws import exponential_roots, normals, uniform, uniforms

N = 60_000


def words(shape):
    return np.random.default_rng(1).integers(0, 1 << 64, shape, dtype=np.uint64)


def kurtosis(values):
    return float(np.mean(values**4) / np.mean(values**2) ** 2)


def test_normals_are_normal():
    drawn = normals(words((N, 2)))
    assert abs(drawn.mean()) < 0.02
    assert abs(drawn.std() - 1) < 0.01
    assert abs(kurtosis(drawn) - 3) < 0.1
    assert abs(np.mean(drawn < 1.0) - 0.8413) < 0.006


def test_extreme_words_give_finite_variates():
    extreme = np.array([[0, 0], [2**64 - 1, 2**64 - 1], [2**64 - 1, 0]], np.uint64)
    assert np.isfinite(normals(extreme)).all()
    assert np.isfinite(exponential_roots(extreme.reshape(-1))).all()


def test_exponential_roots_are_roots_of_exponential_variates():
    squared = exponential_roots(words(N)) ** 2
    assert abs(squared.mean() - 1) < 0.02
    assert abs(np.mean(squared > 1) - np.exp(-1)) < 0.006


def test_uniforms_equal_single_draws():
    drawn = uniforms(words(100))
    assert drawn.tolist() == [uniform(word) for word in words(100)]
    assert drawn.min() >= 0.0
    assert drawn.max() < 1.0
