"""Semantic transport against dense matrices over whole tuples, straight from the formulas."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from support.small_transport import SHAPE, small_table, squares

from stream_masker.core.batch import Batch, Column
from stream_masker.core.mechanisms import SemanticTransport
from stream_masker.core.mechanisms.transport import disclosure
from stream_masker.core.mechanisms.transport.kernel import Levels
from stream_masker.core.mechanisms.transport.limits import Caps
from stream_masker.core.mechanisms.transport.sampling import draw_pairs
from stream_masker.core.mechanisms.transport.scaling.solver import Problem, balance, columns_of
from stream_masker.core.mechanisms.transport.scaling.table import Table
from stream_masker.core.ontology import Ontology
from stream_masker.core.random.keys import PositionKeys
from stream_masker.core.statistics import count_batch

EXPONENTS = np.array([6.0, 11.0])
GROUP = np.arange(SHAPE[0]) < 3
BOUNDS = [None, 0.5, 0.42]


def levels_of(rng, size):
    """Levels of a kernel that is not symmetric."""
    return Levels(1.0, rng.random(size) / 20.0, rng.random(size) / 20.0 - 0.1)


@pytest.fixture
def table():
    return small_table()


def problem(table, *, least=1, certainty=None):
    rng = np.random.default_rng(4)
    counts = rng.integers(1, 12, table.rows.size)
    law = counts / counts.sum()
    priors = (np.bincount(table.rows, law, SHAPE[0]), np.bincount(table.columns, law, SHAPE[1]))
    groups = {"low": (GROUP, 0.4)} if certainty else {}
    limits = (
        Caps.of(priors[0][None], certainty, groups, fitting=False),
        Caps.of(priors[1][None], certainty, {}, fitting=False),
    )
    distances = (squares(rng, SHAPE[0]), squares(rng, SHAPE[1]))
    levels = (levels_of(rng, SHAPE[0]), levels_of(rng, SHAPE[1]))
    return Problem(table, counts, counts >= least, distances, levels, limits, limits)


def dense_factors(binding, table, size):
    """(size, m): r of each value and tuple."""
    result = np.ones((size, table.rows.size))
    for t in range(table.rows.size):
        own = slice(binding.offsets[t], binding.offsets[t + 1])
        result[binding.values[own], t] = binding.factors[own]
    return result


def dense_joint(given: Problem, solved):
    """(m, m): P(s)·M(t | s) with M(t | s) ∝ K·r·ψ, from the kernels' exponents, ψ and the factors alone."""
    a, b = given.table.rows, given.table.columns
    first, second = (np.exp(-e * c.astype(float)) for e, c in zip(solved.exponents, given.costs, strict=True))
    weights = first[np.ix_(a, a)] * second[np.ix_(b, b)] * solved.psi
    weights *= dense_factors(solved.binding[0], given.table, given.table.shape[0])[a]
    weights *= dense_factors(solved.binding[1], given.table, given.table.shape[1])[b]
    return given.law[:, None] * weights / weights.sum(axis=1, keepdims=True)


def grouped(matrix, labels, size):
    result = np.zeros((size, *matrix.shape[1:]))
    np.add.at(result, labels, matrix)
    return result


@pytest.mark.parametrize("least", [1, 4])
@pytest.mark.parametrize("certainty", BOUNDS)
def test_masks_have_the_law_of_the_window(table, least, certainty):
    given = problem(table, least=least, certainty=certainty)
    solved = balance(given, EXPONENTS, 1e-6)
    np.testing.assert_allclose(dense_joint(given, solved).sum(axis=0), given.target, atol=1e-6)


@pytest.mark.parametrize("certainty", BOUNDS[1:])
def test_no_posterior_exceeds_its_limit_and_some_would(table, certainty):
    given = problem(table, certainty=certainty)
    solved = balance(given, EXPONENTS, 1e-6)
    free = balance(problem(table), EXPONENTS, 1e-6)

    def greatest_excess(joint):
        a, b = grouped(joint, table.rows, SHAPE[0]), grouped(joint, table.columns, SHAPE[1])
        posteriors = [each / joint.sum(axis=0) for each in (a, b, a[GROUP].sum(axis=0, keepdims=True))]
        bounds = [given.limits[0].values[0], given.limits[1].values[0], given.limits[0].groups[0]]
        return max((each - bound[:, None]).max() for each, bound in zip(posteriors, bounds, strict=True))

    assert greatest_excess(dense_joint(given, solved)) <= 1e-4
    assert greatest_excess(dense_joint(given, free)) > 0.1
    assert max(each.excess.max() for each in solved.columns) == pytest.approx(
        greatest_excess(dense_joint(given, solved)), abs=1e-5
    )


