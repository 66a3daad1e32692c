"""Semantic transport on the public API: what it keeps, what it promises, and what its versions hold."""

from __future__ import annotations

import json
from collections import Counter
from itertools import pairwise

import numpy as np
import pytest
from support.channels import trained
from support.data import icd9cm
from support.real_codes import as_batch, in_force, real_pairs
from support.transport_law import map_in_force

from stream_masker import SemanticTransport
from stream_masker.core.batch import Batch, Column
from stream_masker.core.mechanisms.transport import model
from stream_masker.core.mechanisms.transport.model import EVERY
from stream_masker.core.ontology import Ontology
from stream_masker.core.random import PositionKeys
from stream_masker.core.risk.risk import limited_groups
from stream_masker.core.statistics import compute_statistics, count_batch
from stream_masker.errors import ParameterError, StatisticsError

SEED = b"a seed of many bytes"
CERTAINTY = 0.5


def tree(size=60, seed=3):
    rng = np.random.default_rng(seed)
    return Ontology.from_edges([(f"c{k}", f"c{rng.integers(0, k)}") for k in range(1, size)]).taxonomy()


TAU = tree()


def related(seed=5, size=6000):
    """(2, size) codes: the second is often near the first, and some pairs are rare."""
    rng = np.random.default_rng(seed)
    a = rng.choice(30, size, p=np.arange(30, 0, -1) / 465)
    return np.array([a, np.where(rng.random(size) < 0.6, (a * 7) % 40, rng.integers(0, 40, size))], np.int32)


def listed(seed=2, size=4000):
    """Scalars, with 0 to 3 different elements that are related to them."""
    rng = np.random.default_rng(seed)
    a, lengths = rng.choice(30, size, p=np.arange(30, 0, -1) / 465), rng.integers(0, 4, size)
    elements = [
        rng.permutation(np.unique([(x * 7) % 40, *rng.integers(0, 40, 5)]))[:n] for x, n in zip(a, lengths, strict=True)
    ]
    codes = np.concatenate(elements).astype(np.int32)
    return Batch(size, (Column(a.astype(np.int32)), Column(codes, np.concatenate([[0], np.cumsum(lengths)]))))


def calibrated(batch, tau=TAU, **parameters):
    names = [f"x{j}" for j in range(len(batch.columns))]
    return in_force(SemanticTransport(dict.fromkeys(names, tau), seed=SEED, **parameters), batch)


@pytest.fixture(scope="module")
def lists():
    return calibrated(listed())


def masked(made, batch, repeat=0):
    return made.mask_batch(batch, PositionKeys(b"secret %d of many bytes" % repeat, "t", 0, np.arange(batch.size)))


def correlations(made, batch):
    counts = count_batch(batch, [len(d.taxonomy) for d in made.distances])
    return compute_statistics(counts, made.attributes, made.distances, version=1).correlation


def rmse_ratios(found):
    return [np.sqrt(d.squared_distance / d.squared_noise) for d in found.distortions]


def told(made, j):
    """What all masks tell of attribute j: the chance of the best guess, the greatest posterior, the greatest prior."""
    law = made._prepared_statistics().laws[j]
    blocks, _ = law.blocks()
    surest = max(float((each.max(axis=0) / np.maximum(each.sum(axis=0), 1e-300)).max()) for each in blocks)
    assert sum(each.sum() for each in blocks) == pytest.approx(1.0, abs=1e-6)
    return sum(each.max(axis=0).sum() for each in blocks), surest, sum(each.sum(axis=1) for each in blocks).max()


def test_figures_of_drawn_masks_are_wrong_by_their_error_at_most(lists, monkeypatch):
    """Only what is drawn adds to it: of the first attribute, the masks of records without elements."""
    monkeypatch.setattr(model, "DRAWN_MASKS", 1 << 20)
    exact = lists.risk().record
    monkeypatch.setattr(model, "DRAWN_MASKS", 80)
    drawn = lists.risk().record
    for name, found in drawn.items():
        assert exact[name].error == 0.0 < found.error
        assert found.vulnerability == pytest.approx(exact[name].vulnerability, abs=found.error)
    assert drawn["x0"].error < 0.11


