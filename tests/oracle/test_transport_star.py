"""A child of a star against its joint law with the root, enumerated straight from the formulas."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from support.small_transport import SHAPE, small_table, squares

from stream_masker.core.mechanisms.transport.limits import Caps
from stream_masker.core.mechanisms.transport.sampling import FirstChannel
from stream_masker.core.mechanisms.transport.scaling.table import CountedPairs, Table
from stream_masker.core.mechanisms.transport.star.attribute import AttributeChannel
from stream_masker.core.mechanisms.transport.star.couplings import Rows, coupling_costs, covered_pairs
from stream_masker.core.mechanisms.transport.star.edges import Edge, meet_distance
from stream_masker.core.mechanisms.transport.star.figures import conditional_epsilon, limited
from stream_masker.core.random.draws import salts_of

PLACES, SALTS = (
    np.random.default_rng(5).permutation(SHAPE[1]).astype(np.int32),
    salts_of(np.arange(SHAPE[1], dtype=np.int32)),
)
NO_EVENTS = np.empty(0, np.float32)


@pytest.fixture
def table():
    return small_table()


def rounded_coupling(source, target, kernel):
    """M(b* | b) of the coupling of two laws, straight from its description: Sinkhorn's iteration, then rounding.

    ``source``: (n,). ``target``: (m,). ``kernel``: (n, m).
    """
    phi, psi = source.copy(), np.zeros(target.size)
    for step in range(6):
        columns = kernel.T @ phi
        missing = np.abs(psi * columns - target).sum()
        psi = target / columns
        if (step > 0 and missing < 1e-2) or step == 5:
            break
        phi = source / (kernel @ psi)
    phi = np.minimum(phi, source / (kernel @ psi))
    coupling = phi[:, None] * kernel * psi
    rest, gap = np.maximum(target - coupling.sum(axis=0), 0.0), np.maximum(source - coupling.sum(axis=1), 0.0)
    return (coupling + np.outer(gap, rest / max(rest.sum(), 1e-300))) / source[:, None]


class Child:
    """An edge to a child with 7 values, and the dense law of its root, whose mask is drawn from a mixture.

    ``exchanged``: whether the pairs of masks are others than those of the window.
    """

    def __init__(self, table, exchanged):
        rng = np.random.default_rng(4)
        counts = rng.integers(1, 12, table.rows.size)
        self.squares = squares(rng, SHAPE[1])
        self.dense, self.masks = np.zeros(SHAPE), np.zeros(SHAPE)
        self.dense[table.rows, table.columns] = counts
        kept = counts >= (4 if exchanged else 1)
        self.masks[table.rows[kept], table.columns[kept]] = counts[kept]
        if exchanged:
            self.masks[table.rows[~kept], rng.permutation(table.columns[~kept])] += counts[~kept]
        pairs, masks = (counted(each) for each in (self.dense, self.masks))
        self.edge = Edge(0, 1, pairs, masks, 9.0, np.zeros(masks.counts.size, np.float32), NO_EVENTS)
        prior = self.dense.sum(axis=1) / self.dense.sum()
        mixing = 0.6 * np.eye(SHAPE[0]) + 0.4 * prior
        mixing[:, ~self.edge.partnered] = 0.0
        self.law = prior[:, None] * mixing / np.maximum(mixing.sum(axis=1, keepdims=True), 1e-300)

    def joint(self, edge):
        """(k_A, k_B, k_A, k_B): P(a, b, a*, b*) with what is drawn again, by literal enumeration."""
        source = self.dense / np.maximum(self.dense.sum(axis=1, keepdims=True), 1.0)
        redraws = np.zeros(SHAPE)
        redraws[edge.masks.table.rows, edge.masks.table.columns] = edge.redraws
        target = self.masks / np.maximum(self.masks.sum(axis=1, keepdims=True), 1.0)
        result = np.zeros((*SHAPE, *SHAPE))
        kernel = np.exp(-edge.sharpness * self.squares)
        for a in np.flatnonzero(self.dense.any(axis=1)):
            for new in np.flatnonzero(edge.partnered):
                own, other = np.flatnonzero(self.dense[a]), np.flatnonzero(self.masks[new])
                masks = rounded_coupling(source[a, own], target[new, other], kernel[np.ix_(own, other)])
                again = redraws[new] * target[new]
                again = again / max(again.sum(), 1e-300)
                share = masks @ redraws[new, other]
                masks = masks * (1.0 - redraws[new, other]) + share[:, None] * again[other]
                result[a, own[:, None], new, other] = self.law[a, new] * source[a, own, None] * masks
        return result


def counted(dense):
    rows, columns = np.nonzero(dense)
    return CountedPairs(Table.of(rows, columns, SHAPE), dense[rows, columns].astype(np.int64))


@pytest.fixture(params=[False, True], ids=["pairs of the window", "pairs exchanged"])
def child(table, request):
    return Child(table, request.param)


NO_BOUNDS = Caps.of(np.full((2, SHAPE[0]), 1.0 / SHAPE[0]), None, {}, fitting=False)
CHILD_BOUNDS = Caps.of(np.full((1, SHAPE[1]), 1.0 / SHAPE[1]), 0.5, {}, fitting=False)


def test_the_search_for_a_distance_begins_anywhere(child):
    """The model of an earlier version may have a sharpness of 0."""
    edges = [replace(child.edge, sharpness=sharpness) for sharpness in (0.0, 5.0)]
    found = [meet_distance(edge, child.squares, child.law, 0.05, truncated=True) for edge in edges]
    assert found == [pytest.approx(found[0], rel=0.05)] * 2


def test_the_law_of_a_child_given_the_mask_of_its_root(child):
    edge, _ = limited(child.edge, child.squares, child.law, (CHILD_BOUNDS, NO_BOUNDS), 0.0)
    assert edge.redraws.any()
    joint = child.joint(edge)
    masks = joint.sum(axis=(0, 1))
    wanted = child.masks / np.maximum(child.masks.sum(axis=1, keepdims=True), 1.0) * masks.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(masks, wanted, atol=1e-6)
    of_root = joint.sum(axis=1)  # what b* tells of a beyond a*: nothing
    np.testing.assert_allclose(
        of_root * masks.sum(axis=1)[None, :, None], of_root.sum(axis=2)[:, :, None] * masks[None], atol=1e-6
    )


@pytest.mark.parametrize("limiting", [False, True])
def test_the_figures_of_an_edge_are_those_of_its_joint_law(child, limiting):
    bounds = CHILD_BOUNDS if limiting else Caps.none(SHAPE[1])
    edge, figures = limited(child.edge, child.squares, child.law, (bounds, NO_BOUNDS), 0.0)
    joint = child.joint(edge)
    masks = joint.sum(axis=(0, 1))
    of_child = joint.sum(axis=0)
    assert figures.child.vulnerability == pytest.approx(of_child.max(axis=0).sum(), abs=1e-5)
    assert figures.child.certainty == pytest.approx((of_child / np.where(masks > 0, masks, 1)).max(), abs=1e-5)
    assert figures.root == pytest.approx(joint.sum(axis=(1, 3)).max(axis=0).sum(), abs=1e-5)
    np.testing.assert_allclose(figures.child.joint, joint.sum(axis=(0, 2)), atol=1e-5)
    assert figures.both >= joint.max(axis=(0, 1)).sum() - 1e-6
    if limiting:
        assert not figures.fails.any()
        assert figures.child.certainty <= 0.5 + 1e-6
    else:
        assert figures.child.certainty > 0.6
        assert figures.both == pytest.approx(joint.max(axis=(0, 1)).sum(), abs=1e-5)


@pytest.mark.parametrize("left_out", [0.0, 0.02])
def test_no_limit_is_exceeded_in_the_law_of_events(child, left_out):
    """Events of some pairs are several rows, and those of others are one."""
    table, rows = child.edge.pairs.table, child.edge.pairs.counts
    edge = replace(child.edge, events=np.where(np.arange(rows.size) % 3, rows, 0.75 * rows).astype(np.float32))
    laws = np.array([np.bincount(table.columns, law, SHAPE[1]) for law in (rows, edge.events)])
    bounds = Caps.of(laws / laws.sum(axis=1, keepdims=True), 0.5, {}, fitting=False)
    found, figures = limited(edge, child.squares, child.law, (bounds, NO_BOUNDS), left_out)
    weights = np.zeros(SHAPE)
    weights[table.rows, table.columns] = edge.events / rows
    greatest = []
    for joint in (child.joint(found), child.joint(found) * weights[:, :, None, None]):
        of_child = joint.sum(axis=0)
        greatest.append(float((of_child / np.maximum(of_child.sum(axis=0), 1e-300)).max()))
    assert not figures.fails.any()
    assert max(greatest) <= figures.child.certainty + 1e-6
    assert figures.child.certainty <= 0.5 + 1e-6
    assert max(greatest) == pytest.approx(figures.child.certainty, abs=1e-5 + 2.5 * left_out)
    free = replace(
        edge, redraws=limited(child.edge, child.squares, child.law, (bounds, NO_BOUNDS), left_out)[0].redraws
    )
    assert limited(free, child.squares, child.law, (bounds, NO_BOUNDS), left_out, solve=False)[1].child.certainty > 0.5


def test_the_mask_of_a_child_tells_no_more_of_its_root_than_its_limits_in_the_law_of_events(child):
    """Or than the mask of the root does, where that tells more of records that have the child."""
    table, rows = child.edge.pairs.table, child.edge.pairs.counts
    edge = replace(child.edge, events=np.where(np.arange(rows.size) % 3, rows, 0.3 * rows).astype(np.float32))
    laws = np.array([np.bincount(table.rows, law, SHAPE[0]) for law in (rows, edge.events)])
    groups = {"low": (np.arange(SHAPE[0]) < 3, 0.6)}
    bounds = Caps.of(laws / laws.sum(axis=1, keepdims=True), 0.5, groups, fitting=False)
    free = Caps.of(np.full((2, SHAPE[1]), 1.0 / SHAPE[1]), None, {}, fitting=False)
    weights = np.zeros(SHAPE)
    weights[table.rows, table.columns] = edge.events / rows
    excess = []
    for of_root in (bounds, NO_BOUNDS):
        found, figures = limited(edge, child.squares, child.law, (free, of_root), 0.0)
        joint, masks = (child.joint(found) * weights[:, :, None, None]).sum(axis=1), found.masks.table
        given = joint.sum(axis=2) / np.maximum(joint.sum(axis=(0, 2)), 1e-300)
        posterior = joint[:, masks.rows, masks.columns] / joint[:, masks.rows, masks.columns].sum(axis=0)
        of_values = np.maximum(bounds.values[1][:, None], 1.005 * given)[:, masks.rows]
        of_group = np.maximum(bounds.groups[1, 0], 1.005 * given[:3].sum(axis=0))[masks.rows]
        excess.append(max((posterior - of_values).max(), (posterior[:3].sum(axis=0) - of_group).max()))
        assert not figures.fails.any()
        assert float(figures.surest.max()) == pytest.approx(posterior.max(), abs=1e-5)
    assert excess[0] <= 1e-6
    assert excess[1] > 0.05


def test_pairs_that_are_left_out_make_the_figures_bounds(child):
    exact, bound = (
        limited(child.edge, child.squares, child.law, (Caps.none(SHAPE[1]), NO_BOUNDS), left_out, solve=False)[1].child
        for left_out in (0.0, 0.1)
    )
    assert 0.0 < bound.left_out <= 0.1
    assert exact.vulnerability <= bound.vulnerability <= exact.vulnerability + bound.left_out
    assert exact.certainty <= bound.certainty <= exact.certainty + 2 * 0.1


def test_the_epsilon_of_a_child_bounds_its_ratios(child):
    edge, _ = limited(child.edge, child.squares, child.law, (CHILD_BOUNDS, NO_BOUNDS), 0.0)
    joint = child.joint(edge)
    given = joint / np.maximum(joint.sum(axis=3, keepdims=True), 1e-300)
    logs = np.log(np.where(given > 0.0, given, np.nan))
    most, least = (f(logs, axis=(0, 1)) for f in (np.nanmax, np.nanmin))
    stated = conditional_epsilon(edge.laws(child.squares))
    assert np.nanmax(most - least) <= stated + 1e-9


def drawn_masks(child, edge, offsets, before, words, pairs):
    """The masks of values of the child, given the values and masks of its root; those of lists are different."""
    alone = Rows.of_values(np.zeros(SHAPE[1]))
    channel = AttributeChannel(
        edge.given_root(child.squares, PLACES), alone, SALTS, FirstChannel.none, distinct=offsets is not None
    )
    after = np.full(before.size, -1, np.int32)
    channel.draw(offsets, before, words, pairs, after)
    return after


def test_draws_of_a_child_follow_its_joint_law(child):
    edge, _ = limited(child.edge, child.squares, child.law, (CHILD_BOUNDS, NO_BOUNDS), 0.0)
    rng, size = np.random.default_rng(3), 40_000
    joint = child.joint(edge)
    for a, new_a in ((0, 0), (1, 4), (5, 2), (7, 3)):
        pairs = (np.full(size, a, np.int32), np.full(size, new_a, np.int32))
        if not covered_pairs(edge.laws(child.squares), *pairs).all():
            continue
        for b in np.flatnonzero(child.dense[a]):
            words = rng.integers(0, 2**64, size, dtype=np.uint64)
            drawn = drawn_masks(child, edge, None, np.full(size, b, np.int32), words, pairs)
            wanted = joint[a, b, new_a] / joint[a, b, new_a].sum()
            assert np.abs(np.bincount(drawn, minlength=SHAPE[1]) / size - wanted).max() < 5 * np.sqrt(0.25 / size)


def second_of_two(child, joint, a, new_a):
    """(k_B, k_B, k_B): P(b*, c, c* | a, a*) of the second of two elements, b* being the mask of the first.

    c* is drawn again where it is b*, from P(c* | a*) without b*: straight from the description.
    """
    masks = joint[a, :, new_a] / joint[a, :, new_a].sum()
    target = child.masks[new_a] / child.masks[new_a].sum()
    result = np.zeros((SHAPE[1],) * 3)
    for used in range(SHAPE[1]):
        again = np.where(np.arange(SHAPE[1]) == used, 0.0, target)
        mixed = masks + masks[:, [used]] * again / max(again.sum(), 1e-300)
        mixed[:, used] = masks[:, used] if again.sum() == 0.0 else 0.0
        result[used] = masks[:, used].sum() * mixed
    return result


def test_masks_that_do_not_repeat_tell_no_more_and_nothing_of_the_root(child):
    """The posterior of the second element given a* and both masks; the law of its mask given a, a*, the first."""
    edge, _ = limited(child.edge, child.squares, child.law, (CHILD_BOUNDS, NO_BOUNDS), 0.0)
    joint = child.joint(edge)
    for new_a in np.flatnonzero(edge.partnered):
        whole = np.zeros((SHAPE[1],) * 3)
        laws = []
        for a in np.flatnonzero(joint[:, :, new_a].any(axis=(1, 2))):
            of_a = second_of_two(child, joint, a, new_a)
            laws.append(of_a.sum(axis=1))
            whole += child.law[a, new_a] * of_a
        masks = whole.sum(axis=1, keepdims=True)
        assert (whole / np.maximum(masks, 1e-300)).max() <= 0.5 + 1e-6
        np.testing.assert_allclose(laws, [laws[0]] * len(laws), atol=1e-6)
        if (child.masks[new_a] > 0).sum() > 1:
            assert not laws[0].diagonal().any()


def test_draws_that_do_not_repeat_follow_their_law(child):
    edge, _ = limited(child.edge, child.squares, child.law, (CHILD_BOUNDS, NO_BOUNDS), 0.0)
    joint, rng, size = child.joint(edge), np.random.default_rng(4), 40_000
    a, new_a = 1, 4
    source = child.dense[a] / child.dense[a].sum()
    elements = rng.choice(SHAPE[1], 2 * size, p=source).astype(np.int32)
    words = rng.integers(0, 2**64, 2 * size, dtype=np.uint64)
    pairs = (np.full(size, a, np.int32), np.full(size, new_a, np.int32))
    drawn = drawn_masks(child, edge, np.arange(0, 2 * size + 1, 2), elements, words, pairs)
    places, later = np.arange(0, 2 * size, 2), np.where(words[::2] < words[1::2], 1, 0)
    first, second = places + 1 - later, places + later
    seen = np.zeros((SHAPE[1],) * 3)
    np.add.at(seen, (drawn[first], elements[second], drawn[second]), 1.0 / size)
    wanted = second_of_two(child, joint, a, new_a)
    assert np.abs(seen - wanted).max() < 5 * np.sqrt(0.25 / size)
    assert np.abs(seen.sum(axis=1) - wanted.sum(axis=1)).max() < 5 * np.sqrt(0.25 / size)


def test_the_cost_of_a_coupling_is_that_of_the_dense_one(table):
    child = Child(table, exchanged=False)
    laws, joint = child.edge.laws(child.squares), child.joint(child.edge)
    for a, new_a in ((0, 0), (1, 4), (5, 2)):
        part = joint[a, :, new_a]
        wanted = (part * child.squares).sum() / part.sum()
        pairs = (np.array([a], np.int32), np.array([new_a], np.int32))
        assert coupling_costs(laws, child.squares, *pairs) == pytest.approx(wanted, abs=1e-5)