def test_no_posterior_of_one_attribute_exceeds_its_limit_in_the_law_of_events():
    """Values and the group, in the law of rows, which is kept, and in that of events; the latter is exceeded else."""
    rng, size = np.random.default_rng(7), SHAPE[0]
    rows, events = rng.integers(4, 12, size), rng.integers(1, 30, size)
    laws = np.array([rows / rows.sum(), events / events.sum()])
    both, first = (Caps.of(each, 0.45, {"low": (GROUP, 0.55)}, fitting=False) for each in (laws, laws[:1]))
    table = Table.of(np.arange(size), np.zeros(size, np.int64), (size, 1))
    levels, none = (levels_of(rng, size), Levels.flat(1, 1.0)), Caps.none(1)
    whole, distances = np.ones(size, np.bool_), (squares(rng, size), np.zeros((1, 1)))
    excess = []
    for limits in (both, first):
        of_limits = (limits, none)
        given = Problem(table, rows, whole, distances, levels, (both, none), of_limits)
        solved = balance(given, np.array([20.0, 1.0]), 1e-6)
        joint = dense_joint(given, solved)
        np.testing.assert_allclose(joint.sum(axis=0), laws[0], atol=1e-6)
        greatest = -np.inf
        for law in range(2):
            weighted = joint * both.weights[law][:, None]
            posterior = weighted / weighted.sum(axis=0)
            own = (posterior - both.values[law][:, None]).max()
            greatest = max(greatest, own, (posterior[GROUP].sum(axis=0) - both.groups[law, 0]).max())
        excess.append(greatest)
        assert float(solved.columns[0].excess.max()) == pytest.approx(greatest, abs=1e-5)
    assert excess[0] <= 1e-4
    assert excess[1] > 0.05


@pytest.mark.parametrize("least", [1, 4])
@pytest.mark.parametrize("certainty", BOUNDS)
def test_figures_are_those_of_the_joint_law(table, least, certainty):
    given = problem(table, least=least, certainty=certainty)
    solved = balance(given, EXPONENTS, 1e-6)
    joint = dense_joint(given, solved)
    for labels, size, first in ((table.rows, SHAPE[0], True), (table.columns, SHAPE[1], False)):
        distances = given.squares[0 if first else 1]
        columns = columns_of(solved, first=first, joint=True)
        by_value = grouped(joint, labels, size)
        masks = joint.sum(axis=0)
        assert columns.vulnerability == pytest.approx(by_value.max(axis=0).sum(), rel=1e-5)
        assert columns.certainty == pytest.approx((by_value / np.where(masks > 0, masks, 1)).max(), rel=1e-5)
        moved = solved.moved[0 if first else 1]
        assert moved == pytest.approx((joint * distances[np.ix_(labels, labels)]).sum(), rel=1e-5)
        assert columns.changed == pytest.approx((joint * (labels[:, None] != labels)).sum(), rel=1e-5)
        np.testing.assert_allclose(columns.joint, grouped(by_value.T, labels, size).T, atol=1e-6)
    assert disclosure.vulnerability_of_record(solved) == pytest.approx(joint.max(axis=0).sum(), rel=1e-5)
    assert disclosure.stays_of_record(solved) == pytest.approx(np.trace(joint), rel=1e-5)
    logs = np.log((joint / given.law[:, None])[:, given.written])
    wanted = (logs.max(axis=0) - logs.min(axis=0)).max()
    assert disclosure.epsilon_of_record(solved) == pytest.approx(wanted, rel=1e-5)


def taxonomy(seed, parents):
    rng = np.random.default_rng(seed)
    return Ontology.from_edges(
        sorted({(f"c{k}", f"c{p}") for k in range(1, 25) for p in rng.integers(0, k, parents)})
    ).taxonomy()


def fitted(parents, least, target):
    tau = taxonomy(parents, parents)
    rng = np.random.default_rng(8)
    a = rng.choice(12, 300, p=rng.dirichlet(np.ones(12))).astype(np.int32)
    b = np.where(rng.random(300) < 0.7, a, rng.choice(12, 300)).astype(np.int32)
    made = SemanticTransport({"a": tau, "b": tau}, seed=b"a seed of many bytes", least=least, target=target)
    made.learn_many([{"a": x, "b": y} for x, y in zip(tau.decode(a), tau.decode(b), strict=True)])
    made.calibrate()
    return made._prepared_statistics()


def drawn_pairs(channel, a, b, words):
    """The indices of the masked values of pairs, which all have values."""
    masks = np.full((2, a.size), -1, np.int32)
    assert draw_pairs(channel, a, b, *words, *masks) == 0
    return masks


