"""The risk of events with arrays, against an enumeration of all events and masks, and against simulated attacks."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from support.data import icd9cm
from support.real_codes import real_codes

from stream_masker.core.batch import Batch, Column
from stream_masker.core.mechanisms import mechanism
from stream_masker.core.ontology import Ontology
from stream_masker.core.random import PositionKeys
from stream_masker.core.risk.events import IMPROBABLE, MAX_USED_ELEMENTS
from stream_masker.core.risk.sampling import hoeffding_bound
from stream_masker.core.statistics.counts import SparseCounts, count_batch

TAU = Ontology.from_edges([("c1", "c0"), ("c2", "c0"), ("c3", "c1"), ("c4", "c1"), ("c5", "c2")]).taxonomy()
SIZE = len(TAU)
NAMES = ("a", "b")
SHARES = np.array([[0, 0, 0, 0, 0, 0], [0, 0, 0, 8, 2, 3], [0, 2, 0, 1, 0, 9], [0, 0, 6, 4, 5, 0]])
VALUES = np.array([0, 2, 3, 4])
DRAWS = 4_000
SEED = b"a seed of many bytes"


def ready(lengths: dict[int, int] | None, name="semantic_noise", swapped=False, absent=0, **parameters):
    """A mechanism with a window whose rows have the pairs ``SHARES``; ``lengths``: the number of events by length."""
    first, second = np.repeat(np.argwhere(SHARES), SHARES[SHARES > 0], axis=0).T
    scalars = np.append(VALUES[first], np.full(absent, 4)).astype(np.int32)
    offsets = np.append(np.arange(second.size + 1), np.full(absent, second.size))
    columns = Column(scalars), Column(TAU.encode([f"c{k}" for k in second]).astype(np.int32), offsets)
    batch = Batch(scalars.size, columns[::-1] if swapped else columns)
    made = mechanism(name)(dict.fromkeys(NAMES, TAU), seed=SEED, **parameters)
    array = 0 if swapped else 1
    keys = np.array(list(lengths or {}), np.int64)
    held = {} if lengths is None else {array: SparseCounts(keys, np.array(list(lengths.values()), np.int64))}
    counts = replace(count_batch(batch, [SIZE, SIZE]), lengths=held)
    return made.with_statistics(made.compute(counts, version=1), counts)


def pair_law(made) -> np.ndarray:
    """P(a, b) of the rows with both, by position."""
    law = np.zeros((SIZE, SIZE))
    pairs = made._counts.pairs[0, 1]
    law[np.divmod(pairs.keys, SIZE)] = pairs.counts / pairs.rows
    return law


def rows(made, name: str) -> np.ndarray:
    """P(mask | value) of an attribute, by position."""
    found = np.zeros((SIZE, SIZE))
    for value in TAU.ids:
        row = made.channel(name, value)
        found[TAU.position(value), [TAU.position(c) for c in row]] = list(row.values())
    return found


def enumerated(law, own, element, n):
    """V of an element with its scalar, of the scalar, and of the element, of events with n elements; ``own``,
    ``element``: P(masks | value)."""
    joint = law[:, None, :, None] * own[:, :, None, None] * element[None, None, :, :]
    each = (
        joint.sum(axis=2)
        / np.where(law.sum(axis=1) > 0, law.sum(axis=1), 1.0)[:, None, None]
        / own.clip(1e-300)[..., None]
    )
    others = np.ones((SIZE, own.shape[1], 1))
    for _ in range(n - 1):
        others = (others[..., None] * each[:, :, None, :]).reshape(SIZE, own.shape[1], -1)
    together = joint.transpose(1, 3, 0, 2)[:, :, None] * others.transpose(1, 2, 0)[:, None, :, :, None]
    return (
        together.max(axis=(3, 4)).sum(),
        together.sum(axis=4).max(axis=3).sum(),
        together.sum(axis=3).max(axis=3).sum(),
    )


def repeated(channel, repeats):
    """P(several masks | value)."""
    found = channel
    for _ in range(repeats - 1):
        found = (found[:, :, None] * channel[:, None, :]).reshape(SIZE, -1)
    return found


@pytest.mark.parametrize("swapped", [False, pytest.param(True, marks=pytest.mark.exhaustive)])
@pytest.mark.parametrize(("lengths", "repeats"), [({0: 9, 1: 5, 3: 7}, 1), ({4: 3}, 1), ({1: 1, 2: 1}, 2)])
@pytest.mark.parametrize(
    ("name", "parameters"),
    [("semantic_noise", {"reference": "root", "correlated": False}), ("pram", {})],
)
def test_the_figures_are_those_of_all_events_and_masks(name, parameters, lengths, repeats, swapped):
    made = ready(lengths, name, swapped, absent=6, **parameters)
    law = pair_law(made)
    scalar, array = ("b", "a") if swapped else ("a", "b")
    law = law.T if swapped else law
    channels = [repeated(rows(made, each), repeats) for each in (scalar, array)]
    found = {n: enumerated(law, *channels, n) for n in lengths if n}
    events = sum(lengths[n] for n in found)
    elements = sum(n * lengths[n] for n in found)
    wanted_scalar = sum(lengths[n] * found[n][1] for n in found) / events
    wanted_both, _, wanted_element = (sum(n * lengths[n] * found[n][k] for n in found) / elements for k in range(3))
    risk = made.risk(draws=DRAWS, repeats=repeats)
    tolerance = 0.6 * risk.bound_of_record
    assert risk.given_record[scalar] == pytest.approx(wanted_scalar, abs=tolerance)
    assert risk.given_record[array] == pytest.approx(wanted_element, abs=tolerance)
    assert risk.vulnerability_of_record == pytest.approx(wanted_both, abs=tolerance)
    assert risk.bound_of_record == hoeffding_bound(DRAWS) + IMPROBABLE


def masked_events(made, scalars, elements, n, number):
    """The masks of events with n elements each: (m,) and (m, n)."""
    offsets = np.arange(0, elements.size + 1, n)
    batch = Batch(scalars.size, (Column(scalars), Column(elements.ravel(), offsets)))
    masked = made.mask_batch(batch, PositionKeys(SEED, "t", number, np.arange(scalars.size)))
    return masked.columns[0].codes, masked.columns[1].codes.reshape(-1, n)


@pytest.mark.parametrize("reference", ["root", "mean", "pair"])
@pytest.mark.parametrize("correlated", [True, pytest.param(False, marks=pytest.mark.exhaustive)])
def test_an_attacker_with_the_law_of_all_masks_does_as_well(reference, correlated):
    """The attacker has masked 200,000 events and counted which scalars had the same masks."""
    n, size = 3, 200_000
    made = ready({n: 1}, reference=reference, correlated=correlated)
    rng, law = np.random.default_rng(4), pair_law(made)
    scalars = rng.choice(SIZE, size, p=law.sum(axis=1)).astype(np.int32)
    elements = np.empty((size, n), np.int32)
    for a in np.unique(scalars):
        own = scalars == a
        elements[own] = rng.choice(SIZE, (np.count_nonzero(own), n), p=law[a] / law[a].sum())
    own, others = masked_events(made, scalars, elements, n, 1)
    first, rest = others[:, :1], np.sort(others[:, 1:], axis=1)
    seen = np.ravel_multi_index((own, *first.T, *rest.T), (SIZE,) * (n + 1))
    table = np.zeros((SIZE ** (n + 1), SIZE))
    np.add.at(table, (seen, scalars), 1.0 / size)
    risk = made.risk(draws=DRAWS)
    assert risk.given_record["a"] == pytest.approx(table.max(axis=1).sum(), abs=0.01 + risk.bound_of_record)


def test_more_elements_disclose_more_of_their_scalar():
    found = [ready({n: 1}, reference="root").risk(draws=500).given_record["a"] for n in (1, 2, 4, 8)]
    assert np.all(np.diff(found) > 0.0)


def test_the_scalar_of_a_longer_event_counts_as_known():
    made = ready({1: 1, MAX_USED_ELEMENTS + 1: 1}, reference="root", correlated=False)
    one = ready({1: 1}, reference="root", correlated=False).risk(draws=DRAWS).given_record["a"]
    risk = made.risk(draws=DRAWS)
    assert risk.given_record["a"] == pytest.approx(0.5 + 0.5 * one, abs=risk.bound_of_record)
    law, channel = pair_law(made), rows(made, "b")
    known = (law[:, :, None] * channel[None]).max(axis=1).sum()
    assert risk.given_record["b"] == pytest.approx(known, abs=risk.bound_of_record)


@pytest.mark.parametrize("reference", ["root", "pair"])
def test_without_lengths_or_with_one_element_a_row_is_a_record(reference):
    alone, single = ready(None, reference=reference).risk(), ready({0: 2, 1: 4}, reference=reference).risk()
    assert alone == single == ready({}, reference=reference).risk()  # no event whose lengths are known
    assert alone.bound_of_record == hoeffding_bound(1_000)
    assert ready({1: 10_000, 2: 1}, reference=reference).risk().given_record == pytest.approx(
        alone.given_record, abs=2 * alone.bound_of_record
    )


@pytest.mark.parametrize("name", ["data_swapping", "semantic_transport"])
def test_mechanisms_with_figures_of_their_own_keep_them(name):
    figures = ready({2: 9}, name).risk().given_record
    assert figures == pytest.approx(ready(None, name).risk().given_record, abs=1e-6)


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    "shares",
    [{1: 0.78, 8: 0.89}, pytest.param({2: 0.79, 5: 0.85}, marks=pytest.mark.scheduled)],
    ids=["ends", "between"],
)
def test_the_principal_diagnosis_of_real_events_with_more_diagnoses_is_guessed_more_often(shares):
    """Scheduled: the lengths between the shortest and the longest."""
    tau = icd9cm().taxonomy()
    first, *others = real_codes(("diag_1", "diag_2", "diag_3"))
    columns = Column(first.copy()), Column(np.stack(others, axis=1).ravel(), np.arange(0, 2 * first.size + 1, 2))
    counts = count_batch(Batch(first.size, columns), [len(tau)] * 2)
    made = mechanism("semantic_noise")(dict.fromkeys(NAMES, tau), reference="root", rounding="calibrated", seed=SEED)
    made = made.with_statistics(made.compute(counts, version=1), counts)
    for n, right in shares.items():
        events = SparseCounts(np.array([n]), np.array([first.size]))
        risk = made.with_statistics(made.statistics, replace(counts, lengths={1: events})).risk()
        assert risk.given_record["a"] == pytest.approx(right, abs=0.01)
