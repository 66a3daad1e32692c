"""Elements of arrays that few patients have together with their scalar: what their masks tell, and what is kept."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from support.flooding import LEAVES, TREE

from stream_masker.core.arrays import offsets_from_lengths
from stream_masker.core.batch import Batch, Column
from stream_masker.core.distance import WuPalmer
from stream_masker.core.dtypes import Int64Array
from stream_masker.core.mechanisms import SemanticTransport
from stream_masker.core.mechanisms.transport.scaling.table import CountedPairs, Table
from stream_masker.core.mechanisms.transport.star.edges import LEAST_EXCHANGED, masks_of
from stream_masker.core.mechanisms.transport.values import Values
from stream_masker.core.random import FieldKeys
from stream_masker.core.statistics.compute import compute_statistics
from stream_masker.core.statistics.counts import count_batch

SEED = b"a seed of sixteen bytes"
CODES = TREE.encode(LEAVES)
NAMES = ("principal", "secondary")
LENGTH = 3


def events(records: int) -> Batch:
    """Events with three elements; each is near the scalar's group in two of three cases, and its pairs are rare."""
    draw = np.random.default_rng(1)
    first = draw.integers(0, CODES.size, records)
    near = first[:, None] // 9 * 9 + draw.integers(0, 9, (records, LENGTH))
    far = draw.integers(0, CODES.size, (records, LENGTH))
    elements = np.where(draw.random((records, LENGTH)) < 2 / 3, near, far)
    offsets = offsets_from_lengths(np.full(records, LENGTH))
    return Batch(records, (Column(CODES[first]), Column(CODES[elements].ravel(), offsets)))


def masked(batch: Batch, least: int) -> tuple[SemanticTransport, Batch]:
    made = SemanticTransport(dict.fromkeys(NAMES, TREE), least=least, seed=SEED)
    counts = count_batch(batch, [len(TREE)] * 2)
    made.restore(made.snapshot_of(made.compute(counts, version=1)))
    columns = made.mask_batch(batch, FieldKeys(SEED, [b"%d" % i for i in range(batch.size)])).columns
    return made, replace(batch, columns=columns)


def correlation(batch: Batch) -> float:
    distances = [WuPalmer(TREE)] * 2
    return float(compute_statistics(count_batch(batch, [len(TREE)] * 2), NAMES, distances, version=1).correlation[0, 1])


def test_the_dependence_is_kept_where_most_pairs_are_rare():
    """Without the rare pairs it would be that of the others, which is far greater."""
    batch = events(1_500)
    rare = count_batch(batch, [len(TREE)] * 2).pairs[0, 1]
    assert rare.counts[rare.counts < 4].sum() / rare.rows > 0.6
    after = masked(batch, 4)[1]
    assert correlation(after) == pytest.approx(correlation(batch), abs=0.05)


def test_a_written_pair_does_not_prove_that_a_patient_has_it():
    """Among the rare pairs that are written, those of the window are about as frequent as any others."""
    batch = events(1_500)
    window = set(_pairs(batch).tolist())
    for least, proof in ((1, True), (2, False)):
        written = np.unique(_pairs(masked(batch, least)[1]))
        real = np.mean([pair in window for pair in written.tolist()])
        assert (real == 1.0) == proof
        assert proof or real < 0.8


def _pairs(batch: Batch) -> Int64Array:
    return np.repeat(batch.columns[0].codes, LENGTH) * np.int64(len(TREE)) + batch.columns[1].codes


def window(counts: np.ndarray) -> tuple[CountedPairs, tuple[Values, Values]]:
    """Return the pairs of a table of counts, and its values, each row of which is a patient's."""
    rows, columns = np.nonzero(counts)
    pairs = CountedPairs(Table.of(rows, columns, counts.shape), counts[rows, columns])
    distance, sums = WuPalmer(TREE), (counts.sum(axis=1), counts.sum(axis=0))
    first, second = (Values.of(distance, np.sort(CODES)[: each.size], each) for each in sums)
    return pairs, (first, second)


def dense(pairs: CountedPairs) -> np.ndarray:
    result = np.zeros(pairs.table.shape, np.int64)
    result[pairs.table.rows, pairs.table.columns] = pairs.counts
    return result


def test_rare_pairs_change_places_and_keep_their_totals():
    counts = np.random.default_rng(2).poisson(0.7, (36, 40)) + 1
    counts[:, 0] = 9
    pairs, values = window(counts)
    exchanged = dense(masks_of(pairs, pairs.counts, values, 4, SEED))
    frequent = np.where(counts >= 4, counts, 0)
    assert (exchanged >= frequent).all()
    np.testing.assert_array_equal(exchanged.sum(axis=1), counts.sum(axis=1))
    np.testing.assert_array_equal(exchanged.sum(axis=0), counts.sum(axis=0))
    moved = np.abs((exchanged - frequent) - (counts - frequent)).sum() / 2 / (counts - frequent).sum()
    assert moved > 0.3
    assert (dense(masks_of(pairs, pairs.counts, values, 4, b"another seed of bytes")) != exchanged).any()
    np.testing.assert_array_equal(dense(masks_of(pairs, pairs.counts, values, 4, SEED)), exchanged)


def test_most_of_the_exchange_stays_when_a_row_comes():
    """So the masks of one patient in two versions tell little more than those in one."""
    counts = np.random.default_rng(2).poisson(0.7, (36, 40)) + 1
    more = counts.copy()
    more[5, 7] += 1
    (before, after) = (
        dense(masks_of(pairs, pairs.counts, values, 9, SEED)) for pairs, values in map(window, (counts, more))
    )
    assert 0 < np.abs(after - before).sum() <= 5


def test_nothing_changes_where_no_pair_is_rare():
    pairs, values = window(np.full((4, 5), 7))
    assert masks_of(pairs, pairs.counts, values, 7, SEED) is pairs


def test_pairs_of_too_few_patients_are_not_written():
    """One value has more than half of all rare pairs, or all of them together are of too few patients."""
    lonely = np.full((3, 40), 30)
    lonely[0, :30], lonely[1, :5] = 1, 1
    few = np.full((LEAST_EXCHANGED - 1, 2), 30)
    few[:, 1] = 1
    for counts in (lonely, few):
        pairs, values = window(counts)
        np.testing.assert_array_equal(
            dense(masks_of(pairs, pairs.counts, values, 2, SEED)), np.where(counts > 1, 30, 0)
        )


def test_values_of_too_few_patients_are_not_written():
    counts = np.full((40, 40), 1)
    counts[0], counts[:, 1] = 0, 0
    counts[0, 0], counts[2, 1] = 1, 1
    pairs, values = window(counts)
    exchanged = dense(masks_of(pairs, pairs.counts, values, 2, SEED))
    assert exchanged[0].sum() == exchanged[:, 1].sum() == 0
    assert (exchanged.sum(axis=1)[1:] > 0).all()