@pytest.mark.exhaustive
def test_the_real_pairs():
    tau, batch = icd9cm().taxonomy(), as_batch(real_pairs())
    made = calibrated(batch, tau)
    after = masked(made, batch)
    assert max(rmse_ratios(after)) <= 1.05
    found, before = correlations(made, Batch(batch.size, after.columns))[0, 1], made.statistics.correlation[0, 1]
    assert found == pytest.approx(before, abs=0.005)
    for j in (0, 1):
        vulnerability, surest, _ = told(made, j)
        assert vulnerability <= 0.35
        assert surest <= CERTAINTY


def test_pairs_keep_their_law_and_move_by_alpha():
    batch = as_batch(related())
    made = calibrated(batch, alpha=0.3, certainty=1.0)
    assert made.promise is None
    found = [masked(made, batch, k) for k in range(10)]
    assert rmse_ratios(found[0]) == pytest.approx([1.0, 1.0], abs=0.02)
    after = [correlations(made, Batch(batch.size, each.columns))[0, 1] for each in found]
    assert np.mean(after) == pytest.approx(made.statistics.correlation[0, 1], abs=0.01)
    for j in (0, 1):
        shares = np.mean([np.bincount(each.columns[j].codes, minlength=60) for each in found], axis=0) / batch.size
        np.testing.assert_allclose(shares, np.bincount(batch.columns[j].codes, minlength=60) / batch.size, atol=0.005)


def test_a_pattern_of_few_patients_is_masked_independently_of_its_codes():
    a, b = related()
    b[:3], a[:3] = -1, (27, 28, 29)
    batch = as_batch(np.array([a, b]))
    made = calibrated(batch)
    alone = Batch(6000, (Column(np.repeat(a[:3], 2000)), Column(np.full(6000, -1, np.int32))))
    shares = [np.bincount(each, minlength=60) / 2000 for each in masked(made, alone).columns[0].codes.reshape(3, 2000)]
    assert np.abs(shares[0] - shares[1]).max() < 0.06
    assert np.abs(shares[0] - shares[2]).max() < 0.06


def test_a_rare_pair_cannot_be_told_from_another_one_of_its_blocks():
    """Two windows that differ in the pair of one patient have one law of masks."""
    common = [(1, 2, 200), (1, 5, 200), (4, 2, 200), (4, 5, 100)]
    tau = Ontology.from_edges([("p", "r"), ("q", "p"), *((f"c{k}", "q") for k in range(6))]).taxonomy()
    place = tau.encode([f"c{k}" for k in range(6)])

    def target(rare):
        pairs = np.array([(x, y) for x, y, n in [*common, (*rare, 1)] for _ in range(n)]).T
        made = calibrated(as_batch(place[pairs].astype(np.int32)), tau)
        transport = map_in_force(made)
        assert not transport.map.law.target[transport.map.law.values[0].positions == place[3]].any()
        return {
            (int(x), int(y)): float(transport.map.law.target[i, j])
            for i, x in enumerate(transport.map.law.values[0].positions)
            for j, y in enumerate(transport.map.law.values[1].positions)
            if transport.map.law.target[i, j] > 0.0
        }

    assert target((3, 2)) == pytest.approx(target((3, 5)), abs=1e-5)


def test_a_sensitive_group_is_hidden_at_its_limit():
    batch, group = as_batch(related()), ["c7", "c14", "c21"]
    groups = {"rare": {"limit": 0.2, "roots": group}}
    inside = limited_groups(groups, {"x": TAU})[0]["rare"][0]
    surest = []
    for parameters in ({}, {"sensitive": groups}):
        made = calibrated(batch, alpha=0.3, **parameters)
        rows = inside[made._counts.values[1].keys]
        prior = made._counts.values[1].counts[rows].sum() / batch.size
        law = made._prepared_statistics().laws[1]
        rows = inside[law.positions]
        blocks, _ = law.blocks()
        surest.append(max(float((each[rows].sum(axis=0) / each.sum(axis=0)).max()) for each in blocks))
    assert surest[1] <= max(0.2, prior) * (1 + 1e-6) < surest[0]


def three_scalars():
    rng, (a, b) = np.random.default_rng(9), related()
    c = np.where(rng.random(a.size) < 0.5, a, rng.integers(0, 30, a.size))
    return as_batch(np.array([a, np.where(rng.random(a.size) < 0.2, -1, b), c], np.int32))


