"""The slope estimate of the memory test: it detects growth, and only growth."""

from __future__ import annotations

import numpy as np
from memory import Growth, slope

TIMES = np.arange(150.0)


def noise(seed: int) -> np.ndarray:
    """Return autocorrelated noise without a trend."""
    rng = np.random.default_rng(seed)
    return np.convolve(rng.normal(size=len(TIMES) + 9), np.ones(10) / 10, "valid")


def test_growth_is_detected_in_noise() -> None:
    found = slope(TIMES, 0.05 * TIMES + noise(1))
    assert found.low <= 0.05 <= found.high
    assert found.low > 0.02


def test_noise_has_no_slope() -> None:
    inside = [found.low <= 0 <= found.high for found in (slope(TIMES, noise(seed)) for seed in range(100))]
    assert sum(inside) >= 90


def test_one_step_and_single_peaks_have_no_slope() -> None:
    step, peaks = np.where(TIMES > 20, 5.0, 0.0), np.where(TIMES % 40 == 7, 90.0, 0.0)
    assert slope(TIMES, step).value == slope(TIMES, peaks).value == 0


def test_growth_is_given_in_megabytes_per_hour_and_per_million_records() -> None:
    growth = Growth(TIMES, 10_000 * TIMES, 300 + 0.01 * TIMES)
    assert round(growth.hourly.value, 6) == 36
    assert round(growth.per_million.value, 6) == 1
    assert round(growth.total, 2) == 1.35
