"""Semantic rank swapping against 2019's literal algorithms: the conditions of every step, and the frequency of
outcomes.
"""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.core_parts import GroupValues, swap_partners
from support.graphs import taxonomies

from stream_masker import LogTaxonomic, Ontology, WuPalmer

CLOSE = 1e-9


def record_distance(matrices, first, second):
    """m times equation 9; a missing value is at distance 1."""
    total = 0.0
    for matrix, a, b in zip(matrices, first, second, strict=True):
        total += sum(matrix[x, y] for x, y in zip(a, b, strict=False)) + abs(len(a) - len(b))
    return total


def distances_of(records, matrices):
    return np.array([[record_distance(matrices, a, b) for b in records] for a in records])


def swap(records, taus, distance, k, seed, owners=None, *, fixed=False):
    columns = []
    for j, tau in enumerate(taus):
        for t in range(max(len(record[j]) for record in records)):
            codes = np.array([record[j][t] if len(record[j]) > t else -1 for record in records], np.int32)
            columns.append(GroupValues.of(codes, distance(tau)))
    words = np.random.default_rng(seed).integers(0, 1 << 64, (len(columns), len(records), 4), np.uint64)
    return swap_partners(columns, words, np.arange(len(records)) if owners is None else owners, k, fixed=fixed)


def partners_by_element(records, found):
    """Map (record, attribute, element) to that of the partner."""
    names = [(j, t) for j in range(len(records[0])) for t in range(max(len(record[j]) for record in records))]
    return {
        (i, j, t): (int(partner), j, t)
        for (j, t), partners in zip(names, found, strict=True)
        for i, partner in enumerate(partners)
        if len(records[i][j]) > t
    }


def check_turns(records, between, k, swaps, owners):
    """Assert for every turn what the algorithm requires."""
    found, turns = swaps
    partner = partners_by_element(records, found)
    unswapped = set(partner)
    assert between[turns[0]].sum() == pytest.approx(between.sum(axis=1).max(), abs=CLOSE)
    for last, turn in pairwise([None, *turns]):
        candidates_for_reference = sorted({i for i, _, _ in unswapped})
        assert turn in candidates_for_reference
        if last is not None:
            assert between[last, turn] == pytest.approx(between[last, candidates_for_reference].max(), abs=CLOSE)
        bound = np.sort(np.delete(between[turn], turn))[k - 1]
        for value in sorted(v for v in unswapped if v[0] == turn):
            unswapped.discard(value)
            candidates = {
                v
                for v in unswapped
                if v[1:] == value[1:] and between[turn, v[0]] <= bound + CLOSE and owners[v[0]] != owners[turn]
            }
            other = partner[value]
            own, *others = (records[i][j][t] for i, j, t in [value, *candidates])
            assert (other == value) == (not candidates) or (other == value and is_forced(own, others))
            if other != value:
                assert other in candidates
                assert partner[other] == value
                unswapped.discard(other)
    assert not unswapped


@st.composite
def cases(draw):
    p = draw(st.integers(1, 3))
    taus = [draw(taxonomies(most=12)) for _ in range(p)]
    n = draw(st.integers(2, 14))
    array = draw(st.booleans())
    records = []
    for _ in range(n):
        lengths = [draw(st.integers(0, 3 if array else 1)) for _ in taus]
        if not any(lengths):
            lengths[draw(st.integers(0, p - 1))] = 1
        sizes = zip(taus, lengths, strict=True)
        records.append([draw(st.lists(st.integers(0, len(t) - 1), min_size=m, max_size=m)) for t, m in sizes])
    return taus, records, draw(st.integers(1, n - 1)), draw(st.integers(0, 1000))


@given(cases(), st.sampled_from([WuPalmer, LogTaxonomic]))
def test_every_turn_of_algorithm_3(case, distance):
    taus, records, k, seed = case
    between = distances_of(records, [distance(tau).matrix(np.arange(len(tau))) for tau in taus])
    check_turns(records, between, k, swap(records, taus, distance, k, seed), np.arange(len(records)))


@given(taxonomies(most=12), st.data())
def test_every_turn_of_algorithm_2_over_arrays(tau, data):
    n = data.draw(st.integers(2, 16))
    owners = np.sort(data.draw(st.lists(st.integers(0, 5), min_size=n, max_size=n)))
    records = [[[c]] for c in data.draw(st.lists(st.integers(0, len(tau) - 1), min_size=n, max_size=n))]
    k = data.draw(st.integers(1, n - 1))
    swaps = swap(records, [tau], WuPalmer, k, data.draw(st.integers(0, 1000)), owners)
    check_turns(records, distances_of(records, [WuPalmer(tau).matrix(np.arange(len(tau)))]), k, swaps, owners)


def is_forced(own, others):
    """Whether all values that a value could be swapped with are equal, and differ from it."""
    return len(set(others)) == 1 and own not in others


def stays(rng, own, others):
    """Whether a value keeps its place although it could be swapped: with probability 1/2 if its swap is forced."""
    return is_forced(own, others) and rng.random() < 0.5


def draw_best(rng, scores, among):
    """Draw one index among those of the largest score."""
    best = max(scores[i] for i in among)
    return rng.choice([i for i in among if scores[i] > best - CLOSE])


def ranked(rng, between, reference, last=()):
    """The other records by distance; ties in random order, with those in ``last`` after the others."""
    others = [i for i in range(len(between)) if i != reference]
    rng.shuffle(others)
    return sorted(others, key=lambda i: (round(between[reference, i], 9), i in last))


