"""Semantic transport against dense matrices over whole tuples, straight from the formulas."""

from __future__ import annotations

import numpy as np
import pytest

from stream_masker.core.batch import Batch, Column
from stream_masker.core.mechanisms import SemanticTransport
from stream_masker.core.mechanisms.transport import disclosure
from stream_masker.core.mechanisms.transport.conditional import ConditionalChannel
from stream_masker.core.mechanisms.transport.sampling import draw_pairs
from stream_masker.core.mechanisms.transport.solver import (
    MARGINAL_ERROR,
    Problem,
    Scaling,
    balance,
    changed_shares,
    mean_squares,
)
from stream_masker.core.mechanisms.transport.table import Table
from stream_masker.core.mechanisms.transport.tree.structure import Edge, energy
from stream_masker.core.ontology import Ontology
from stream_masker.core.random.draws import salts_of
from stream_masker.core.random.keys import PositionKeys

SHAPE = (9, 7)
POWERS = (2.0, 4.0)


def squares(rng, size):
    points = rng.random((size, 2)) / 1.5
    return ((points[:, None] - points[None]) ** 2).sum(axis=2)


@pytest.fixture
def table():
    rng = np.random.default_rng(2)
    cells = np.sort(rng.choice(SHAPE[0] * SHAPE[1], 30, replace=False))
    return Table.of(*np.divmod(cells, SHAPE[1]), SHAPE)


def problem(table, *, least=1, power=2.0, extra=None):
    rng = np.random.default_rng(4)
    counts = rng.integers(1, 12, table.rows.size)
    return counts, Problem(
        table, counts / counts.sum(), counts >= least, (squares(rng, SHAPE[0]), squares(rng, SHAPE[1])), power, extra
    )


def dense_kernel(given: Problem, sharpness):
    """(m, m): Π_j exp(−λ_j·sd_j^γ) over all pairs of tuples."""
    a, b = given.table.rows, given.table.columns
    first, second = (s ** (given.power / 2) for s in given.squares)
    exponents = sharpness[0] * first[np.ix_(a, a)] + sharpness[1] * second[np.ix_(b, b)]
    if given.extra is not None:
        exponents = exponents + given.extra[np.ix_(a, a)]
    return np.exp(-exponents)


def dense_joint(given: Problem, sharpness):
    """(m, m): P(s)·M(t | s), with φ from the plain fixed point φ ← √(φ·P / Kφ)."""
    kernel = dense_kernel(given, sharpness)
    phi = np.sqrt(given.law)
    for _ in range(2000):
        phi = np.sqrt(phi * given.law / (kernel @ phi))
    weights = kernel * np.where(given.written, phi, 0.0)
    return given.law[:, None] * weights / weights.sum(axis=1, keepdims=True)


SHARPNESS = np.array([6.0, 11.0])


@pytest.mark.parametrize("power", POWERS)
@pytest.mark.parametrize("least", [1, 4])
def test_the_scaling_is_that_of_the_plain_fixed_point(table, least, power):
    _, given = problem(table, least=least, power=power)
    solved = balance(given, SHARPNESS, None, 1e-12)
    joint = (given.law / solved.totals)[:, None] * dense_kernel(given, SHARPNESS) * solved.psi
    np.testing.assert_allclose(joint, dense_joint(given, SHARPNESS), atol=1e-10)


def test_without_rare_tuples_both_marginals_are_the_law(table):
    _, given = problem(table)
    joint = dense_joint(given, SHARPNESS)
    np.testing.assert_allclose(joint.sum(axis=0), given.law, atol=1e-12)
    solved = balance(given, SHARPNESS, None, 1e-9)
    np.testing.assert_allclose(solved.psi * solved.totals, given.law, atol=1e-8)


