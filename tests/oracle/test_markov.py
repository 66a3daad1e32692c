"""PRAM and the baselines of 2017, against transition probabilities computed literally from their definitions."""

from __future__ import annotations

import pytest
from support.channels import assert_drawn_from, channel, trained
from support.nominal import flat

from stream_masker import NaiveDistortion, Pram, ProbabilisticDistortion

SEED = b"a seed.........."
TAU = flat(["u", "v", "w", "x", "new"])
WINDOW = [{"a": value} for value in "uuuuuuvvvx"]
SHARES = {"u": 0.6, "v": 0.3, "x": 0.1}
DRAWS = 20_000


def naive(a):
    """Any value of the data set, with equal probability."""
    return dict.fromkeys(SHARES, 1 / len(SHARES))


def probabilistic(a):
    """A value by its frequency in the data set."""
    return SHARES


def estimated(retention):
    """The value itself with probability θ, otherwise a value by its frequency."""
    return lambda a: {b: retention * (a == b) + (1 - retention) * share for b, share in SHARES.items()}


METHODS = {
    "naive": (NaiveDistortion, {}, naive, dict.fromkeys(SHARES, 1 / 3)),
    "probabilistic": (ProbabilisticDistortion, {}, probabilistic, SHARES),
    "estimated": (Pram, {}, estimated(0.5), SHARES),
    "estimated without retention": (Pram, {"retention": 0.0}, estimated(0.0), SHARES),
    "estimated with much retention": (Pram, {"retention": 0.9}, estimated(0.9), SHARES),
}


@pytest.fixture(params=METHODS)
def case(request):
    kind, parameters, law, outside = METHODS[request.param]
    return trained(kind({"a": TAU}, **parameters, seed=SEED), WINDOW), law, outside


def drawn(mechanism, value):
    masks = mechanism.mask_many([{"a": value}] * DRAWS, keys=[b"%d" % k for k in range(DRAWS)])
    return [record["a"] for record in masks]


def test_the_channel_is_that_of_the_definition(case):
    mechanism, law, outside = case
    for value, expected in (*((a, law(a)) for a in SHARES), ("w", outside), ("new", outside)):
        found = channel(mechanism, "a", value)
        assert found == pytest.approx({b: p for b, p in expected.items() if p})


@pytest.mark.parametrize("value", ["u", "v", "x", "w", "new"])
def test_masks_are_drawn_from_it(case, value):
    """A value outside the matrix is never emitted."""
    mechanism, law, outside = case
    assert_drawn_from(law(value) if value in SHARES else outside, drawn(mechanism, value))


@pytest.mark.parametrize("kind", [NaiveDistortion, ProbabilisticDistortion, Pram])
def test_a_window_with_one_value_masks_every_value_to_it(kind):
    mechanism = trained(kind({"a": TAU}, seed=SEED), [{"a": "u"}] * 3)
    assert set(drawn(mechanism, "u")) == set(drawn(mechanism, "new")) == {"u"}
