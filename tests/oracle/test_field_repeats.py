"""Several masks of each record of a field, against an enumeration of all records and masks, and against an attack."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.field_windows import Enumerated, Window, batch_of, random_exponents, random_field, trees

from stream_masker import SemanticTransport
from stream_masker.core.mechanisms.transport.field.channel import draw_records
from stream_masker.core.mechanisms.transport.field.disclosure import Posteriors, best_guesses, repeated_guesses
from stream_masker.core.mechanisms.transport.field.messages import Layout
from stream_masker.core.mechanisms.transport.field.solver import evaluate
from stream_masker.core.ontology import Ontology
from stream_masker.core.random.keys import PositionKeys
from stream_masker.core.statistics import count_batch

SEED = b"a seed of many bytes"
TAU = Ontology.from_edges([(f"c{k}", f"c{(k - 1) // 2}") for k in range(1, 15)]).taxonomy()
VALUES = TAU.encode(["c7", "c8", "c11", "c14"]).astype(np.int32)
NAMES = ("a", "b", "c")
LENIENCE = 2.0
"""The figures and the attack may differ by this multiple of their bounds, which have a confidence of 0.95."""


@settings(max_examples=40)
@given(trees(4), st.integers(0, 10_000), st.sampled_from([1, 4]), st.sampled_from([0.0, 0.3]), st.integers(1, 6))
def test_the_posterior_is_that_of_the_formula(parents, seed, least, absent, repeats):
    rng = np.random.default_rng(seed)
    window = Window.random(rng, parents, absent=absent)
    problem = window.problem(least=least)
    problem = replace(problem, extra=random_exponents(rng, problem.squares))
    field, links, records = random_field(rng, problem.links), problem.links, problem.records
    kernels, used = problem.kernels(field.sharpness), problem.written(list(field.scales))
    scales = (field.root_scale, list(field.scales), used)
    totals = evaluate(problem, Layout.of(links), field.sharpness, kernels, *scales).totals
    exact, channel = Enumerated.of(problem, field, records), window.channel(problem, field)
    drawn = records.indices[rng.choice(len(records.indices), 20)]
    words = rng.integers(0, 2**64, (repeats, *drawn.shape), dtype=np.uint64)
    masks = np.stack([draw_records(channel, drawn, each) for each in words])
    masks = masks[:, masks[0, :, 0] >= 0]
    posteriors = Posteriors.of(links, records, totals)
    found = repeated_guesses(channel, posteriors, records.weights, totals, masks)
    for m, row in enumerate(found):
        posterior = records.weights * np.prod([exact.masks[(slice(None), *t)] for t in masks[:, m]], axis=0)
        wanted = chances(links, records.indices, posterior / posterior.sum())
        np.testing.assert_allclose(row, wanted, rtol=1e-3)
    if repeats == 1:
        np.testing.assert_allclose(found, best_guesses(channel, posteriors, masks[0]), rtol=1e-3)


def chances(links, records, posterior):
    """The greatest posterior of a value of each node, and of a pair of each link."""
    q = len(links.attributes)
    chosen = [[node] for node in range(q)] + [[links.parents[node], node] for node in range(1, q)]
    result = []
    for nodes in chosen:
        _, which = np.unique(records[:, nodes], axis=0, return_inverse=True)
        result.append(np.bincount(which.ravel(), posterior).max())
    return result


def columns(size=2_000):
    """Two attributes that depend on the one in the middle."""
    rng = np.random.default_rng(3)
    middle = rng.choice(4, size, p=[0.4, 0.3, 0.2, 0.1])
    others = [np.where(rng.random(size) < s, rng.choice(4, size), (middle + k) % 4) for k, s in ((0, 0.4), (1, 0.5))]
    return [VALUES[others[0]], VALUES[middle], VALUES[others[1]]]


@pytest.fixture(scope="module")
def batch():
    return batch_of(columns())


@pytest.fixture(scope="module")
def made(batch):
    instance = SemanticTransport(dict.fromkeys(NAMES, TAU), target={"alpha": 0.4}, seed=SEED)
    counts = count_batch(batch, [len(TAU)] * len(NAMES))
    return instance.with_statistics(instance.compute(counts, version=1), counts)


@pytest.fixture(scope="module")
def exact(made):
    """The links of the field, its records with their law, and (n, k, k, k) M(t | s) of masks by node."""
    from support.enumeration import Enumeration

    (prepared,) = made._prepared_statistics().prepared_fields
    records = prepared.problem.records
    masks = np.array([Enumeration(made).field_masks(prepared.field, record) for record in records.indices])
    return prepared.field.links, records, masks


def enumerated(exact, nodes):
    """Σ over all pairs of masks of the greatest P(s)·M(t | s)·M(t' | s), summed over the records with equal values."""
    _, records, masks = exact
    rows = masks.reshape(len(masks), -1)
    _, which = np.unique(records.indices[:, nodes], axis=0, return_inverse=True)
    total = 0.0
    for second in rows.T:
        weights = rows * (records.weights * second)[:, None]
        joint = np.zeros((which.max() + 1, rows.shape[1]))
        np.add.at(joint, which.ravel(), weights)
        total += float(joint.max(axis=0).sum())
    return total


def test_figures_of_two_masks_are_those_of_an_enumeration(made, exact):
    links, *_ = exact
    found = made.risk(draws=4_000, repeats=2)
    assert 0.0 < found.bound_of_record < 0.02
    for node, j in enumerate(links.attributes):
        wanted = enumerated(exact, [node])
        assert found.given_record[NAMES[j]] == pytest.approx(wanted, abs=LENIENCE * found.bound_of_record)
    pairs = max(enumerated(exact, [links.parents[node], node]) for node in (1, 2))
    assert found.vulnerability_of_record == pytest.approx(pairs, abs=LENIENCE * found.bound_of_record)
    assert found.unchanged_of_record < made.risk(draws=10).unchanged_of_record


@pytest.mark.parametrize("repeats", [2, 8])
def test_figures_are_what_an_attacker_reaches_who_knows_the_channel(made, batch, exact, repeats):
    """Records of the window are masked with several keys; the attacker guesses the most likely value of each."""
    links, records, masks = exact
    prepared = made._prepared_statistics()
    logs = np.tile(np.log(records.weights), (batch.size, 1))
    for number in range(repeats):
        keys = PositionKeys(b"sixteen bytes, more", "t", number, np.arange(batch.size))
        masked = made.mask_batch(batch, keys).columns
        seen = tuple(prepared.values[j].indices(masked[j].codes) for j in links.attributes)
        logs += np.log(masks[(slice(None), *seen)]).T
    posterior = np.exp(logs - logs.max(axis=1, keepdims=True))
    found = made.repeated_risk(repeats=repeats, draws=2_000)
    for node, j in enumerate(links.attributes):
        sums = posterior @ np.eye(links.sizes[node])[records.indices[:, node]]
        right = sums.argmax(axis=1) == prepared.values[j].indices(batch.columns[j].codes)
        assert right.mean() == pytest.approx(found.given_record[NAMES[j]], abs=LENIENCE * found.bound)


def test_each_mask_tells_more_of_every_attribute(made):
    """Also a hundred masks, whose likelihoods underflow."""
    found = [made.repeated_risk(repeats=n, draws=1_000).given_record for n in (1, 2, 5, 20, 100)]
    for before, after in pairwise(found):
        assert all(before[name] < after[name] <= 1.0 + 1e-9 for name in NAMES)