@pytest.mark.parametrize("least", [1, 4])
def test_mean_squares_are_those_of_the_joint_law(table, least):
    _, given = problem(table, least=least)
    solved, joint = balance(given, SHARPNESS, None, 1e-12), dense_joint(given, SHARPNESS)
    a, b = table.rows, table.columns
    wanted = [(joint * s[np.ix_(x, x)]).sum() for s, x in zip(given.squares, (a, b), strict=True)]
    np.testing.assert_allclose(mean_squares(given, solved), wanted, rtol=1e-8)


@pytest.mark.parametrize("power", POWERS)
def test_single_precision_keeps_the_law_within_its_tolerance(table, power):
    _, given = problem(table, power=power)
    solved = balance(given, SHARPNESS, None, MARGINAL_ERROR)
    assert solved.single
    joint = (given.law / solved.totals)[:, None] * dense_kernel(given, SHARPNESS) * solved.psi
    assert np.abs(joint.sum(axis=0) - given.law).sum() < 2 * MARGINAL_ERROR
    exact = balance(given, SHARPNESS, None, 1e-12)
    np.testing.assert_allclose(mean_squares(given, solved), mean_squares(given, exact), rtol=1e-5)


@pytest.mark.parametrize("least", [1, 4])
def test_the_shares_that_change_are_those_of_the_joint_law(table, least):
    _, given = problem(table, least=least)
    joint, changed = dense_joint(given, SHARPNESS), changed_shares(given, balance(given, SHARPNESS, None, 1e-9))
    wanted = [(joint * (x[:, None] != x[None])).sum() for x in (table.rows, table.columns)]
    np.testing.assert_allclose(changed, wanted, rtol=1e-5)


def grouped(matrix, labels, size):
    result = np.zeros((size, *matrix.shape[1:]))
    np.add.at(result, labels, matrix)
    return result


@pytest.mark.parametrize("least", [1, 4])
def test_disclosure_is_that_of_the_joint_law(table, least):
    _, given = problem(table, least=least)
    solved, joint = balance(given, SHARPNESS, None, 1e-12), dense_joint(given, SHARPNESS)
    by_a, by_b = grouped(joint, table.rows, SHAPE[0]), grouped(joint, table.columns, SHAPE[1])
    np.testing.assert_allclose(
        disclosure.vulnerabilities(given, solved), [by_a.max(axis=0).sum(), by_b.max(axis=0).sum()], rtol=1e-8
    )
    assert disclosure.vulnerability_of_record(given, solved) == pytest.approx(joint.max(axis=0).sum())
    first = grouped(by_a.T, table.rows, SHAPE[0]).T
    second = grouped(by_b.T, table.columns, SHAPE[1]).T
    np.testing.assert_allclose(disclosure.joint_of_first(given, solved), first, atol=1e-10)
    np.testing.assert_allclose(disclosure.joint_of_second(given, solved), second, atol=1e-10)
    logs = np.log((joint / given.law[:, None])[:, given.written])
    assert disclosure.epsilon_of_record(given, solved) == pytest.approx((logs.max(axis=0) - logs.min(axis=0)).max())


def test_epsilon_is_at_most_twice_the_exponents(table):
    _, given = problem(table)
    solved = balance(given, SHARPNESS, None, 1e-12)
    greatest = [x * s.max() for x, s in zip(SHARPNESS, given.squares, strict=True)]
    assert 0.0 < disclosure.epsilon_of_record(given, solved) <= 2.0 * sum(greatest)


def taxonomy(seed, parents):
    rng = np.random.default_rng(seed)
    return Ontology.from_edges(
        sorted({(f"c{k}", f"c{p}") for k in range(1, 25) for p in rng.integers(0, k, parents)})
    ).taxonomy()


