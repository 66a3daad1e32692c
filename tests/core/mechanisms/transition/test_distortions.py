"""The baselines of 2017's section 5: naive and probabilistic distortion."""

from __future__ import annotations

import numpy as np
import pytest
from support.nominal import flat

from stream_masker.core.mechanisms import NaiveDistortion, ProbabilisticDistortion

TAXONOMIES = {"a": flat(["u", "v", "w", "x", "new"])}
WINDOW = [{"a": value} for value in "uuuuuuvvvx"]
N = 20_000
KEYS = [b"%d" % k for k in range(N)]


def made(kind, window=WINDOW):
    mechanism = kind(TAXONOMIES, seed=b"a seed..........")
    mechanism.learn_many(window)
    mechanism.calibrate()
    return mechanism


def shares(mechanism, value):
    masked = [record["a"] for record in mechanism.mask_many([{"a": value}] * N, keys=KEYS)]
    return {v: masked.count(v) / N for v in sorted(set(masked))}


def test_naive_distortion_takes_any_other_value_of_the_window():
    mechanism = made(NaiveDistortion)
    assert shares(mechanism, "u") == pytest.approx({"v": 1 / 2, "x": 1 / 2}, abs=0.02)
    assert shares(mechanism, "x") == pytest.approx({"u": 1 / 2, "v": 1 / 2}, abs=0.02)
    np.testing.assert_array_equal(mechanism.transition_matrix("a")[1], (1 - np.eye(3)) / 2)


@pytest.mark.parametrize("value", ["new", "w"])
def test_naive_distortion_of_a_value_outside_the_window(value):
    expected = {"u": 1 / 3, "v": 1 / 3, "x": 1 / 3}
    assert shares(made(NaiveDistortion), value) == pytest.approx(expected, abs=0.02)


@pytest.mark.parametrize("value", ["u", "x", "new"])
def test_probabilistic_distortion_draws_by_frequency_for_every_value(value):
    mechanism = made(ProbabilisticDistortion)
    assert shares(mechanism, value) == pytest.approx({"u": 0.6, "v": 0.3, "x": 0.1}, abs=0.02)
    np.testing.assert_allclose(mechanism.transition_matrix("a")[1], [[0.6, 0.3, 0.1]] * 3)


@pytest.mark.parametrize("kind", [NaiveDistortion, ProbabilisticDistortion])
def test_a_window_with_one_value_masks_every_value_to_it(kind):
    mechanism = made(kind, [{"a": "u"}] * 3)
    assert shares(mechanism, "u") == shares(mechanism, "new") == {"u": 1.0}
