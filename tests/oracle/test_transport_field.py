"""The field of three or more attributes against an enumeration of all records and masks, straight from the formula."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.chi_squares import assert_drawn_from
from support.field_windows import Enumerated, Window, all_records, random_exponents, random_field, trees

from stream_masker.core.mechanisms.transport.field import records as records_module
from stream_masker.core.mechanisms.transport.field import solver
from stream_masker.core.mechanisms.transport.field.channel import draw_records
from stream_masker.core.mechanisms.transport.field.links import Links
from stream_masker.core.mechanisms.transport.field.messages import Layout
from stream_masker.core.mechanisms.transport.field.records import TreeRecords
from stream_masker.core.mechanisms.transport.field.solver import (
    LAW_ERROR,
    SQUARE_ERROR,
    evaluate,
    field_of,
    meet_squares,
    solution_of,
    solve,
    squares_of,
)
from stream_masker.core.mechanisms.transport.solver import Problem, balance
from stream_masker.core.statistics import SparseCounts
from stream_masker.errors import StatisticsError

SEEDS = st.integers(0, 10_000)
LEAST = st.sampled_from([1, 3, 6])
ABSENT = st.sampled_from([0.0, 0.3])
STAR, CHAIN, MIXED = (-1, 0, 0, 0), (-1, 0, 1, 2), (-1, 0, 1, 1, 0)
TREES = [(-1, 0), (-1, 0, 0), (-1, 0, 1), STAR, CHAIN, MIXED]


def evaluated(problem, field):
    used = problem.written(list(field.scales))
    kernels = problem.kernels(field.sharpness)
    return evaluate(
        problem, Layout.of(problem.links), field.sharpness, kernels, field.root_scale, list(field.scales), used
    )


def check_evaluation(problem, field):
    """The sums of messages are those of the formula; Z is it up to a factor that all records have."""
    exact, found = Enumerated.of(problem, field, problem.records), evaluated(problem, field)
    explained = exact.totals > 0.0
    np.testing.assert_array_equal(found.totals > 0.0, explained)
    if explained.any():
        factors = found.totals[explained] / exact.totals[explained]
        np.testing.assert_allclose(factors, factors[0], rtol=1e-4)
    for joint, wanted in zip(found.joints, exact.joints, strict=True):
        np.testing.assert_allclose(joint, wanted, atol=1e-5)
    np.testing.assert_allclose(found.root, exact.joints[0].sum(axis=0), atol=1e-5)
    for table, law, wanted in zip(problem.links.tables, found.pairs, exact.pairs, strict=True):
        np.testing.assert_allclose(law, wanted[table.rows, table.columns], atol=1e-5)
        assert wanted.sum() == pytest.approx(law.sum(), abs=1e-5)


@settings(max_examples=60)
@given(trees(), SEEDS, LEAST, ABSENT, st.sampled_from([2.0, 4.0]))
def test_sums_over_masks_are_those_of_the_formula(parents, seed, least, absent, power):
    """Over all records, in the window or not."""
    rng = np.random.default_rng(seed)
    window = Window.random(rng, parents, kinds=3 if len(parents) < 5 else 2, absent=absent)
    problem = window.problem(least=least, power=power)
    problem = replace(problem, records=all_records(problem.links, rng), extra=random_exponents(rng, problem.squares))
    check_evaluation(problem, random_field(rng, problem.links))


@pytest.mark.parametrize("parents", TREES, ids=str)
def test_draws_follow_the_channel(parents):
    """Masks of each of some records, in the window or not, with absent values, with and without rare pairs."""
    rng = np.random.default_rng(len(parents))
    window = Window.random(rng, parents, absent=0.3)
    for least in (1, 4):
        problem = window.problem(least=least)
        problem = replace(problem, extra=random_exponents(rng, problem.squares))
        field = random_field(rng, problem.links)
        channel = window.channel(problem, field)
        records = all_records(problem.links)
        exact = Enumerated.of(problem, field, records)
        size = 4000
        for i in rng.choice(len(records.indices), 12, replace=len(records.indices) < 12):
            words = rng.integers(0, 2**64, (size, len(parents)), dtype=np.uint64)
            drawn = draw_records(channel, np.repeat(records.indices[i : i + 1], size, axis=0), words)
            if exact.totals[i] > 0.0:
                wanted = {place: float(p) for place, p in np.ndenumerate(exact.masks[i])}
                assert_drawn_from(wanted, map(tuple, drawn.tolist()))
            else:
                assert (drawn == -1).all()


@settings(max_examples=30)
@given(trees(), SEEDS, LEAST)
def test_masks_do_not_depend_on_the_batch(parents, seed, least):
    """TreeRecords are drawn in any order, alone, and beside those that the field does not explain."""
    rng = np.random.default_rng(seed)
    window = Window.random(rng, parents, kinds=2, absent=0.3)
    problem = window.problem(least=least)
    field = random_field(rng, problem.links)
    channel = window.channel(problem, field)
    records = np.array([[rng.integers(size) for size in problem.links.sizes] for _ in range(60)], np.int32)
    words = rng.integers(0, 2**64, records.shape, dtype=np.uint64)
    whole = draw_records(channel, records, words)
    order = rng.permutation(len(records))
    np.testing.assert_array_equal(draw_records(channel, records[order], words[order]), whole[order])
    for i in range(0, len(records), 7):
        np.testing.assert_array_equal(draw_records(channel, records[i : i + 1], words[i : i + 1]), whole[i : i + 1])
    assert ((whole < 0).all(axis=1) | (whole >= 0).all(axis=1)).all()
    absent = np.array(problem.links.sizes) - 1
    explained = whole[:, 0] >= 0
    np.testing.assert_array_equal((whole == absent)[explained], (records == absent)[explained])


def test_no_record_has_no_masks():
    rng = np.random.default_rng(1)
    window = Window.random(rng, STAR)
    problem = window.problem()
    channel = window.channel(problem, random_field(rng, problem.links))
    nothing = np.empty((0, 4))
    assert draw_records(channel, nothing.astype(np.int32), nothing.astype(np.uint64)).shape == (0, 4)


@settings(max_examples=25)
@given(SEEDS, st.sampled_from([1, 4]), st.sampled_from([2.0, 4.0]))
def test_a_field_of_two_attributes_is_the_transport_of_pairs(seed, least, power):
    rng = np.random.default_rng(seed)
    window = Window.random(rng, (-1, 0), kinds=4, absent=0.0, size=120)
    problem = window.problem(least=least, power=power)
    table, counts = problem.links.tables[0], problem.links.counts[0]
    sharpness = rng.uniform(0.5, 10.0, 2)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(solver, "LAW_ERROR", 1e-5)
        field = field_of(problem, solve(problem, None, sharpness))
    squares = tuple(s.astype(np.float64) for s in problem.squares)
    pairs = Problem(table, counts / counts.sum(), counts >= least, squares, power)
    solved = balance(pairs, sharpness, None, 1e-9)
    first, second = pairs.kernels(sharpness)
    exact = Enumerated.of(problem, field, problem.records)
    for record, masks in zip(problem.records.indices, exact.masks, strict=True):
        weights = first[record[0], table.rows] * second[record[1], table.columns] * solved.psi
        assert np.abs(masks[table.rows, table.columns] - weights / weights.sum()).sum() < 2e-3


def law_errors(problem, field):
    """By link, the sum of absolute differences between the law of masked pairs and that of the window."""
    exact = Enumerated.of(problem, field, problem.records)
    errors = []
    for node, (table, pairs) in enumerate(zip(problem.links.tables, exact.pairs, strict=True), start=1):
        wanted = np.zeros(table.shape)
        wanted[table.rows, table.columns] = problem.links.law(node)
        errors.append(np.abs(pairs - wanted).sum())
    return errors


@settings(max_examples=40)
@given(trees(4), SEEDS, ABSENT, st.floats(0.5, 60.0))
def test_the_laws_of_links_are_preserved_for_given_sharpness(parents, seed, absent, sharpness):
    rng = np.random.default_rng(seed)
    problem = Window.random(rng, parents, absent=absent, size=200).problem()
    solution = solve(problem, None, np.full(len(parents), sharpness) * rng.uniform(0.5, 2.0, len(parents)))
    assert max(law_errors(problem, field_of(problem, solution))) <= LAW_ERROR * 1.01


@settings(max_examples=40)
@given(trees(4), SEEDS, ABSENT, st.floats(0.02, 0.5))
def test_distances_are_met_and_the_laws_of_links_preserved(parents, seed, absent, share):
    """``share``: of the mean squared distance of masks that are independent of the values."""
    rng = np.random.default_rng(seed)
    problem = Window.random(rng, parents, absent=absent, size=200).problem()
    free = squares_of(problem, solve(problem, None, np.full(len(parents), 1e-3)))
    wanted = free * share * rng.uniform(0.7, 1.3, len(parents))
    solution = meet_squares(problem, wanted, None, 1.0 / wanted)
    assert solution is not None
    field = field_of(problem, solution)
    assert max(law_errors(problem, field)) <= LAW_ERROR * 1.01
    exact = Enumerated.of(problem, field, problem.records)
    for joint, squares, mean in zip(exact.joints, problem.squares, wanted, strict=True):
        present = joint[:-1, :-1]
        assert abs(np.log((present * squares).sum() / present.sum() / mean)) <= SQUARE_ERROR * 1.05


@settings(max_examples=20)
@given(trees(4), SEEDS, LEAST, ABSENT)
def test_a_field_of_a_model_has_the_figures_of_its_solution(parents, seed, least, absent):
    """Scales are rounded to float32, and their common factors are moved between the links."""
    rng = np.random.default_rng(seed)
    problem = Window.random(rng, parents, absent=absent, size=200).problem(least=least)
    solution = solve(problem, None, rng.uniform(1.0, 20.0, len(parents)))
    restored = solution_of(problem, field_of(problem, solution))
    for one, two in zip([*solution.joints, *solution.pairs], [*restored.joints, *restored.pairs], strict=True):
        np.testing.assert_allclose(one, two, atol=1e-5)


def pairs_of(problem, records):
    """By link, the law of the pairs of some records as a table."""
    found = []
    for node, table in enumerate(problem.tables, start=1):
        law = np.zeros(table.shape)
        np.add.at(law, (records.indices[:, problem.parents[node]], records.indices[:, node]), records.weights)
        found.append(law)
    return found


@settings(max_examples=40)
@given(trees(), SEEDS, ABSENT)
def test_records_have_the_pairs_of_the_window(parents, seed, absent):
    window = Window.random(np.random.default_rng(seed), parents, absent=absent)
    links, rows = window.tree, window.records
    rows = rows[(rows != np.array(links.sizes) - 1).any(axis=1)]
    records = TreeRecords.of(links)
    total = links.counts[0].sum()
    assert all(counts.sum() == total for counts in links.counts)
    for node, (table, law) in enumerate(zip(links.tables, pairs_of(links, records), strict=True), start=1):
        found = np.rint(law * total).astype(int)
        np.testing.assert_allclose(found, law * total, atol=1e-6)
        wanted = np.zeros(table.shape, int)
        np.add.at(wanted, (rows[:, links.parents[node]], rows[:, node]), 1)
        wanted[-1, -1] += total - wanted.sum()
        assert wanted[-1, -1] >= 0
        np.testing.assert_array_equal(found, wanted)
        assert table.rows.size == np.count_nonzero(wanted)
        np.testing.assert_array_equal(links.counts[node - 1], wanted[table.rows, table.columns])
    check_order(links, records)


def check_order(links, records):
    """TreeRecords are distinct and ordered by the root."""
    assert len(np.unique(records.indices, axis=0)) == len(records.indices)
    assert (np.diff(records.indices[:, 0]) >= 0).all()
    places = np.repeat(np.arange(links.sizes[0]), np.diff(records.starts))
    np.testing.assert_array_equal(places, records.indices[:, 0])
    assert records.weights.sum() == pytest.approx(1.0)


@settings(max_examples=30)
@given(trees(), SEEDS, ABSENT, st.integers(1, 40))
def test_a_sampled_window_keeps_every_pair(parents, seed, absent, size):
    window = Window.random(np.random.default_rng(seed), parents, kinds=5, absent=absent)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(records_module, "MAX_RECORDS", size)
        records = TreeRecords.of(window.tree)
    links = window.tree
    check_order(links, records)
    assert len(records.indices) <= size + sum(table.rows.size for table in links.tables)
    for node, column in enumerate(records.indices.T):
        table = links.tables[max(node, 1) - 1]
        assert set(column.tolist()) == set((table.columns if node else table.rows).tolist())
    for table, law in zip(links.tables, pairs_of(links, records), strict=True):
        assert set(zip(*np.nonzero(law), strict=True)) == set(zip(table.rows, table.columns, strict=True))


def test_a_sample_has_the_law_of_its_window(monkeypatch):
    window = Window.random(np.random.default_rng(3), MIXED, size=20_000)
    monkeypatch.setattr(records_module, "MAX_RECORDS", 5_000)
    links = window.tree
    for node, law in enumerate(pairs_of(links, TreeRecords.of(links)), start=1):
        table = links.tables[node - 1]
        assert np.abs(law[table.rows, table.columns] - links.law(node)).sum() < 1e-3


@pytest.mark.parametrize("link", [0, 1])
def test_pairs_with_more_rows_than_their_values_are_rejected(link):
    window = Window.random(np.random.default_rng(5), (-1, 0, 1), absent=0.0)
    pair = tuple(sorted(window.links[link]))
    known = window.counts.pairs[pair]
    pairs = {**window.counts.pairs, pair: SparseCounts(known.keys, known.counts * 2)}
    with pytest.raises(StatisticsError, match="more rows"):
        Links.of(window.links, replace(window.counts, pairs=pairs), window.values)


@pytest.mark.parametrize("node", [1, 2])
def test_links_with_other_rows_are_rejected(node):
    links = Window.random(np.random.default_rng(5), (-1, 0, 1)).tree
    counts = list(links.counts)
    counts[node - 1] = counts[node - 1] + 1
    with pytest.raises(StatisticsError, match="same rows"):
        TreeRecords.of(replace(links, counts=tuple(counts)))
