"""The exponential mechanism: exact probabilities and local differential privacy, in trees and in graphs."""

from __future__ import annotations

import numpy as np
import pytest
from support.channels import trained
from support.graphs import to_all

from stream_masker.core.distance import LogTaxonomic, WuPalmer
from stream_masker.core.mechanisms import Exponential
from stream_masker.core.mechanisms.markov import ExponentialDrawer
from stream_masker.core.ontology import Ontology
from stream_masker.core.replacement import Candidates

N = 40_000


def taxonomy(parents, size=30):
    rng = np.random.default_rng(parents)
    links = {(f"c{k}", f"c{p}") for k in range(1, size) for p in rng.integers(max(0, k - 12), k, parents)}
    return Ontology.from_edges(sorted(links)).taxonomy()


TREE, GRAPH = taxonomy(1), taxonomy(2, size=150)


def probabilities(distance, a, epsilon, candidates="all"):
    """The definition: exp(-ε·sd/2), normalised over all candidates."""
    weights = np.exp(-epsilon * to_all(distance, a) / 2)
    if candidates == "leaves":
        weights *= distance.taxonomy.leaf
    return weights / weights.sum()


@pytest.mark.parametrize(("epsilon", "candidates"), [(0.1, "all"), (2.0, "leaves"), (20.0, "all")])
@pytest.mark.parametrize("measure", [WuPalmer, LogTaxonomic])
@pytest.mark.parametrize("tau", [TREE, GRAPH])
def test_concepts_are_drawn_by_their_probabilities(tau, measure, epsilon, candidates):
    distance = measure(tau)
    drawer = ExponentialDrawer(distance, Candidates.of(tau, candidates), epsilon)
    for a in (0, 1, len(tau) - 1):
        drawn = drawer.draw(np.full(N, a, np.int32), np.random.default_rng(7).integers(0, 2**64, (N, 2), np.uint64))
        shares = np.bincount(drawn, minlength=len(tau)) / N
        expected = probabilities(distance, a, epsilon, candidates)
        np.testing.assert_allclose(shares, expected, atol=5 * np.sqrt(expected.max() / N))
        assert shares[expected == 0].sum() == 0


@pytest.mark.parametrize("tau", [TREE, GRAPH])
@pytest.mark.parametrize("epsilon", [0.5, 3.0])
def test_each_value_is_epsilon_locally_private(tau, epsilon):
    """P(c | a) ≤ exp(ε)·P(c | a') for all a, a', c."""
    rows = made(tau, epsilon=epsilon).attribute_channel(0, np.arange(len(tau), dtype=np.int32), None).rows
    assert (rows.max(axis=0) / rows.min(axis=0)).max() <= np.exp(epsilon)


def made(tau=TREE, **parameters):
    records = [{"a": "c1", "b": "c2"}, {"a": "c3", "b": "c4"}]
    return trained(Exponential({"a": tau, "b": tau}, seed=b"a seed..........", **parameters), records)


def test_masks_are_leaves_if_these_are_asked_for():
    masks = made(candidates="leaves").mask_many([{"a": "c1", "b": "c2"}] * 99, keys=[b"%d" % k for k in range(99)])
    assert TREE.leaf[TREE.encode([mask["a"] for mask in masks])].all()