@pytest.mark.parametrize("parents", [1, 2])
@pytest.mark.parametrize("least", [1, 3])
def test_draws_follow_the_channel(parents, least):
    """Each of 40,000 draws of the most frequent tuple, against the dense channel with the fitted λ."""
    tau = taxonomy(parents, parents)
    rng = np.random.default_rng(8)
    codes = [rng.choice(12, 300, p=rng.dirichlet(np.ones(12))).astype(np.int32) for _ in range(2)]
    made = SemanticTransport({"a": tau, "b": tau}, seed=b"a seed of many bytes", least=least)
    texts = [tau.decode(column) for column in codes]
    made.learn_many([{"a": x, "b": y} for x, y in zip(*texts, strict=True)])
    made.calibrate()
    prepared = made._prepared_statistics()
    given, solved = prepared.solution()
    joint = dense_joint(given, solved.sharpness)
    s = int(np.argmax(given.law))
    size = 40_000
    a, b = (np.full(size, int(x[s]), np.int32) for x in (given.table.rows, given.table.columns))
    words = rng.integers(0, 2**64, (2, size), dtype=np.uint64)
    new_a, new_b = draw_pairs(prepared.pair_channel, a, b, words[0], words[1])
    found = np.zeros(given.table.shape)
    np.add.at(found, (new_a, new_b), 1.0 / size)
    wanted = np.zeros(given.table.shape)
    wanted[given.table.rows, given.table.columns] = joint[s] / given.law[s]
    assert np.abs(found - wanted).max() < 5 * np.sqrt(wanted.max() / size)
    assert not found[wanted == 0.0].any()
    expected = grouped(wanted, np.arange(given.table.shape[0]), given.table.shape[0]).sum(axis=1)
    assert expected.sum() == pytest.approx(1.0)


@pytest.mark.parametrize("total", [-1.0, 1e38])
def test_a_sum_that_is_rounded_does_not_draw_a_tuple_without_weight(total):
    """Neither if the remaining weight is negative, nor if no candidate is accepted."""
    tau = taxonomy(1, 1)
    rng = np.random.default_rng(8)
    codes = [rng.choice(12, 300, p=rng.dirichlet(np.ones(12))).astype(np.int32) for _ in range(2)]
    made = SemanticTransport({"a": tau, "b": tau}, seed=b"a seed of many bytes", least=3)
    texts = [tau.decode(column) for column in codes]
    made.learn_many([{"a": x, "b": y} for x, y in zip(*texts, strict=True)])
    made.calibrate()
    prepared = made._prepared_statistics()
    channel = prepared.pair_channel
    channel = channel._replace(totals=np.full_like(channel.totals, total))
    a, b = (x.ravel().astype(np.int32) for x in np.indices(channel.totals.shape))
    words = rng.integers(0, 2**64, (2, a.size), dtype=np.uint64)
    new_a, new_b = draw_pairs(channel, a, b, words[0], words[1])
    given, solved = prepared.solution()
    weights = np.zeros(given.table.shape)
    weights[given.table.rows, given.table.columns] = solved.psi
    assert (weights == 0.0).all(axis=1).any()
    assert (weights[new_a, new_b] > 0.0).all()


def dense_coupling(source, target, kernel, squares):
    """(m, n): the entropic optimal transport of two laws by Sinkhorn's iteration, until it converges."""
    psi = target.copy()
    for _ in range(5000):
        phi = source / (kernel @ psi)
        psi = target / (kernel.T @ phi)
    return phi[:, None] * kernel * psi


def conditional(table, counts, given, sharpness, least=1):
    edge = Edge(0, 1, table, counts, sharpness, 2.0)
    return edge.laws(given.squares[1], least)


@pytest.mark.parametrize("least", [1, 4])
def test_conditional_draws_have_the_law_of_their_context(table, least):
    """Σ_b P(b | a)·M(b* | b, a, a*) = P(b* | a*), exactly, though Sinkhorn's iteration stops early."""
    counts, given = problem(table)
    laws = conditional(table, counts, given, 60.0, least)
    channel = ConditionalChannel(laws)
    rng = np.random.default_rng(3)
    size = 40_000
    for a, new_a in ((0, 0), (1, 4), (5, 2)):
        pairs = (np.full(size, a, np.int32), np.full(size, new_a, np.int32))
        if not channel.covers(*pairs).all():
            continue
        source = np.zeros(SHAPE[1])
        rows = table.rows == a
        source[table.columns[rows]] = counts[rows] / counts[rows].sum()
        b = rng.choice(SHAPE[1], size, p=source).astype(np.int32)
        words = rng.integers(0, 2**64, size, dtype=np.uint64)
        drawn = channel.draw(*pairs, b, words, salts_of(np.arange(laws.kernel.shape[0], dtype=np.int32)))
        target = np.zeros(SHAPE[1])
        rows = (table.rows == new_a) & (counts >= least)
        target[table.columns[rows]] = counts[rows] / counts[rows].sum()
        assert np.abs(np.bincount(drawn, minlength=SHAPE[1]) / size - target).max() < 0.012


