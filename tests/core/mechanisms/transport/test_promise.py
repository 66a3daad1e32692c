"""The promise of the default target, against an attacker who knows the law, the code and the model, not the secret."""

from __future__ import annotations

import numpy as np
import pytest
from support.data import icd9cm
from support.real_codes import as_batch, real_codes, real_pairs

from stream_masker import SemanticTransport
from stream_masker.core.batch import Batch, Column
from stream_masker.core.mechanisms.transport.star.couplings import coupling_of
from stream_masker.core.random import PositionKeys
from stream_masker.core.risk.records import Tuples
from stream_masker.core.statistics import count_batch
from stream_masker.errors import StatisticsError

SEED = b"a seed of many bytes"
CERTAINTY = 0.5
LEARNED = 12


@pytest.fixture(scope="module")
def tau():
    return icd9cm().taxonomy()


def calibrated(tau, batch, **parameters):
    names = [f"x{j}" for j in range(len(batch.columns))]
    made = SemanticTransport(dict.fromkeys(names, tau), seed=SEED, **parameters)
    counts = count_batch(batch, [len(tau)] * len(names))
    return made.with_statistics(made.compute(counts, version=1), counts), counts


def masked(made, batch, secret):
    return made.mask_batch(batch, PositionKeys(b"secret %d of many bytes" % secret, "t", 0, np.arange(batch.size)))


def events(tau, most):
    """Real pairs in which each principal diagnosis has the secondary ones of 1 to ``most`` patients who share it."""
    rng = np.random.default_rng(6)
    first, second = real_pairs()[:, :20_000]
    order = np.lexsort((rng.random(first.size), first))
    first, second = first[order], second[order]
    lengths = rng.integers(1, most + 1, first.size)
    starts = np.concatenate([[0], np.cumsum(lengths)])
    starts = starts[starts <= first.size]
    scalars = first[starts[:-1]].astype(np.int32)
    return Batch(
        scalars.size, (Column(scalars), Column(second[: starts[-1]].astype(np.int32), starts.astype(np.int64)))
    )


@pytest.mark.parametrize(
    "size",
    [1000, *(pytest.param(size, marks=pytest.mark.scheduled) for size in (10_000, 101_388))],
)
def test_no_masked_pair_tells_a_diagnosis_with_more_than_one_half(tau, size):
    """Both diagnoses of records of the window that are masked: the exact posterior, and the best guesses.

    Scheduled: larger windows.
    """
    codes = real_pairs()[:, :size]
    batch = as_batch(codes)
    made, counts = calibrated(tau, batch)
    tuples = Tuples.of(counts, (0, 1), (len(tau), len(tau)))
    law = made.mask_law(tuples, (), counts)
    masks = masked(made, batch, 1)
    rng = np.random.default_rng(5)
    hits, greatest = np.zeros(2), 0.0
    drawn = rng.choice(size, min(size, 1500), replace=False)
    for record in drawn:
        posterior = tuples.prior * law.likelihood(tuple(int(c.codes[record]) for c in masks.columns))
        posterior /= posterior.sum()
        for j, values in enumerate(tuples.codes):
            of_value = np.bincount(values, posterior)
            prior = np.bincount(values, tuples.prior)
            allowed = np.maximum(CERTAINTY, 1.01 * prior)
            greatest = max(greatest, float((of_value - allowed).max()))
            hits[j] += int(of_value.argmax()) == codes[j, record]
    assert greatest <= 1e-4
    said = made.disclosure().given_record
    for j, name in enumerate(made.attributes):
        chance = said[name]
        assert hits[j] / drawn.size <= chance + 3.0 * np.sqrt(chance * (1.0 - chance) / drawn.size)
    assert max(made.disclosure().certainty.values()) <= CERTAINTY