@pytest.mark.parametrize("parents", [1, 2])
@pytest.mark.parametrize(("least", "target"), [(1, {"alpha": 0.3}), (1, {"alpha": 0.5, "certainty": 0.5})])
def test_draws_follow_the_channel(parents, least, target):
    """40,000 draws of each of the ten most frequent tuples, against the dense channel with the fitted factors."""
    prepared = fitted(parents, least, target)
    solved = prepared.solution()
    given = solved.problem
    a, b = given.table.rows, given.table.columns
    first, second = (np.exp(-e * c.astype(float)) for e, c in zip(solved.exponents, given.costs, strict=True))
    weights = first[np.ix_(a, a)] * second[np.ix_(b, b)] * solved.psi
    weights *= dense_factors(solved.binding[0], given.table, given.table.shape[0])[a]
    weights *= dense_factors(solved.binding[1], given.table, given.table.shape[1])[b]
    channel = weights / weights.sum(axis=1, keepdims=True)
    rng, size = np.random.default_rng(9), 40_000
    for s in np.argsort(given.law)[-10:]:
        words = rng.integers(0, 2**64, (2, size), dtype=np.uint64)
        pairs = (np.full(size, int(x[s]), np.int32) for x in (a, b))
        new_a, new_b = drawn_pairs(prepared.pair_channel, *pairs, words)
        shares = np.zeros(given.table.shape)
        np.add.at(shares, (new_a, new_b), 1.0 / size)
        wanted = np.zeros(given.table.shape)
        wanted[a, b] = channel[s]
        assert np.abs(shares - wanted).max() < 5 * np.sqrt(0.25 / size)
        assert not shares[wanted == 0.0].any()
    assert ("certainty" in target) == (sum(each.values.size for each in solved.binding) > 0)


def test_a_weight_beyond_single_precision_is_infinite_without_a_warning(table):
    """Searches try exponents whose scaling diverges; they discard what is not finite."""
    weights = np.full(table.rows.size, 1e-3)
    weights[0] = 1e300
    kernels = [np.ones((size, size), np.float32) for size in SHAPE]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert np.isinf(table.by_row.product(kernels[0], table.by_row.sums(weights, kernels[1]))).all()


def test_each_context_keeps_its_law_and_the_promise():
    """Against the counts of the records of each context, with the dense channel of its law."""
    tau, rng = taxonomy(1, 1), np.random.default_rng(8)
    contexts, codes = rng.choice(["F", "M"], 900), rng.choice(12, (900, 2), p=rng.dirichlet(np.ones(12)))
    codes[contexts == "M"] = (codes[contexts == "M"] + 9) % 20
    made = SemanticTransport({"a": tau, "b": tau}, context={"sex": ["F", "M"]}, least=1, seed=b"a seed of many bytes")
    ids = np.array(tau.ids)[codes]
    made.learn_many([{"a": a, "b": b, "sex": sex} for (a, b), sex in zip(ids, contexts.tolist(), strict=True)])
    made.calibrate()
    for number, sex in enumerate("FM"):
        laws = made._prepared_statistics()
        transport = laws.laws[laws.law_of[number]].transport
        solved = transport.solution()
        given = solved.problem
        joint = dense_joint(given, solved)
        own = codes[contexts == sex]
        a, b = transport.values[0].positions[given.table.rows], transport.values[1].positions[given.table.columns]
        law = np.array([((own[:, 0] == x) & (own[:, 1] == y)).mean() for x, y in zip(a, b, strict=True)])
        assert law.sum() == pytest.approx(1.0)
        np.testing.assert_allclose(joint.sum(axis=1), law, atol=1e-12)
        np.testing.assert_allclose(joint.sum(axis=0), law, atol=1e-4)
        for values in (a, b):
            prior = grouped(law, values, 40)
            posterior = grouped(joint, values, 40) / joint.sum(axis=0)
            assert (posterior <= np.maximum(0.5, 1.01 * prior)[:, None] + 1e-6).all()


@pytest.mark.parametrize("total", [-1.0, 1e38])
def test_a_sum_that_is_rounded_does_not_draw_a_tuple_without_weight(total):
    """Neither if the remaining weight is negative, nor if no candidate is accepted."""
    prepared = fitted(1, 3, {"alpha": 0.3})
    channel = prepared.pair_channel
    channel = channel._replace(first=channel.first._replace(totals=np.full_like(channel.first.totals, total)))
    a, b = (x.ravel().astype(np.int32) for x in np.indices(channel.first.totals.shape))
    words = np.random.default_rng(8).integers(0, 2**64, (2, a.size), dtype=np.uint64)
    new_a, new_b = drawn_pairs(channel, a, b, words)
    solved = prepared.solution()
    given = solved.problem
    weights = np.zeros(given.table.shape)
    weights[given.table.rows, given.table.columns] = solved.psi
    assert (weights == 0.0).all(axis=1).any()
    assert (weights[new_a, new_b] > 0.0).all()


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
    made = SemanticTransport({"a": tau, "b": tau}, seed=b"a seed of many bytes", least=1)
    made.restore(made.snapshot_of(made.compute(count_batch(batch, [len(tau)] * 2), version=1)))
    keys = PositionKeys(b"sixteen bytes or more", "t", 0, np.arange(300))
    whole = made.mask_batch(batch, keys)
    half = Batch(
        150, (Column(batch.columns[0].codes[150:].copy()), Column(batch.columns[1].codes[300:].copy(), offsets[:151]))
    )
    other = made.mask_batch(half, PositionKeys(b"sixteen bytes or more", "t", 0, np.arange(150, 300)))
    for j, start in ((0, 150), (1, 300)):
        np.testing.assert_array_equal(whole.columns[j].codes[start:], other.columns[j].codes)
