"""Measures of a channel, by hand and against enumeration."""

from __future__ import annotations

import math
from itertools import product

import numpy as np
import pytest

from stream_masker.core.risk.channel import (
    conditional_entropy,
    confident_share,
    differential_epsilon,
    doubts,
    expected_rank,
    joint_law,
    vulnerability,
)
from stream_masker.core.risk.sampling import hoeffding_bound

PRIOR = np.array([0.7, 0.3])
FLIP = np.array([[0.75, 0.25], [0.25, 0.75]])
NOTHING = np.array([[0.4, 0.6], [0.4, 0.6]])
PERMUTATION = np.array([[0.0, 1.0], [1.0, 0.0]])


def test_randomised_response_by_hand():
    joint = joint_law(PRIOR, FLIP)
    np.testing.assert_allclose(joint, [[0.525, 0.175], [0.075, 0.225]])
    assert vulnerability(joint) == pytest.approx(0.525 + 0.225)
    assert confident_share(joint, 0.5) == pytest.approx(1.0)
    assert confident_share(joint, 0.6) == pytest.approx(0.6)
    assert confident_share(joint, 0.9) == 0.0
    assert expected_rank(joint) == pytest.approx(0.75 + 2 * 0.25)
    assert differential_epsilon(FLIP) == pytest.approx(math.log(3.0))
    entropies = [0.6 * binary(0.875), 0.4 * binary(0.4375)]
    assert conditional_entropy(joint) == pytest.approx(sum(entropies))


def binary(p: float) -> float:
    return -p * math.log2(p) - (1 - p) * math.log2(1 - p)


def test_a_mask_that_is_independent_of_the_value_tells_nothing():
    joint = joint_law(PRIOR, NOTHING)
    assert vulnerability(joint) == pytest.approx(0.7)
    assert differential_epsilon(NOTHING) == 0.0
    assert conditional_entropy(joint) == pytest.approx(binary(0.7))


def test_a_permutation_tells_everything():
    joint = joint_law(PRIOR, PERMUTATION)
    assert vulnerability(joint) == pytest.approx(1.0)
    assert confident_share(joint, 0.9) == pytest.approx(1.0)
    assert conditional_entropy(joint) == 0.0
    assert expected_rank(joint) == pytest.approx(1.0)
    assert differential_epsilon(PERMUTATION) == math.inf


def test_only_permuted_values_have_no_doubt():
    rows = np.array([[0.0, 1.0, 0.0, 0.0], [1.0, 0.0, 0.0, 0.0], [0.0, 0.0, 0.5, 0.5], [0.0, 0.0, 0.5, 0.5]])
    np.testing.assert_allclose(
        doubts(joint_law(np.array([0.4, 0.2, 0.3, 0.1]), rows)), [0.0, 0.0, 0.25, 0.75], atol=1e-12
    )


def test_an_original_without_weight_is_in_doubt():
    np.testing.assert_allclose(doubts(joint_law(np.array([1.0, 0.0]), PERMUTATION)), [0.0, 1.0])


def test_equal_posteriors_share_their_rank():
    joint = joint_law(np.full(3, 1 / 3), np.full((3, 2), 0.5))
    assert expected_rank(joint) == pytest.approx(2.0)


@pytest.mark.parametrize("seed", range(5))
def test_measures_agree_with_enumeration(seed):
    rng = np.random.default_rng(seed)
    prior, rows = rng.dirichlet(np.ones(4)), rng.dirichlet(np.full(6, 0.3), 4)
    joint = joint_law(prior, rows)
    best = sum(max(prior[a] * rows[a, c] for a in range(4)) for c in range(6))
    assert vulnerability(joint) == pytest.approx(best)
    most = max(math.log(rows[a, c] / rows[b, c]) for a, b, c in product(range(4), range(4), range(6)))
    assert differential_epsilon(rows) == pytest.approx(most)
    rank = sum(joint[a, c] * (1 + sum(joint[b, c] > joint[a, c] for b in range(4))) for a in range(4) for c in range(6))
    assert expected_rank(joint) == pytest.approx(rank)
    total = joint.sum(axis=0)
    others = [sum(rows[a, c] * (1.0 - joint[a, c] / total[c]) for c in range(6)) for a in range(4)]
    np.testing.assert_allclose(doubts(joint), others, atol=1e-12)


def test_the_bound_falls_with_the_square_root_of_the_draws():
    assert hoeffding_bound(1000) == pytest.approx(math.sqrt(math.log(40) / 2000))
    assert hoeffding_bound(4000) == pytest.approx(hoeffding_bound(1000) / 2)
