"""Unusual windows and unusual events of a scalar with few elements of its array."""

from __future__ import annotations

import numpy as np
import pytest
from support.chi_squares import assert_drawn_from
from support.short_events import TAU, VALUES, EventEnumeration, batch_of, calibrated, masked, of_node, window_of

from stream_masker.core.arrays import offsets_from_lengths
from stream_masker.core.batch import Batch, Column
from stream_masker.core.mechanisms.transport.fitting import MAX_NOISE
from stream_masker.core.statistics import compute_statistics, count_batch
from stream_masker.errors import StatisticsError

CODES = np.sort(VALUES)
MANY = 4000


@pytest.fixture(scope="module")
def made():
    return calibrated(window_of(4))


def short_of(made):
    return made._prepared_statistics().short


def check_all_masked(made, batch):
    """All values are masked, absent ones stay absent, and masks are values of the window."""
    after = masked(made, batch)
    for one, other, values in zip(batch.columns, after, made._prepared_statistics().values, strict=True):
        np.testing.assert_array_equal(one.codes < 0, other.codes < 0)
        assert np.isin(other.codes[other.codes >= 0], values.positions).all()
    return after


@pytest.mark.parametrize("elements", [0, 1, 2, 3])
@pytest.mark.parametrize("absent", ["nothing", "scalar", "first element", "all elements", "everything"])
def test_absent_values_stay_absent(made, elements, absent):
    rng = np.random.default_rng(1)
    scalar, array = rng.choice(CODES, MANY), rng.choice(CODES, (MANY, elements))
    if absent in ("scalar", "everything"):
        scalar[:] = -1
    array[:, : {"first element": 1, "all elements": elements, "everything": elements}.get(absent, 0)] = -1
    after = check_all_masked(made, batch_of(scalar, array.ravel(), np.full(MANY, elements)))
    for before, column in zip((scalar, array.ravel()), after, strict=True):
        if (before >= 0).any():
            assert 0.2 < (before != column.codes)[before >= 0].mean() < 0.95


@pytest.mark.parametrize("elements", [1, 2])
def test_elements_beside_an_absent_one_are_masked_as_those_of_longer_events(made, elements):
    """The scalar and the present element have the law of pairs of longer events."""
    scalar, b = np.full(MANY, CODES[0]), np.full((MANY, elements), CODES[3])
    batch = batch_of(scalar, np.column_stack([b, np.full(MANY, -1)]).ravel(), np.full(MANY, elements + 1))
    columns = check_all_masked(made, batch)
    texts = [
        str(pair) for pair in zip(columns[0].codes.tolist(), columns[1].codes[:: elements + 1].tolist(), strict=True)
    ]
    law = EventEnumeration(made).masks(0, (3, 3, 3))[:-1, :-1].sum(axis=(2, 3))
    pairs = {str((int(CODES[a]), int(CODES[b]))): float(law[a, b]) for a, b in zip(*np.nonzero(law), strict=True)}
    assert_drawn_from(pairs, texts)


def test_an_array_attribute_that_is_a_scalar_of_a_batch_is_masked(made):
    rng = np.random.default_rng(2)
    scalar, other = (Column(rng.choice(CODES, MANY).astype(np.int32)) for _ in range(2))
    check_all_masked(made, Batch(MANY, (scalar, other)))


@pytest.mark.parametrize("child", ["array", "scalar"])
def test_a_scalar_that_is_an_array_of_a_batch_is_masked(made, child):
    rng = np.random.default_rng(2)
    lengths = [rng.integers(0, 4, MANY) for _ in range(2)]
    parent, other = (Column(rng.choice(CODES, n.sum()).astype(np.int32), offsets_from_lengths(n)) for n in lengths)
    check_all_masked(
        made, Batch(MANY, (parent, other if child == "array" else Column(rng.choice(CODES, MANY).astype(np.int32))))
    )


@pytest.mark.parametrize("elements", [0, 1, 2, 3])
def test_values_that_the_window_lacks_are_masked_as_the_nearest_ones(made, elements):
    others = np.setdiff1d(np.arange(1, len(TAU)), CODES)
    rng = np.random.default_rng(3)
    check_all_masked(
        made, batch_of(rng.choice(others, MANY), rng.choice(others, MANY * elements), np.full(MANY, elements))
    )


def test_pairs_that_the_window_lacks_are_masked_together():
    """The scalar 4 has no element 0 in the window, so its field draws from the law of pairs, and never this one."""
    window = window_of(4)
    scalar, array = window.columns
    owners = np.repeat(scalar.codes, np.diff(array.offsets))
    codes = np.where((owners == CODES[4]) & (array.codes == CODES[0]), CODES[1], array.codes).astype(np.int32)
    made = calibrated(Batch(window.size, (scalar, Column(codes, array.offsets))))
    for elements in (1, 2):
        batch = batch_of(np.full(MANY, CODES[4]), np.full(MANY * elements, CODES[0]), np.full(MANY, elements))
        after = check_all_masked(made, batch)
        masks = np.repeat(after[0].codes, elements), after[1].codes
        assert not ((masks[0] == CODES[4]) & (masks[1] == CODES[0])).any()