def test_the_cost_of_a_coupling_is_that_of_the_dense_one(table):
    counts, given = problem(table)
    laws = conditional(table, counts, given, 3.0)
    squared = given.squares[1]
    kernel = np.exp(-3.0 * squared)
    for a, new_a in ((0, 0), (1, 4), (5, 2)):
        own, new = table.rows == a, table.rows == new_a
        b, new_b = table.columns[own], table.columns[new]
        source, target = counts[own] / counts[own].sum(), counts[new] / counts[new].sum()
        cells = np.ix_(b, new_b)
        wanted = (dense_coupling(source, target, kernel[cells], None) * squared[cells]).sum()
        pairs = (np.array([a], np.int32), np.array([new_a], np.int32))
        assert ConditionalChannel(laws).mean_square(squared, *pairs) == pytest.approx(wanted, abs=2e-3)


def test_the_energy_distance_is_that_of_the_laws(table):
    counts, given = problem(table)
    costs = given.squares[1]
    laws = np.zeros(SHAPE)
    laws[table.rows, table.columns] = counts
    laws /= np.maximum(laws.sum(axis=1, keepdims=True), 1)
    mixed = laws @ costs @ laws.T
    wanted = np.maximum(mixed - np.diag(mixed)[:, None] / 2 - np.diag(mixed)[None] / 2, 0)
    found = energy(table, counts, costs)
    present = laws.sum(axis=1) > 0
    np.testing.assert_allclose(found[np.ix_(present, present)], wanted[np.ix_(present, present)], atol=1e-12)


def test_the_scaling_of_a_problem_with_extra_exponents(table):
    extra = squares(np.random.default_rng(6), SHAPE[0]) * 4.0
    _, given = problem(table, extra=extra)
    solved = balance(given, SHARPNESS, None, 1e-12)
    assert isinstance(solved, Scaling)
    joint = (given.law / solved.totals)[:, None] * dense_kernel(given, SHARPNESS) * solved.psi
    np.testing.assert_allclose(joint, dense_joint(given, SHARPNESS), atol=1e-10)


def test_masked_batches_do_not_depend_on_the_batch():
    """The cache of couplings and the nearest values of new codes change no draw."""
    tau = taxonomy(1, 1)
    rng = np.random.default_rng(8)
    offsets = np.arange(0, 601, 2)
    batch = Batch(
        300,
        (
            Column(rng.integers(0, 12, 300).astype(np.int32)),
            Column(rng.integers(0, 24, 600).astype(np.int32), offsets),
        ),
    )
    made = SemanticTransport({"a": tau, "b": tau}, seed=b"a seed of many bytes", target={"alpha": 1.0})
    from stream_masker.core.statistics import count_batch

    made.restore(made.snapshot_of(made.compute(count_batch(batch, [len(tau)] * 2), version=1)))
    keys = PositionKeys(b"sixteen bytes or more", "t", 0, np.arange(300))
    whole = made.mask_batch(batch, keys)
    half = Batch(
        150, (Column(batch.columns[0].codes[150:].copy()), Column(batch.columns[1].codes[300:].copy(), offsets[:151]))
    )
    other = made.mask_batch(half, PositionKeys(b"sixteen bytes or more", "t", 0, np.arange(150, 300)))
    for j, start in ((0, 150), (1, 300)):
        np.testing.assert_array_equal(whole.columns[j].codes[start:], other.columns[j].codes)
