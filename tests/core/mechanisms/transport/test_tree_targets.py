"""A vulnerability and an ε as targets of arrays, and of more than two attributes, against an enumeration of records."""

from __future__ import annotations

import numpy as np
import pytest
from support.data import discharges, icd9cm
from support.enumeration import Enumeration

from stream_masker import SemanticTransport
from stream_masker.core.batch import Batch, Column
from stream_masker.core.mechanisms.transport.tree.edge_risk import LEFT_OUT
from stream_masker.core.mechanisms.transport.tree.targets import EPSILON_SHORTFALL, VULNERABILITY_SHORTFALL
from stream_masker.core.ontology import UNKNOWN, ConceptMap, Ontology
from stream_masker.core.random.keys import PositionKeys
from stream_masker.core.statistics import compute_statistics, count_batch
from stream_masker.errors import StatisticsError

SEED = b"a seed of many bytes"
TAU = Ontology.from_edges([(f"c{k}", f"c{(k - 1) // 2}") for k in range(1, 31)]).taxonomy()
FLAT = Ontology.from_values(["no", "yes"]).taxonomy()
VALUES = TAU.encode(["c7", "c15", "c8", "c11", "c14"]).astype(np.int32)
TARGETS = [{"vulnerability": 0.45}, {"vulnerability": 0.7}, {"epsilon": 3.0}, {"epsilon": 12.0}]


def related(rng, values, share):
    """A column that has the given values, or others with this probability."""
    return np.where(rng.random(values.size) < share, rng.choice(5, values.size, p=[0.3, 0.2, 0.2, 0.2, 0.1]), values)


def star(rng, size=3000):
    """Two columns that depend on the second one."""
    middle = rng.choice(5, size, p=[0.3, 0.25, 0.2, 0.15, 0.1])
    return [related(rng, middle, 0.4), middle, related(rng, (middle + 1) % 5, 0.5)]


def chain(rng, size=3000):
    """Four columns, each of which depends on the one before."""
    columns = [rng.choice(5, size, p=[0.3, 0.25, 0.2, 0.15, 0.1])]
    for share in (0.3, 0.2, 0.4):
        columns.append(related(rng, columns[-1], share))
    return columns[:3]


def batch_of(columns):
    return Batch(len(columns[0]), tuple(Column(np.ascontiguousarray(VALUES[column])) for column in columns))


def with_array(rng, size=2500):
    """A scalar, an array of 0 to 3 elements that depend on it, and another scalar."""
    first, _, last = star(rng, size)
    lengths = rng.integers(0, 4, size)
    elements = related(rng, np.repeat(first, lengths), 0.5)
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    scalars = [Column(np.ascontiguousarray(VALUES[column])) for column in (first, last)]
    return Batch(size, (scalars[0], Column(np.ascontiguousarray(VALUES[elements]), offsets), scalars[1]))


def repeated_column(column, times):
    codes = np.tile(column.codes, times)
    if column.offsets is None:
        return Column(codes)
    return Column(codes, np.concatenate([[0], np.cumsum(np.tile(np.diff(column.offsets), times))]))


def calibrated(batch, taxonomies=None, **parameters):
    names = [f"x{j}" for j in range(len(batch.columns))]
    taxonomies = taxonomies or [TAU] * len(names)
    made = SemanticTransport(dict(zip(names, taxonomies, strict=True)), seed=SEED, **parameters)
    counts = count_batch(batch, [len(tau) for tau in taxonomies])
    made.restore(made.snapshot_of(made.compute(counts, version=1)))
    return made.with_statistics(made.statistics, counts)


WINDOWS = {
    "star": lambda: batch_of(star(np.random.default_rng(1))),
    "chain": lambda: batch_of(chain(np.random.default_rng(2))),
    "array": lambda: with_array(np.random.default_rng(3)),
    "scalar and array": lambda: Batch(2500, with_array(np.random.default_rng(4)).columns[:2]),
}