@pytest.mark.exhaustive
@pytest.mark.parametrize("most", [3, *(pytest.param(most, marks=pytest.mark.scheduled) for most in (1, 8))])
def test_a_guess_that_is_learned_from_other_masks_is_right_no_more_often_than_said(tau, most):
    """Of arrays: the most frequent original of each pair of masks in other maskings, tried on a new one.

    Scheduled: arrays of one element, and longer ones.
    """
    batch = events(tau, most)
    made, _ = calibrated(tau, batch)
    elements = batch.columns[1]
    owners = np.repeat(np.arange(batch.size), np.diff(elements.offsets))
    size = len(tau)

    def keys_of(masks):
        return masks.columns[0].codes[owners].astype(np.int64) * size + masks.columns[1].codes

    seen = np.concatenate([keys_of(masked(made, batch, k)) * size + elements.codes for k in range(2, 2 + LEARNED)])
    pairs, numbers = np.unique(seen, return_counts=True)
    order = np.lexsort((-numbers, pairs // size))
    masks, first = np.unique(pairs[order] // size, return_index=True)
    guesses = (pairs[order] % size)[first]
    tried = keys_of(masked(made, batch, 1))
    place = np.minimum(np.searchsorted(masks, tried), masks.size - 1)
    right = float(((masks[place] == tried) & (guesses[place] == elements.codes)).mean())
    said = made.disclosure()
    assert right <= said.given_record["x1"] + 3.0 / np.sqrt(tried.size)
    assert max(said.certainty.values()) <= CERTAINTY
    assert right > 0.5 * said.given_record["x1"]


def test_no_scalar_is_known_by_who_knows_how_many_events_have_each(tau):
    """Events of frequent principal diagnoses have few elements, so that they are fewer of the rows than of the events.

    The exact posterior of the scalar given its mask, for an attacker who counts each event once.
    """
    codes = real_pairs()[:, :8_000]
    values, which, numbers = np.unique(codes[0], return_inverse=True, return_counts=True)
    lengths = np.where(numbers[which] > np.median(numbers[which]), 1, 8)
    elements = np.repeat(codes[1], lengths)
    columns = [Column(codes[0].copy()), Column(elements, np.concatenate([[0], np.cumsum(lengths)]))]
    batch = Batch(8_000, tuple(columns))
    made, counts = calibrated(tau, batch)
    channel = made.attribute_channel(0, values, counts)
    joint = numbers[:, None] * channel.rows
    assert (joint.max(axis=0) <= (CERTAINTY + 1e-6) * joint.sum(axis=0)).all()
    of_rows = np.bincount(which, lengths)[:, None] * channel.rows
    assert (of_rows.max(axis=0) <= (CERTAINTY + 1e-6) * of_rows.sum(axis=0)).all()
    assert max(made.disclosure().certainty.values()) <= CERTAINTY


def test_no_scalar_is_known_by_who_knows_how_many_events_have_each_pair(tau):
    """A second scalar beside an array: its mask tells of the first one, too, where events are counted.

    The exact posterior of the root given both masks: P(a, a*)·Σ_s P(s | a)·P(s* | s, a, a*), each event counted once.
    """
    codes = real_codes(("diag_1", "diag_2", "diag_3"))[:, :4_000]
    often = [counts[which] > np.median(counts[which]) for which, counts in map(frequencies, codes[:2])]
    lengths = np.array([8, 3, 1])[often[0].astype(int) + often[1]]
    array = Column(np.repeat(codes[2], lengths), np.concatenate([[0], np.cumsum(lengths)]))
    made, _ = calibrated(tau, Batch(4_000, (Column(codes[0].copy()), Column(codes[1].copy()), array)))
    prepared = made._prepared_statistics()
    edge = next(edge for edge in prepared.edges if edge.child < 2)
    joint, laws, events = prepared.rows(edge.root), edge.laws(prepared.squares[edge.child]), edge.events.astype(float)
    greatest, redraws = 0.0, edge.redraws.astype(float)
    for new in np.flatnonzero(np.diff(laws.target.offsets)):
        masks = slice(laws.target.offsets[new], laws.target.offsets[new + 1])
        given = np.zeros((masks.stop - masks.start, len(joint)))
        for a in np.flatnonzero(joint[:, new] * np.diff(laws.source.offsets)):
            own = slice(laws.source.offsets[a], laws.source.offsets[a + 1])
            coupling = coupling_of(laws, int(a), int(new))[:, : own.stop - own.start] / laws.source.shares[own]
            given[:, a] = coupling @ events[own] * joint[a, new]
        again = redraws[masks] * laws.target.shares[masks]
        again = again / max(again.sum(), 1e-300)
        given = given * (1.0 - redraws[masks, None]) + again[:, None] * (redraws[masks] @ given)
        greatest = max(greatest, (given.max(axis=1) / np.maximum(given.sum(axis=1), 1e-300)).max())
    assert 0.4 < greatest <= CERTAINTY + 1e-6
    assert max(made.disclosure().certainty.values()) <= CERTAINTY


def frequencies(codes):
    """The number of each code among the different ones, and how often these occur."""
    return np.unique(codes, return_inverse=True, return_counts=True)[1:]


def test_lists_of_one_element_keep_the_promise(tau):
    """The share of each original behind every pair of masks that is often seen, in many maskings."""
    codes = real_pairs()[:, :1000]
    batch = Batch(1000, (Column(codes[0].copy()), Column(codes[1].copy(), np.arange(1001))))
    made, _ = calibrated(tau, batch)
    seen = []
    for number in range(400):
        masks = masked(made, batch, number)
        seen.append(masks.columns[0].codes.astype(np.int64) * len(tau) + masks.columns[1].codes)
    for originals in codes:
        keys, counts = np.unique(np.array(seen) * len(tau) + originals, return_counts=True)
        _, which = np.unique(keys // len(tau), return_inverse=True)
        total = np.bincount(which, counts)[which]
        often = total >= 100
        assert often.sum() > 1000
        assert (counts[often] / total[often] <= CERTAINTY + 5.0 * np.sqrt(0.25 / total[often])).all()


@pytest.mark.exhaustive
def test_the_promise_costs_distance_and_without_it_records_are_certain(tau):
    batch = as_batch(real_pairs()[:, :20_000])
    made, _ = calibrated(tau, batch)
    free, _ = calibrated(tau, batch, target={"alpha": 1.0})
    assert max(free.disclosure().certainty.values()) > 0.8
    assert max(made.disclosure().certainty.values()) <= CERTAINTY
    for name in made.attributes:
        assert made.disclosure().rmse[name] == pytest.approx(free.disclosure().rmse[name], abs=0.003)
        assert made.disclosure().given_record[name] < free.disclosure().given_record[name] + 0.01


def test_a_sensitive_group_is_hidden_at_its_limit(tau):
    batch = as_batch(real_pairs()[:, :20_000])
    target = {"alpha": 1.0, "certainty": CERTAINTY, "sensitive": {"mental_disorders": 0.5, "hiv": 0.3}}
    made, _ = calibrated(tau, batch, target=target)
    prepared = made._prepared_statistics()
    assert all(limits.groups.size == 2 for limits in prepared.solution().problem.limits)
    assert max(float(columns.excess.max()) for columns in prepared.columns) <= 0.0


def test_an_alpha_that_is_too_small_for_the_promise_is_the_least_distance(tau):
    batch = Batch(10_000, (Column(real_pairs()[0, :10_000].copy()),))
    made, _ = calibrated(tau, batch, target={"alpha": 0.3, "certainty": CERTAINTY})
    figures = made.disclosure()
    assert figures.certainty["x0"] <= CERTAINTY
    assert figures.rmse["x0"] > 1.2 * np.sqrt(made._prepared_statistics().noise[0])


def test_an_attribute_that_is_known_too_well_is_named(tau):
    """One of two values is nearly even a guess, and given the mask of the root it is a better one than allowed."""
    rng = np.random.default_rng(1)
    leaves = np.flatnonzero(tau.leaf)[:400:40].astype(np.int32)
    columns = [leaves[rng.integers(0, size, 400)] for size in (10, 6, 2)]
    batch = Batch(400, tuple(Column(column) for column in columns))
    with pytest.raises(StatisticsError, match=r"^x2: the limits of the target cannot be met"):
        calibrated(tau, batch)
