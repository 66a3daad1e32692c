"""The attack: its success against maskings whose vulnerability is known."""

from __future__ import annotations

import numpy as np
import pytest
from support.evaluating import dataset

from stream_masker.evaluation.candidates import Candidate
from stream_masker.evaluation.measurement import measured_risk


def risk(name, data, **options):
    mechanism = Candidate(name, name, "", options).build(data)
    return measured_risk(mechanism, data, data.mask(mechanism)), mechanism


def test_invariant_pram_with_a_known_retention():
    """A value stays with probability r, otherwise it is drawn by frequency: V is close to r for values of a percent."""
    data = dataset(2000)
    found, mechanism = risk("pram", data, retention=0.6)
    _, matrix = mechanism.transition_matrix("a")
    prior = np.bincount(data.whole.columns[0].codes)
    prior = prior[prior > 0] / prior.sum()
    exact = (prior[:, None] * matrix).max(axis=0).sum()
    assert found.value["a"].vulnerability == pytest.approx(exact, abs=0.03)
    assert found.unchanged["a"] == pytest.approx((prior * np.diag(matrix)).sum(), abs=0.03)
    assert [found.value[name].certain for name in ("a", "b")] == [0.0, 0.0]
    assert found.record is None


@pytest.mark.parametrize(
    ("name", "options"),
    [("semantic_noise", {"alpha": 0.3}), ("exponential", {"epsilon": 10.0}), ("vicus", {}), ("pram", {})],
)
def test_no_attack_is_more_successful_than_the_exact_risk(name, options):
    """Up to the error of a sample of 2,000 values, and close to it."""
    found, mechanism = risk(name, dataset(2000), **options)
    exact = mechanism.risk()
    for a in ("a", "b"):
        assert exact.value[a].vulnerability - 0.1 < found.value[a].vulnerability < exact.value[a].vulnerability + 0.03
        assert found.unchanged[a] == pytest.approx(exact.unchanged[a], abs=0.03)


def test_a_mask_that_says_nothing_leaves_the_most_frequent_value():
    data = dataset(2000)
    found, _ = risk("probabilistic_distortion", data)
    prior = np.bincount(data.whole.columns[0].codes).max() / 2000
    assert prior <= found.value["a"].vulnerability < 2 * prior


def test_little_noise_is_found_out_and_its_values_are_certain():
    data = dataset(2000)
    little, _ = risk("semantic_noise", data, alpha=0.02, rounding="calibrated")
    much, _ = risk("semantic_noise", data, alpha=1.0, rounding="calibrated")
    assert little.value["a"].vulnerability > 0.8 > much.value["a"].vulnerability
    assert little.value["a"].certain > 0.5 > much.value["a"].certain
    assert little.rmse["a"] < much.rmse["a"]


def test_arrays_have_the_risk_of_their_elements():
    data = dataset(600, arrays=True)
    found, _ = risk("pram", data, retention=0.9)
    assert found.unchanged["b"] == pytest.approx(0.9, abs=0.05)