@pytest.fixture(params=WINDOWS)
def window(request):
    return WINDOWS[request.param]()


def check_met(made, target):
    """The target is met by an enumeration of the channel, from below, and by the figures that are reported.

    The chances of fields are estimates, whose bound is part of what must not exceed the target.
    """
    found, figures = Enumeration(made), made.disclosure()
    ((kind, wanted),) = target.items()
    if kind == "vulnerability":
        bound = bound_of(made)
        greatest = max(found.chances())
        assert wanted - VULNERABILITY_SHORTFALL - 2 * LEFT_OUT - 2 * bound - 1e-4 <= greatest <= wanted + 1e-4
        assert max(figures.given_record.values()) == pytest.approx(greatest, abs=bound + 1e-4)
    else:
        total = sum(found.epsilon_of_values())
        assert (1.0 - EPSILON_SHORTFALL - 1e-3) * wanted <= total <= wanted * (1.0 + 1e-5)
        assert figures.epsilon_of_record == pytest.approx(total, rel=1e-4)
        assert list(figures.epsilon_of_value.values()) == pytest.approx(found.epsilon_of_values(), rel=1e-4)


def bound_of(made):
    """The greatest bound of the figures of records: 0 without fields."""
    risks = made._prepared_statistics().record_risks.values()
    return max((risk.bound for risk in risks if risk.bound > LEFT_OUT), default=0.0)


@pytest.mark.parametrize("target", TARGETS, ids=str)
def test_the_target_is_met(window, target):
    check_met(calibrated(window, target=target), target)


@pytest.mark.parametrize("target", TARGETS[1:3], ids=str)
def test_the_target_is_met_without_rare_tuples(target):
    rng = np.random.default_rng(1)
    columns = star(rng, 600)
    assert any(0 < n < 20 for n in np.unique(columns[0] * 5 + columns[1], return_counts=True)[1])
    check_met(calibrated(batch_of(columns), target=target, least=20), target)


def test_the_target_is_met_where_masks_have_no_written_partner():
    """The value 4 of the middle column is frequent, but all of its pairs are rare: it always moves."""
    rng = np.random.default_rng(7)
    middle = rng.choice(5, 1500, p=[0.4, 0.3, 0.15, 0.1, 0.05])
    others = [np.where(middle == 4, rng.integers(0, 5, 1500), related(rng, middle, 0.2)) for _ in range(2)]
    batch = batch_of([others[0], middle, others[1]])
    for target in ({"vulnerability": 0.75}, {"epsilon": 9.0}):
        made = calibrated(batch, target=target, least=30)
        links = made._prepared_statistics().fields[0].links
        assert not all(links.written(node, 30).all() for node in (1, 2))
        check_met(made, target)


def test_the_dashboard_shows_the_vulnerability_that_was_targeted(window):
    made = calibrated(window, target={"vulnerability": 0.5})
    risk, bound = made.risk(), bound_of(made)
    greatest = max(*risk.given_record.values(), *risk.vulnerability.values())
    assert 0.5 - VULNERABILITY_SHORTFALL - bound <= greatest <= 0.5 + 1e-4
    assert risk.bound_of_record <= max(LEFT_OUT, bound)
    assert risk.vulnerability_of_record <= greatest + LEFT_OUT
    assert 0.0 < risk.unchanged_of_record < min(risk.unchanged.values())


@pytest.mark.parametrize("target", [{"vulnerability": 0.5}, {"alpha": 0.5}, {"rmse": 0.3}], ids=str)
@pytest.mark.parametrize("name", ["star", "chain", "array"])
def test_figures_of_records_are_those_of_an_enumeration(name, target):
    made = calibrated(WINDOWS[name](), target=target)
    found, figures = Enumeration(made), made.disclosure()
    bound = bound_of(made)
    assert 0.001 < bound < 0.01
    assert list(figures.given_record.values()) == pytest.approx(found.chances(), abs=bound)
    own = [found.best_guesses(found.law(), (j,))[j] for j in range(3)]
    assert list(figures.vulnerability.values()) == pytest.approx(own, abs=2e-3)