def algorithm_1(codes, between, k, rng):
    n = len(between)
    reference = draw_best(rng, between.sum(axis=1), range(n))
    order = [reference, *ranked(rng, between, reference)]
    # values equal to the reference are tied with it, and any of them can be first
    tied = [i for i in order if between[reference, i] < CLOSE]
    rng.shuffle(tied)
    order[: len(tied)] = tied
    result, swapped = list(range(n)), set()
    for at, i in enumerate(order):
        if i in swapped:
            continue
        interval = [x for x in order[at + 1 : at + k + 1] if x not in swapped]
        if interval and not stays(rng, codes[i], codes[interval].tolist()):
            partner = rng.choice(interval)
            result[i], result[partner] = partner, i
            swapped.add(partner)
        swapped.add(i)
    return tuple(result)


def algorithm_3(records, between, k, rng):
    """Algorithm 3 for scalars, with forced swaps only half of the time; with one attribute it is Algorithm 2."""
    n, m = len(records), len(records[0])
    result, unswapped = [list(range(n)) for _ in range(m)], [set(range(n)) for _ in range(m)]
    reference = draw_best(rng, between.sum(axis=1), range(n))
    while any(unswapped):
        for j in range(m):
            if reference not in unswapped[j]:
                continue
            swapped = set(range(n)) - unswapped[j]
            interval = [x for x in ranked(rng, between, reference, swapped)[:k] if x in unswapped[j]]
            if interval and not stays(rng, records[reference][j][0], [records[x][j][0] for x in interval]):
                partner = rng.choice(interval)
                result[j][reference], result[j][partner] = partner, reference
                unswapped[j].discard(partner)
            unswapped[j].discard(reference)
        left = sorted(set().union(*unswapped))
        if left:
            reference = draw_best(rng, between[reference], left)
    return tuple(map(tuple, result))


RUNS = 1200


def assert_similar(ours: Counter, literal: Counter):
    """Assert that the frequencies of each outcome do not differ significantly."""
    assert len(literal) > 2
    for outcome in ours | literal:
        a, b = ours[outcome], literal[outcome]
        assert abs(a - b) < 5 * np.sqrt(a + b + 1), outcome


@pytest.fixture(scope="module")
def tau():
    links = [("a", "r"), ("b", "r"), ("a1", "a"), ("a2", "a"), ("b1", "b"), ("b2", "b"), ("b21", "b2")]
    return Ontology.from_edges(links).taxonomy()


@pytest.mark.parametrize("k", [1, 2, 4])
@pytest.mark.parametrize("p", [1, pytest.param(2, marks=pytest.mark.exhaustive)])
def test_outcomes_are_as_frequent_as_in_the_literal_algorithm(tau, p, k):
    names = [["a1", "b1"], ["a1", "b2"], ["a2", "b21"], ["b21", "a"], ["b", "a"], ["a1", "b2"]]
    records = [[tau.encode([name]).tolist() for name in row[:p]] for row in names]
    between = distances_of(records, [WuPalmer(tau).matrix(np.arange(len(tau)))] * p)
    rng = Random(5)
    literal = Counter(algorithm_3(records, between, k, rng) for _ in range(RUNS))
    runs = (swap(records, [tau] * p, WuPalmer, k, seed)[0] for seed in range(RUNS))
    assert_similar(Counter(tuple(map(tuple, run.tolist())) for run in runs), literal)


@pytest.mark.parametrize("k", [1, 2, 4])
def test_outcomes_of_algorithm_1(tau, k):
    codes = tau.encode(["a1", "a1", "a2", "b21", "b", "a"])
    between = WuPalmer(tau).matrix(codes)
    records, random = [[[c]] for c in codes.tolist()], Random(5)
    literal = Counter(algorithm_1(codes, between, k, random) for _ in range(RUNS))
    runs = (swap(records, [tau], WuPalmer, k, seed, fixed=True)[0][0] for seed in range(RUNS))
    ours = Counter(tuple(run.tolist()) for run in runs)
    assert_similar(ours, literal)


def test_the_first_interval_of_figure_4():
    """The taxonomy satisfies every statement of the text on figures 1 to 4, which are images."""
    nervous, zoster = "Disorder of nervous system", "Herpes zoster"
    links = [(name, "Disease") for name in (nervous, "Liver", "Glucose", "Eye", "Ear", "Varicella-zoster infection")]
    links += [("Coma", nervous), (zoster, "Varicella-zoster infection"), ("Nerve disorder", nervous)]
    links += [("Peripheral nerve disorder", "Nerve disorder"), ("Neuropathy", "Peripheral nerve disorder")]
    for concept, *parents in (
        ("Hepatic coma", "Coma", "Liver"),
        ("Hypoglycemic coma", "Coma", "Glucose"),
        ("Herpes zoster ophthalmicus", zoster, "Eye"),
        ("Herpes zoster auricularis", zoster, "Ear"),
        ("Neurological varicella", "Varicella-zoster infection", nervous),
    ):
        links += [(concept, parent) for parent in parents]
    tau = Ontology.from_edges(links).taxonomy()
    values = [nervous, "Neurological varicella", "Coma", "Neuropathy", "Herpes zoster ophthalmicus"]
    values += ["Herpes zoster auricularis", "Hepatic coma", "Hypoglycemic coma"]
    assert round(WuPalmer(tau)("Hepatic coma", "Herpes zoster ophthalmicus"), 2) == 0.67
    partners = set()
    for seed in range(50):
        (found,), turns = swap([[[tau.position(value)]] for value in values], [tau], WuPalmer, 2, seed)
        assert values[turns[0]] == "Neuropathy"
        assert values[turns[1]].startswith("Herpes zoster") or len(turns) < 2
        partners.add(values[found[turns[0]]])
    assert partners == {nervous, "Coma", "Neurological varicella"}