def test_a_window_without_lengths_has_no_short_events():
    made = calibrated(window_of(4, absent=0.1), lengths=False)
    assert not short_of(made)
    assert made._prepared_statistics().edges
    check_all_masked(made, window_of(5, absent=0.1))
    assert made.disclosure().rmse["A"] == pytest.approx(0.3, rel=5e-3)


@pytest.mark.parametrize("target", [{"vulnerability": 0.6}, {"epsilon": 8.0}], ids=str)
def test_a_vulnerability_and_an_epsilon_have_no_short_events(target):
    made = calibrated(window_of(4), target=target)
    assert not short_of(made)
    check_all_masked(made, window_of(5))


@pytest.mark.parametrize(
    ("lengths", "fields"), [((0, 2), {2}), ((1, 3), {1}), ((2,), {2}), ((0, 3, 5), set()), ((1, 2), {1, 2})], ids=str
)
def test_a_window_has_the_fields_of_its_numbers_of_elements(lengths, fields):
    """Events with other numbers of elements are masked as longer ones."""
    made = calibrated(window_of(4, lengths))
    assert {n for short in short_of(made) for n in short.fields} == fields
    check_all_masked(made, window_of(5, (0, 1, 2, 3, 4)))
    figures = made.disclosure()
    assert figures.rmse == pytest.approx({"A": 0.3, "B": 0.3}, rel=1e-2)
    assert made.risk().rmse == pytest.approx(figures.rmse, rel=5e-3)


@pytest.mark.parametrize("lengths", [(0, 2), (0, 1, 2, 3)])
def test_pairs_that_are_rarer_than_least_are_never_written(lengths):
    window = window_of(6, lengths, size=1200)
    made = calibrated(window, least=40, target={"alpha": 0.4})
    ((edge,), (events,)) = (made._prepared_statistics().edges, short_of(made))
    assert (edge.counts < 40).any()
    assert len(events.fields) == sum(n in (1, 2) for n in lengths)
    rare = {(CODES[a], CODES[b]) for a, b in zip(edge.table.rows, edge.table.columns, strict=True)}
    rare -= {
        (CODES[a], CODES[b])
        for a, b, n in zip(edge.table.rows, edge.table.columns, edge.counts, strict=True)
        if n >= 40
    }
    rng = np.random.default_rng(7)
    for elements in (1, 2):
        after = check_all_masked(
            made, batch_of(rng.choice(CODES, MANY), rng.choice(CODES, MANY * elements), np.full(MANY, elements))
        )
        written = set(zip(np.repeat(after[0].codes, elements).tolist(), after[1].codes.tolist(), strict=True))
        assert not rare & written
    found = EventEnumeration(made)
    for node, name in enumerate(made.attributes):
        assert made.disclosure().vulnerability[name] == pytest.approx(found.mixed(node).max(axis=0).sum(), abs=5e-3)


def test_least_that_allows_no_pair_is_refused():
    with pytest.raises(StatisticsError, match="at least 2000"):
        calibrated(window_of(4), least=2000)


def test_a_distance_that_two_elements_cannot_meet_masks_them_as_longer_events():
    """Elements are functions of their scalar. An α moves them as far as the pairs allow; an RMSE is refused."""
    rng = np.random.default_rng(8)
    scalar, lengths = rng.choice(5, 3000), rng.integers(0, 4, 3000)
    elements = np.repeat((scalar * 2) % 5, lengths)
    window = batch_of(VALUES[scalar], VALUES[elements], lengths)
    made = calibrated(window, target={"alpha": 0.3})
    check_all_masked(made, window)
    with pytest.raises(StatisticsError, match="cannot be met"):
        calibrated(window, target={"rmse": {"A": 0.15, "B": 0.45}})


@pytest.mark.parametrize("alpha", [0.05, 1.0, 10.0])
def test_an_alpha_never_fails_and_is_truncated_to_what_the_window_allows(alpha):
    window = window_of(4)
    made = calibrated(window, target={"alpha": alpha})
    check_all_masked(made, window)
    found, squares = EventEnumeration(made), made._prepared_statistics().squares
    pairs = found.pairs()[:-1]
    for node in range(2):
        law = pairs.sum(axis=1 - node)
        most = float(law @ squares[node] @ law)
        wanted = alpha * made.statistics.covariance[node, node]
        for elements in (1, 2):
            square = float((of_node(found.joint(elements), node) * squares[node]).sum())
            assert 0.99 * min(wanted, MAX_NOISE * most) <= square <= 1.01 * min(wanted, most)


@pytest.mark.parametrize("lengths", [(0, 1, 2, 3), (0, 1, 2)])
def test_statistics_are_preserved(lengths):
    window = window_of(4, lengths, size=20_000)
    made = calibrated(window)
    after = [Batch(window.size, masked(made, window, first=20_000 * k)) for k in range(4)]
    counts = [count_batch(batch, [len(TAU)] * 2) for batch in after]
    found = [compute_statistics(each, made.attributes, made.distances, version=1) for each in counts]
    before = made.statistics
    assert np.mean([each.correlation[0, 1] for each in found]) == pytest.approx(before.correlation[0, 1], abs=0.01)
    for name in made.attributes:
        assert np.mean([each.variance[name] for each in found]) == pytest.approx(before.variance[name], rel=0.01)