def test_absent_values_do_not_count_as_guessed():
    """A third of the records lack the last value: its chance is over the others."""
    columns = star(np.random.default_rng(10))
    batch = batch_of(columns)
    lacking = np.where(np.arange(batch.size) % 3 == 0, -1, batch.columns[2].codes).astype(np.int32)
    made = calibrated(Batch(batch.size, (*batch.columns[:2], Column(lacking))), target={"alpha": 0.5})
    (prepared,) = made._prepared_statistics().prepared_fields
    field, problem = prepared.field, prepared.problem
    found, nodes = Enumeration(made), problem.links.attributes
    joint = [np.zeros((size, *problem.links.sizes)) for size in problem.links.sizes]
    for record, weight in zip(problem.records.indices, problem.records.weights, strict=True):
        masks = weight * found.field_masks(field, record)
        for node, value in enumerate(record):
            joint[node][value] += masks
    for node, j in enumerate(nodes):
        present = joint[node][:-1]
        given = made.disclosure().given_record[made.attributes[j]]
        assert given == pytest.approx(present.max(axis=0).sum() / present.sum(), abs=bound_of(made))


def test_functions_of_two_attributes_tell_more_than_the_pairs():
    """C1, C2 and C3 say whether A1, A2 and A3 equal B. All pairs are independent, so the window's pairs do not show
    what their masks tell together."""
    a1, a2, a3, b = (x.ravel() for x in np.indices((2, 2, 2, 2)))
    bits = np.array([b, a1, a2, a3, a1 == b, a2 == b, a3 == b]).astype(np.int32)
    columns = tuple(Column(np.tile(1 + x, 25)) for x in bits)
    made = calibrated(Batch(400, columns), [FLAT] * 7, target={"vulnerability": 0.8})
    assert max(made.disclosure().given_record.values()) <= 0.8
    law = np.zeros((2,) * 7)
    law[tuple(bits)] = 1 / 16
    assert Enumeration(made).best_guesses(law, tuple(range(7)))[0] > 0.82


def test_masks_of_other_scalars_tell_little_more_about_an_element_of_an_array():
    """The target is for the masks of the element and of its scalar. Other scalars tell about the scalar."""
    found = Enumeration(calibrated(WINDOWS["array"](), target={"vulnerability": 0.45}))
    ((scalar, array),) = found.edges
    law = found.law((scalar, array))
    own, every = (found.best_guesses(law, seen)[array] for seen in ((scalar, array), (0, 1, 2)))
    assert own < every < own + 0.005


def chapters():
    """(3, n) int32: the chapters of the three diagnoses of each real discharge that has them."""
    tau = icd9cm().taxonomy()
    find = ConceptMap(tau, unknown="ancestor", ontology=icd9cm()).resolve
    found = np.array([[find(row[name])[0] for name in ("diag_1", "diag_2", "diag_3")] for row in discharges()])
    found = found[(found != UNKNOWN).all(axis=1)].T
    chapter_of = np.arange(len(tau))
    while (deeper := tau.depth[chapter_of] > 2).any():
        chapter_of[deeper] = tau.parents[tau.parent_offsets[chapter_of[deeper]]]
    return chapter_of[found].astype(np.int32)


@pytest.mark.parametrize("level", [0.4, 0.5, 0.6])
def test_real_records_tell_hardly_more_than_their_pairs(level):
    """The target holds for the law of the real records, though that is not Markov, but for 0.005."""
    tau, codes = icd9cm().taxonomy(), chapters()
    batch = Batch(codes.shape[1], tuple(Column(np.ascontiguousarray(column)) for column in codes))
    made = calibrated(batch, [tau] * 3, target={"vulnerability": level})
    found = Enumeration(made)
    law = np.zeros(found.sizes)
    places = [v.indices(column) for v, column in zip(made._prepared_statistics().values, codes, strict=True)]
    np.add.at(law, tuple(places), 1.0 / codes.shape[1])
    assert level - 0.02 <= max(found.best_guesses(law, (0, 1, 2))) <= level + 0.005