@pytest.mark.parametrize(("make", "tolerance"), [(listed, 0.03), (three_scalars, 0.02)])
def test_further_attributes_keep_their_law_with_the_root_and_the_promise(make, tolerance):
    batch = make()
    made = calibrated(batch)
    after = [masked(made, batch, k) for k in range(5)]
    found = np.mean([correlations(made, Batch(batch.size, each.columns)) for each in after], axis=0)
    assert found[0, 1:] == pytest.approx(made.statistics.correlation[0, 1:], abs=tolerance)
    assert all(told(made, j)[1] <= CERTAINTY * (1 + 1e-5) for j in range(len(batch.columns)))
    moved = np.array(list(made.risk().rmse.values())) / np.sqrt(np.diag(made.statistics.covariance))
    assert rmse_ratios(after[0]) == pytest.approx(moved, rel=0.03)
    for column in after[0].columns:
        for start, end in pairwise([] if column.offsets is None else column.offsets.tolist()):
            assert len(set(column.codes[start:end])) == end - start


def test_independent_elements_tell_no_more_of_the_root_than_its_mask():
    """The attacker counts how often each root led to all masks of a record, of which the elements differ."""
    rng, laws = np.random.default_rng(1), np.random.default_rng(2).dirichlet(np.full(20, 1.0), 8)
    roots, lengths = rng.choice(8, 8000, p=np.arange(8, 0, -1) / 36), rng.integers(1, 4, 8000)
    elements = np.concatenate(
        [rng.choice(20, n, replace=False, p=laws[a]) for a, n in zip(roots, lengths, strict=True)]
    )
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    batch = Batch(8000, (Column((20 + roots).astype(np.int32)), Column((40 + elements).astype(np.int32), offsets)))
    made, seen = calibrated(batch, alpha=0.3, certainty=0.4), Counter()
    for k in range(10):
        first, second = masked(made, batch, k).columns
        for root, mask, start, end in zip(roots.tolist(), first.codes.tolist(), offsets, offsets[1:], strict=False):
            seen[mask, tuple(sorted(second.codes[start:end].tolist())), root] += 1
    totals = Counter()
    for (mask, others, _), count in seen.items():
        totals[mask, others] += count
    shares = {(count / totals[a, b], totals[a, b]) for (a, b, _), count in seen.items() if totals[a, b] >= 100}
    assert len(shares) > 20
    assert max(share - 2.0 / np.sqrt(total) for share, total in shares) <= 0.4


SEX = {"sex": ["F", "M"]}


def people(records, seed=3):
    """Records whose first codes depend on sex."""
    rng, (a, b) = np.random.default_rng(seed), related(seed, records)
    rows = zip(a.tolist(), b.tolist(), rng.choice(["F", "M"], records).tolist(), strict=True)
    return [{"x": f"c{x + 30 * (sex == 'M') - (x == 29)}", "y": f"c{y}", "sex": sex} for x, y, sex in rows]


def with_context(records):
    return trained(SemanticTransport({"x": TAU, "y": TAU}, context=SEX, window=100_000, seed=SEED), records)


def test_each_context_keeps_its_law_and_its_promise():
    records = people(6000)
    made = with_context(records)
    masks = made.mask_many(records, keys=[b"%d" % k for k in range(6000)])
    before = {(r["sex"], r["x"]) for r in records}
    assert all((r["sex"], m["x"]) in before for r, m in zip(records, masks, strict=True))
    assert told(made, 0)[1] <= CERTAINTY
    assert made.mask_one(records[7], key=b"7") == masks[7]


def test_a_context_of_few_records_takes_the_map_of_all():
    records = people(3000)
    for record in records[:50]:
        record.update(x="c1", y="c2", sex="other")
    made = with_context(records)
    maps = made._prepared_statistics()
    assert maps.maps(2, 0) is maps.maps(EVERY, 0)
    assert maps.maps(0, 0) is not maps.maps(1, 0)
    (mask,) = made.mask_many([{"x": "c9", "y": "c10", "sex": "unheard of"}], keys=[b"1"])
    assert all(mask.values())


def test_a_context_whose_codes_never_meet_takes_the_map_of_all():
    """In it c1 and c2, c30 and c31 are each of two patients; but no record of the window has one of each."""
    rng = np.random.default_rng(1)
    records = [
        {"x": f"c{x}", "y": [f"c{rng.integers(30, 32) if x >= 10 else x}"], "sex": "F"}
        for x in rng.integers(1, 20, 3000)
    ]
    rare = [
        ("c1", "c45"),
        ("c1", "c46"),
        ("c2", "c47"),
        ("c2", "c48"),
        *((f"c{41 + k}", f"c{30 + k // 2}") for k in range(4)),
    ]
    maps = with_context([*records, *({"x": x, "y": [y], "sex": "M"} for x, y in rare)])._prepared_statistics()
    assert maps.maps(1, 0) is maps.maps(EVERY, 0)


