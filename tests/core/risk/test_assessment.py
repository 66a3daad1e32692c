"""The risk of records with arrays, with three attributes, and with one."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from support.channels import trained

from stream_masker import Exponential, Ontology, Pram, SemanticNoise
from stream_masker.core.batch import Batch, Column
from stream_masker.core.random import PositionKeys
from stream_masker.core.statistics.counts import SparseCounts, count_batch

TAU = Ontology.from_edges([("c1", "c0"), ("c2", "c0"), ("c3", "c1"), ("c4", "c1"), ("c5", "c2")]).taxonomy()
SIZE = len(TAU)
SEED = b"a seed of many bytes"
SHARES = np.array([[0, 0, 0, 0, 0, 0], [0, 0, 0, 8, 2, 3], [0, 2, 0, 1, 0, 9], [0, 0, 6, 4, 5, 0]])
VALUES = np.array([0, 2, 3, 4], np.int32)


def ready(lengths, **parameters):
    """Noise with a window whose rows have the pairs ``SHARES``; ``lengths``: the number of events by length."""
    first, second = np.repeat(np.argwhere(SHARES), SHARES[SHARES > 0], axis=0).T
    array = Column(second.astype(np.int32), np.arange(second.size + 1))
    counts = count_batch(Batch(first.size, (Column(VALUES[first]), array)), [SIZE, SIZE])
    held = SparseCounts(np.array(list(lengths), np.int64), np.array(list(lengths.values()), np.int64))
    counts = replace(counts, lengths={1: held} if lengths else {})
    made = SemanticNoise({"a": TAU, "b": TAU}, seed=SEED, **parameters)
    return made.with_statistics(made.compute(counts, version=1), counts), counts


@pytest.mark.parametrize(("reference", "correlated"), [("root", True), ("mean", False), ("pair", True)])
def test_an_attacker_who_has_counted_the_masks_of_events_does_as_well(reference, correlated):
    """The attacker has masked 60,000 events with three elements and counted which scalars had the same masks."""
    n, size = 3, 60_000
    made, counts = ready({n: 1}, reference=reference, correlated=correlated)
    rng, law = np.random.default_rng(4), np.zeros((SIZE, SIZE))
    law[np.divmod(counts.pairs[0, 1].keys, SIZE)] = counts.pairs[0, 1].counts / counts.pairs[0, 1].rows
    scalars = rng.choice(SIZE, size, p=law.sum(axis=1)).astype(np.int32)
    elements = np.empty((size, n), np.int32)
    for a in np.unique(scalars):
        own = scalars == a
        elements[own] = rng.choice(SIZE, (np.count_nonzero(own), n), p=law[a] / law[a].sum())
    batch = Batch(size, (Column(scalars), Column(elements.ravel(), np.arange(0, elements.size + 1, n))))
    masked = made.mask_batch(batch, PositionKeys(SEED, "t", 1, np.arange(size)))
    others = masked.columns[1].codes.reshape(-1, n)
    seen = np.ravel_multi_index((masked.columns[0].codes, others[:, 0], *np.sort(others[:, 1:]).T), (SIZE,) * (n + 1))
    table = np.zeros((SIZE ** (n + 1), SIZE))
    np.add.at(table, (seen, scalars), 1.0 / size)
    learned = made.risk(draws=1_000).record["a"]
    assert learned.vulnerability == pytest.approx(table.max(axis=1).sum(), abs=0.015 + learned.error)


def test_with_three_attributes_the_pair_that_tells_most_counts():
    rng = np.random.default_rng(7)
    a = rng.choice(["c3", "c4", "c5"], 120)
    b = np.where(rng.random(120) < 0.9, a, "c5")
    columns = a.tolist(), b.tolist(), rng.choice(["c3", "c4", "c5"], 120).tolist()
    rows = [dict(zip("abc", row, strict=True)) for row in zip(*columns, strict=True)]
    together, alone = (
        trained(Pram(dict.fromkeys(names, TAU), retention=0.3, seed=SEED), rows).risk(draws=2_000)
        for names in ("abc", "ab")
    )
    pair = alone.record["a"]
    assert together.record["a"].vulnerability == pytest.approx(pair.vulnerability, abs=2 * pair.error)
    assert together.record["a"].greatest > together.value["a"].greatest + 0.1


def test_of_a_single_attribute_its_own_mask_is_all():
    records = [{"a": code} for code in ["c3", "c4", "c5", "c4"] * 20]
    risk = trained(Pram({"a": TAU}, retention=0.5, seed=SEED), records).risk()
    assert (risk.record, risk.unchanged_records) == (risk.value, risk.unchanged["a"])


def test_a_single_value_is_known_without_masks_and_not_checked():
    made = Exponential({"a": TAU}, epsilon=500.0, seed=SEED)
    made.learn_many([{"a": "c3"}] * 12)
    assert made.calibrate().records == 12
    assert made.risk().value["a"].vulnerability == 1.0