@pytest.mark.parametrize("name", ["star", "chain"])
def test_the_epsilon_of_whole_records_is_at_most_the_sum(name):
    found = Enumeration(calibrated(WINDOWS[name](), target={"epsilon": 8.0}))
    exact = found.epsilon_of_records(np.ones(found.sizes))
    assert 0.5 * 8.0 < exact <= 8.0


def test_each_element_of_an_array_adds_its_epsilon():
    """Of a scalar with two elements: the exact ε of the three masks, and its bound."""
    made = calibrated(WINDOWS["scalar and array"](), target={"epsilon": 6.0})
    found, figures = Enumeration(made), made.disclosure()
    ((parent, child),) = found.edges
    alone, counts = found.alone(parent), found.pair_counts((parent, child))
    masks = []
    for a in range(5):
        given = np.array([found.given((parent, child), a, new) for new in range(5)])
        for b, other in zip(*np.nonzero(np.outer(counts[a], counts[a])), strict=True):
            masks.append((alone[a][:, None, None] * given[:, b, :, None] * given[:, other, None, :]).ravel())
    logs = np.log(np.array(masks))
    exact = (logs.max(axis=0) - logs.min(axis=0)).max()
    value = list(figures.epsilon_of_value.values())
    assert figures.epsilon_of_record < exact <= value[parent] + 2 * value[child]


def test_values_whose_parent_is_absent_have_no_greater_epsilon():
    made = calibrated(WINDOWS["star"](), target={"epsilon": 6.0})
    found = Enumeration(made)
    budget = list(made.disclosure().epsilon_of_value.values())
    for j in range(3):
        rows = found.alone(j)
        assert np.log(rows.max(axis=0) / rows.min(axis=0)).max() <= budget[j] + 1e-6


@pytest.mark.parametrize("target", TARGETS[::2], ids=str)
def test_the_law_is_preserved(window, target):
    made, size = calibrated(window, target=target), window.size
    repeated = Batch(20 * size, tuple(repeated_column(column, 20) for column in window.columns))
    masked = made.mask_batch(repeated, PositionKeys(b"sixteen bytes, more", "t", 0, np.arange(20 * size)))
    counts = count_batch(Batch(20 * size, masked.columns), [len(TAU)] * len(window.columns))
    after = compute_statistics(counts, made.attributes, made.distances, version=1)
    before = made.statistics
    found = Enumeration(made)
    for edge in [*found.links, *found.edges]:
        assert after.correlation[edge] == pytest.approx(before.correlation[edge], abs=0.015)
    for name in made.attributes:
        assert after.variance[name] == pytest.approx(before.variance[name], rel=0.02)
        assert after.mean[name] == before.mean[name]


@pytest.mark.parametrize("target", [{"vulnerability": 0.2}, {"epsilon": 0.001}])
def test_an_unreachable_target_states_the_range(window, target):
    with pytest.raises(StatisticsError, match=r"cannot be met: this window allows \d\.\d+ to \d+\.\d+"):
        calibrated(window, target=target)


@pytest.mark.parametrize("target", TARGETS[:3:2], ids=str)
def test_attributes_without_common_records_meet_the_target(target):
    """Two arrays have no common row: each is masked alone."""
    first, second, _ = star(np.random.default_rng(5), 1000)
    offsets = np.arange(0, 1001, 2)
    columns = tuple(Column(np.ascontiguousarray(VALUES[x]), offsets) for x in (first, second))
    made = calibrated(Batch(500, columns), target=target)
    assert not made._prepared_statistics().edges
    assert not made._prepared_statistics().fields
    check_met(made, target)
    masked = made.mask_batch(Batch(500, columns), PositionKeys(b"sixteen bytes, more", "t", 0, np.arange(500)))
    assert all((column.codes >= 0).all() for column in masked.columns)