def test_a_context_without_one_of_many_attributes_is_masked():
    """With more than twelve attributes, missing ones are not distinguished."""
    names, rng = [f"x{j}" for j in range(13)], np.random.default_rng(0)
    records = [{**{name: f"c{rng.integers(0, 9)}" for name in names}, "sex": "F"} for _ in range(1000)]
    for record in records[:5]:
        record.update(x1=None, sex="M")
    made = trained(SemanticTransport(dict.fromkeys(names, TAU), context=SEX, window=1000, seed=SEED), records)
    (mask,) = made.mask_many(records[:1], keys=[b"1"])
    assert [name for name in names if mask[name] is None] == ["x1"]


def test_an_alpha_beyond_what_the_window_allows_moves_values_less():
    batch = as_batch(related())
    ratios = rmse_ratios(masked(calibrated(batch, alpha=8.0), batch))
    assert 0.3 < min(ratios) <= max(ratios) < 0.9


def test_values_that_the_window_lacks_are_masked_by_values_of_the_window():
    codes = related()
    found = masked(calibrated(as_batch(codes)), as_batch(np.array([[59] * 200, [58] * 200], np.int32)))
    for column, window in zip(found.columns, codes, strict=True):
        assert 1 < len(set(column.codes.tolist())) <= len(set(column.codes.tolist()) & set(window.tolist()))


def test_rare_values_beyond_the_greatest_number_count_as_the_nearest(monkeypatch):
    monkeypatch.setattr(SemanticTransport, "most_values", 10)
    codes = related()
    made = calibrated(as_batch(codes))
    frequent = set(np.argsort(-np.bincount(codes[0]), kind="stable")[:10].tolist())
    assert set(masked(made, as_batch(codes)).columns[0].codes.tolist()) <= frequent
    assert told(made, 0)[1] <= CERTAINTY


def test_the_next_version_changes_few_masks():
    codes = related(size=8000)
    batch = as_batch(codes[:, :6000])
    made = calibrated(batch)
    counts = count_batch(as_batch(codes[:, 60:6060]), [60, 60])
    later = made.with_statistics(made.compute(counts, version=2), counts)
    same = [
        (first.codes == second.codes).mean()
        for first, second in zip(masked(made, batch).columns, masked(later, batch).columns, strict=True)
    ]
    assert min(same) > 0.9
    assert rmse_ratios(masked(later, batch)) == pytest.approx(rmse_ratios(masked(made, batch)), abs=0.03)


@pytest.mark.parametrize("damage", range(6))
def test_a_damaged_model_is_rejected(lists, damage):
    for value in (None, "AAAA", [[1]]):
        snapshot = json.loads(json.dumps(lists.snapshot()))
        snapshot["statistics"]["model"]["strata"][0][-1][0][damage] = value
        with pytest.raises(StatisticsError):
            lists.restore(snapshot)


def test_two_scalars_beside_empty_lists_are_masked_as_a_pair():
    lists, (_, b) = listed(), related(size=4000)
    batch = Batch(4000, (lists.columns[0], Column(b), lists.columns[1]))
    after = masked(calibrated(batch), batch)
    assert all((column.codes >= 0).all() for column in after.columns)


FEW, CONSTANT = np.arange(20).reshape(2, 10), np.array([[1, 2] * 50, [3] * 100])
BARE = Batch(2, tuple(Column(np.zeros(2, np.int32)) for _ in range(2)))


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: calibrated(as_batch(FEW), least=50), StatisticsError, "use a smaller least"),
        (lambda: calibrated(as_batch(CONSTANT)), StatisticsError, "x1: all values are equal"),
        (lambda: masked(calibrated(as_batch(related(size=900))), listed()), StatisticsError, "calibrate with lists"),
        (lambda: masked(with_context(people(1000)), BARE), ParameterError, "no context"),
        (
            lambda: SemanticTransport({"x": TAU, "y": TAU}, seed=SEED).restore(with_context(people(1000)).snapshot()),
            StatisticsError,
            "contexts",
        ),
    ],
)
def test_what_cannot_be_masked_is_refused(call, error, message):
    with pytest.raises(error, match=message):
        call()
