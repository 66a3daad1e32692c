"""The transition probabilities of semantic noise, against draws and enumeration, for every rule and option."""

from __future__ import annotations

import numpy as np
import pytest
from support.channels import assert_drawn_from, channel, trained

from stream_masker.core.mechanisms import SemanticNoise
from stream_masker.core.mechanisms.noise_law import SCALES, NoiseLaw, noise_cells
from stream_masker.core.ontology import Ontology
from stream_masker.core.risk.law import Tuples, value_law

SIZE = 24
DRAWS = 8000
KEYS = [b"%d" % k for k in range(DRAWS)]

RNG = np.random.default_rng(8)
LINKS = {(f"c{k}", f"c{p}") for k in range(1, SIZE) for p in RNG.integers(0, k, 2)}
TAU = Ontology.from_edges(sorted(LINKS)).taxonomy()
NAMES = ("rounding", "candidates", "distribution")
RULES = [("ceil", "all", "normal"), ("calibrated", "leaves", "laplace"), ("calibrated", "observed", "normal")]


def mechanism(**parameters):
    rng = np.random.default_rng(2)
    first = rng.integers(0, SIZE - 4, 200)
    pairs = zip(first, rng.integers(0, 5, 200), strict=True)
    records = [{"a": TAU.ids[i], "b": TAU.ids[(i + j) % SIZE]} for i, j in pairs]
    return trained(SemanticNoise({"a": TAU, "b": TAU}, alpha=0.5, seed=b"seed............", **parameters), records)


@pytest.mark.parametrize("reference", ["pair", "mean", "root"])
@pytest.mark.parametrize("rule", RULES, ids=str)
def test_every_rule_agrees_with_what_is_drawn(reference, rule):
    noise = mechanism(reference=reference, correlated=False, **dict(zip(NAMES, rule, strict=True)))
    value = TAU.ids[9]
    partners = [b for a, b in rows_of(noise) if a == value]
    drawn = [{"a": value, "b": partners[k]} for k in np.random.default_rng(3).integers(0, len(partners), DRAWS)]
    assert_drawn_from(channel(noise, "a", value), [m["a"] for m in noise.mask_many(drawn, keys=KEYS)])


def rows_of(noise) -> list[tuple[str, str]]:
    tuples = tuples_of(noise)
    sizes = np.rint(tuples.prior * 200).astype(int)
    pairs = zip(TAU.decode(tuples.codes[0]), TAU.decode(tuples.codes[1]), strict=True)
    return [pair for pair, size in zip(pairs, sizes, strict=True) for _ in range(size)]


def tuples_of(noise) -> Tuples:
    return Tuples.of(noise._counts, (0, 1), (len(TAU), len(TAU)))


@pytest.mark.parametrize(
    ("correlated", "reference", "rule"),
    [
        (True, "pair", ("calibrated", "observed", "normal")),
        (True, "pair", ("ceil", "all", "normal")),
        (True, "mean", ("ceil", "all", "laplace")),
        (False, "pair", ("calibrated", "all", "laplace")),
    ],
)
def test_the_masks_of_a_pair_agree_with_what_is_drawn(correlated, reference, rule):
    """A common exponential variate would make Laplace noise of uncorrelated attributes dependent."""
    noise = mechanism(correlated=correlated, reference=reference, **dict(zip(NAMES, rule, strict=True)))
    tuples = tuples_of(noise)
    channels = [noise.attribute_channel(j, value_law(noise._counts.values[j])[0], noise._counts) for j in (0, 1)]
    law = noise.mask_law(tuples, tuple(channels), noise._counts)
    record = {"a": TAU.ids[tuples.codes[0][5]], "b": TAU.ids[tuples.codes[1][5]]}
    masked = noise.mask_many([record] * DRAWS, keys=KEYS)
    representatives = [np.unique(channel.class_of, return_index=True)[1] for channel in channels]
    likelihoods = {(a, b): law([(int(a), int(b))])[0] for a in representatives[0] for b in representatives[1]}
    np.testing.assert_allclose(sum(likelihoods.values()), 1.0, atol=1e-6)
    classes = [channel.class_of for channel in channels]
    expected = {f"{classes[0][a]} {classes[1][b]}": float(p[5]) for (a, b), p in likelihoods.items()}
    codes = [TAU.encode([m[name] for m in masked]) for name in "ab"]
    assert_drawn_from(expected, [f"{classes[0][a]} {classes[1][b]}" for a, b in zip(*codes, strict=True)])


@pytest.mark.parametrize("distribution", SCALES)
@pytest.mark.parametrize("correlation", [-0.5, 0.4, 0.99])
def test_cells_of_two_noises_have_the_right_margins_and_covariance(correlation, distribution):
    laws = NoiseLaw(0.3, distribution), NoiseLaw(0.2, distribution)
    u, v = np.linspace(0.0, 3.0, 41), np.linspace(0.0, 2.0, 41)
    cells = 2.0 * noise_cells(laws, correlation, u, v, shared=True)
    np.testing.assert_allclose(cells.sum(axis=(0, 2)), laws[0].cells(u)[0], atol=2e-4)
    np.testing.assert_allclose(cells.sum(axis=(0, 1)), laws[1].cells(v)[0], atol=2e-4)
    products = np.outer(u + 0.0375, v + 0.025)
    assert ((cells[0] - cells[1]) * products).sum() == pytest.approx(0.06 * correlation, abs=3e-3)
