"""The baselines of 2017's section 5 (naive and probabilistic distortion), and the serialization of models."""

from __future__ import annotations

import numpy as np
import pytest
from support.nominal import flat

from stream_masker.core.mechanisms import NaiveDistortion, ProbabilisticDistortion
from stream_masker.core.mechanisms.transition.domain import Domain
from stream_masker.core.mechanisms.transition.serialization import pack_array, unpack_array
from stream_masker.core.mechanisms.transition.transitions import PartTransition, RowTransition, ShareTransition
from stream_masker.errors import StatisticsError

TAXONOMIES = {"a": flat(["u", "v", "w", "x", "new"])}
WINDOW = [{"a": value} for value in "uuuuuuvvvx"]
N = 20_000
KEYS = [b"%d" % k for k in range(N)]


def made(kind, window=WINDOW):
    mechanism = kind(TAXONOMIES, seed=b"a seed")
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


@pytest.mark.parametrize("dtype", [np.int32, np.int64, np.float64])
def test_arrays_round_trip(dtype):
    array = np.array([1, 5, 2, 0], dtype)
    found = unpack_array(pack_array(array), dtype)
    np.testing.assert_array_equal(found, array)
    assert found.dtype == dtype


def test_packed_arrays_of_another_size_are_rejected():
    text = pack_array(np.zeros(1000, np.int64))
    for size in (999, 1001):
        with pytest.raises(StatisticsError, match="size"):
            unpack_array(text, np.int64, size)
    with pytest.raises(StatisticsError, match="size"):
        unpack_array(text, np.int64, max_size=10)
    for bad in ("", "%%%", None, text[:-8]):
        with pytest.raises(StatisticsError):
            unpack_array(bad, np.int64, 1000)


SMALLEST, LARGEST = np.uint64(0), np.uint64(2**64 - 1)


def transitions():
    domain = Domain.of(np.array([4, 2, 7]), np.array([0, 3, 2]), 9)
    rows = np.array([[0.0, 1.0, 0.0], [0.3, 0.0, 0.7], [0.1, 0.9, 0.0]])
    low, high = np.array([0, 0, 2]), np.array([2, 2, 3])
    yield PartTransition(domain, np.array([0.4, 0.4, 0.8]), np.array([0.7, 0.7, 0.8]), low, high)
    yield ShareTransition(domain, 0.25)
    yield RowTransition.of(domain, rows)


@pytest.mark.parametrize("transition", list(transitions()), ids=lambda transition: type(transition).__name__)
@pytest.mark.parametrize("first", [SMALLEST, LARGEST])
@pytest.mark.parametrize("second", [SMALLEST, LARGEST])
def test_extreme_random_words_draw_only_possible_values(transition, first, second):
    codes = np.array([4, 2, 7, 0, 8, -1], np.int32)
    drawn = transition.draw(codes, np.array([[first, second]] * 6))
    chances = np.vstack([transition.matrix(), np.tile(transition.domain.shares, (2, 1))])
    for row, value in zip(chances, drawn, strict=False):
        assert row[transition.domain.index_of[value]] > 0
    assert drawn[5] == -1
    np.testing.assert_allclose(transition.matrix().sum(axis=1), 1.0)