def test_a_window_that_slid_starts_from_the_last_model():
    rng = np.random.default_rng(6)
    columns = star(rng, 3300)
    for target in TARGETS[:3:2]:
        made = calibrated(batch_of([x[:3000] for x in columns]), target=target)
        slid = batch_of([x[300:] for x in columns])
        made.restore(made.snapshot_of(made.compute(count_batch(slid, [len(TAU)] * 3), version=2)))
        check_met(made, target)


@pytest.mark.parametrize("target", TARGETS[:3:2], ids=str)
def test_the_first_element_of_an_array_is_a_scalar_where_the_window_has_single_elements(target):
    """The window has one element an event, so it is that of a pair. Masks of such events are those of the pair."""
    first, second, _ = star(np.random.default_rng(8), 2000)
    made = calibrated(batch_of([first, second]), target=target)
    keys = PositionKeys(b"sixteen bytes, more", "t", 0, np.arange(2000))
    scalars = made.mask_batch(batch_of([first, second]), keys)
    array = Column(np.ascontiguousarray(VALUES[second]), np.arange(2001))
    found = made.mask_batch(Batch(2000, (scalars_of(first), array)), keys)
    pairs = [shares(result.columns) for result in (scalars, found)]
    assert np.abs(pairs[0] - pairs[1]).max() < 0.03
    swapped = calibrated(batch_of([second, first]), target=target)
    other = swapped.mask_batch(Batch(2000, (array, scalars_of(first))), keys)
    assert np.abs(shares(other.columns[::-1]) - pairs[0]).max() < 0.03


@pytest.mark.parametrize("target", [*TARGETS[:3:2], {"alpha": 0.5}], ids=str)
def test_an_array_of_single_elements_is_the_context_of_other_attributes(target):
    """The window tells no array from a scalar if no event has two elements, so it may be the root of the tree."""
    first, middle, last = star(np.random.default_rng(9), 4000)
    made = calibrated(batch_of([first, middle, last]), target=target)
    assert set(Enumeration(made).links) == {(1, 0), (1, 2)}
    array = Column(np.ascontiguousarray(VALUES[middle]), np.arange(4001))
    keys = PositionKeys(b"sixteen bytes, more", "t", 0, np.arange(4000))
    found = made.mask_batch(Batch(4000, (scalars_of(first), array, scalars_of(last))), keys).columns
    before = shares((scalars_of(first), scalars_of(middle)))
    assert np.abs(shares(found[:2]) - before).max() < 0.03
    twice = Column(np.repeat(VALUES[middle], 2), np.arange(0, 8001, 2))
    found = made.mask_batch(Batch(4000, (scalars_of(first), twice, scalars_of(last))), keys).columns
    assert np.bincount(found[0].codes, minlength=len(TAU))[VALUES] / 4000 == pytest.approx(
        np.bincount(first, minlength=5) / 4000, abs=0.03
    )


def test_further_elements_of_such_an_array_are_masked_alone():
    first, second, _ = star(np.random.default_rng(8), 2000)
    made = calibrated(batch_of([first, second]), target={"epsilon": 4.0})
    figures = made.disclosure()
    assert figures.epsilon_of_value["x1"] == pytest.approx(4.0, rel=0.01)
    twice = Column(np.repeat(VALUES[second], 2), np.arange(0, 4001, 2))
    keys = PositionKeys(b"sixteen bytes, more", "t", 0, np.arange(2000))
    found = made.mask_batch(Batch(2000, (scalars_of(first), twice)), keys).columns[1].codes
    law = np.bincount(found[1::2], minlength=len(TAU))[VALUES] / 2000
    assert law == pytest.approx(np.bincount(second, minlength=5) / 2000, abs=0.04)


def scalars_of(column):
    return Column(np.ascontiguousarray(VALUES[column]))


def shares(columns):
    a, b = (np.searchsorted(np.sort(VALUES), column.codes) for column in columns)
    return np.bincount(a * 5 + b, minlength=25) / a.size
