"""Semantic transport on the public API: what it preserves, its targets, rare tuples, arrays and restored models."""

from __future__ import annotations

import json
import pickle

import numpy as np
import pytest
from support.data import icd9cm
from support.real_codes import as_batch, real_pairs, strong_sample
from support.single_calls import check_single_calls

from stream_masker import SemanticTransport
from stream_masker.core.batch import Batch, Column
from stream_masker.core.mechanisms.transport import values as values_module
from stream_masker.core.ontology import Ontology
from stream_masker.core.random import FieldKeys, PositionKeys
from stream_masker.core.statistics import compute_statistics, count_batch
from stream_masker.errors import ParameterError, StatisticsError, StreamMaskerError

SEED = b"a seed of many bytes"


@pytest.fixture(scope="module")
def tau():
    rng = np.random.default_rng(3)
    return Ontology.from_edges([(f"c{k}", f"c{rng.integers(0, k)}") for k in range(1, 60)]).taxonomy()


def related(rng, size=6000):
    """(2, size) codes: the second is often near the first, and some tuples are rare."""
    a = rng.choice(30, size, p=np.arange(30, 0, -1) / 465)
    b = np.where(rng.random(size) < 0.6, (a * 7) % 40, rng.integers(0, 40, size))
    return np.array([a, b], np.int32)


@pytest.fixture(scope="module")
def codes():
    return related(np.random.default_rng(5))


def calibrated(tau, batch, **parameters):
    names = [f"x{j}" for j in range(len(batch.columns))]
    made = SemanticTransport(dict.fromkeys(names, tau), seed=SEED, **{"least": 1, **parameters})
    made.restore(made.snapshot_of(made.compute(count_batch(batch, [len(tau)] * len(names)), version=1)))
    return made


def masked(made, batch, repeats=1):
    keys = [PositionKeys(b"secret %d of many bytes" % k, "t", 0, np.arange(batch.size)) for k in range(repeats)]
    return [made.mask_batch(batch, each) for each in keys]


def statistics_of(made, batch):
    sizes = [len(d.taxonomy) for d in made.distances]
    return compute_statistics(count_batch(batch, sizes), made.attributes, made.distances, version=1)


def rmse(found, j):
    return np.sqrt(sum(m.distortions[j].squared_distance for m in found) / sum(m.distortions[j].values for m in found))


def pairs_of(batch, size):
    """(n,) int64: a number for the pair of each record."""
    a, b = (column.codes.astype(np.int64) for column in batch.columns)
    return a * size + b


def shares(batch, size):
    return np.bincount(pairs_of(batch, size), minlength=size * size) / batch.size


def check_bars(made, batch, repeats):
    """The bars of the mechanism: law, correlation, mean, dispersion and distance."""
    found = masked(made, batch, repeats)
    before = made.statistics
    after = [statistics_of(made, Batch(batch.size, m.columns)) for m in found]
    assert abs(np.mean([s.correlation[0, 1] for s in after]) - before.correlation[0, 1]) <= 0.006
    for j, name in enumerate(made.attributes):
        assert {s.mean[name] for s in after} == {before.mean[name]}
        assert np.mean([s.variance[name] for s in after]) == pytest.approx(before.variance[name], rel=0.01)
        assert rmse(found, j) == pytest.approx(np.sqrt(made._prepared.noise[j]), abs=0.005)


def at_each_alpha(*cases):
    """Parametrize by cases that begin with an alpha: 0.1 and 1 for ``.ci/run``, those between them for the schedule."""
    marks = pytest.mark.scheduled, pytest.mark.exhaustive
    return [pytest.param(*case, marks=marks[case[0] in (0.1, 1.0)]) for case in cases]


@pytest.mark.parametrize("alpha", at_each_alpha((0.1,), (0.3,), (0.5,), (1.0,)))
def test_the_bars_on_the_strong_sample(alpha):
    tau = icd9cm().taxonomy()
    batch = as_batch(strong_sample(real_pairs(), tau))
    check_bars(calibrated(tau, batch, target={"alpha": alpha}), batch, 20)


@pytest.mark.parametrize(("alpha", "greatest"), at_each_alpha((0.1, 0.79), (0.3, 0.62), (0.5, 0.54), (1.0, 0.40)))
def test_the_bars_on_all_discharges(alpha, greatest):
    tau = icd9cm().taxonomy()
    batch = as_batch(real_pairs())
    made = calibrated(tau, batch, target={"alpha": alpha})
    check_bars(made, batch, 1)
    assert made.disclosure().given_record["x0"] < greatest


def test_masked_records_have_the_law_of_the_window(tau, codes):
    batch = as_batch(codes)
    made = calibrated(tau, batch, target={"alpha": 0.5})
    found = np.mean([shares(Batch(batch.size, m.columns), len(tau)) for m in masked(made, batch, 20)], axis=0)
    wanted = shares(batch, len(tau))
    assert np.abs(found - wanted).max() < 5 * np.sqrt(wanted.max() / (20 * batch.size))
    assert not found[wanted == 0.0].any()


@pytest.mark.parametrize("target", [{"rmse": 0.2}, {"rmse": {"x0": 0.15, "x1": 0.25}}])
def test_an_rmse_is_met(tau, codes, target):
    batch = as_batch(codes)
    found = masked(calibrated(tau, batch, target=target), batch, 5)
    wanted = target["rmse"] if isinstance(target["rmse"], dict) else {"x0": 0.2, "x1": 0.2}
    assert [rmse(found, j) for j in range(2)] == pytest.approx(list(wanted.values()), abs=0.005)


def test_an_alpha_beyond_what_the_window_allows_is_counted_as_truncated(tau, codes):
    batch = as_batch(codes)
    made = calibrated(tau, batch, target={"alpha": 8.0})
    (found,) = masked(made, batch)
    assert [d.truncated for d in found.distortions] == [batch.size, batch.size]
    assert rmse([found], 0) < 0.9 * np.sqrt(found.distortions[0].squared_noise / batch.size)
    assert made.statistics.model["truncated"] == ["x0", "x1"]
    (within,) = masked(calibrated(tau, batch), batch)
    assert [d.truncated for d in within.distortions] == [0, 0]


def test_a_vulnerability_is_met(tau, codes):
    figures = calibrated(tau, as_batch(codes), target={"vulnerability": 0.5}).disclosure()
    assert max(figures.given_record.values()) == pytest.approx(0.5, abs=0.002)


def test_an_epsilon_is_met(tau, codes):
    assert calibrated(tau, as_batch(codes), target={"epsilon": 6.0}).disclosure().epsilon_of_record == pytest.approx(
        6.0, rel=0.002
    )


@pytest.mark.parametrize("target", [{"rmse": 0.95}, {"vulnerability": 0.002}])
def test_an_unreachable_target_states_the_range(tau, codes, target):
    with pytest.raises(StatisticsError, match=r"cannot be met: .*this window allows .*\d\.\d+"):
        calibrated(tau, as_batch(codes), target=target)


def test_no_rare_tuple_is_written_and_the_statistics_stay_nearer_than_without_them(tau, codes):
    batch = as_batch(codes)
    made = calibrated(tau, batch, target={"alpha": 0.3}, least=5)
    counts = np.round(shares(batch, len(tau)) * batch.size)
    assert ((counts > 0) & (counts < 5)).sum() > 100
    for result in masked(made, batch, 3):
        assert not shares(Batch(batch.size, result.columns), len(tau))[counts < 5].any()


@pytest.mark.parametrize("least", [2, *(pytest.param(least, marks=pytest.mark.scheduled) for least in (3, 5))])
@pytest.mark.exhaustive
def test_rare_pairs_move_to_near_ones_so_that_the_correlation_stays(least):
    """A tenth of the real pairs is rarer than 2. Without them, the correlation is 0.010 higher.

    Scheduled: pairs that need more records.
    """
    tau, batch = icd9cm().taxonomy(), as_batch(real_pairs())
    pairs, records = np.unique(pairs_of(batch, len(tau)), return_counts=True)
    made = calibrated(tau, batch, least=least)
    after = Batch(batch.size, masked(made, batch)[0].columns)
    assert np.isin(pairs_of(after, len(tau)), pairs[records >= least]).all()
    correlation = statistics_of(made, after).correlation[0, 1]
    assert correlation == pytest.approx(made.statistics.correlation[0, 1], abs=0.006)


def test_rows_of_one_noise_key_count_once(tau):
    """Six rows of a pair are of one patient: the pair is never written, unlike one of six patients."""
    common = [{"x0": f"c{k % 5}", "x1": f"c{k % 7}"} for k in range(700)]
    rare = [{"x0": "c40", "x1": "c41"}] * 6
    keys = [b"patient %d" % k for k in range(700)]

    def written(keys_of_rare):
        made = SemanticTransport({"x0": tau, "x1": tau}, seed=SEED, least=2, window=1000)
        made.learn_many([*common, *rare], keys=[*keys, *keys_of_rare])
        made.calibrate()
        solved = made._prepared_statistics().solution()
        given = solved.problem
        values = made._prepared_statistics().values
        pairs = set(zip(values[0].positions[given.table.rows], values[1].positions[given.table.columns], strict=True))
        assert tuple(tau.encode(["c40", "c41"])) in pairs
        return int((solved.psi > 0.0).sum())

    assert written([b"patient %d" % k for k in range(1000, 1006)]) == written([b"one"] * 6) + 1


def test_a_window_of_rare_tuples_is_rejected(tau):
    with pytest.raises(StatisticsError, match="use a smaller least"):
        calibrated(tau, as_batch(np.arange(20, dtype=np.int32).reshape(2, 10)), least=50)


def test_one_attribute_keeps_its_law(tau, codes):
    batch = Batch(codes.shape[1], (Column(codes[0].copy()),))
    made = calibrated(tau, batch)
    found = np.mean(
        [np.bincount(m.columns[0].codes, minlength=len(tau)) / batch.size for m in masked(made, batch, 20)], axis=0
    )
    np.testing.assert_allclose(found, np.bincount(codes[0], minlength=len(tau)) / batch.size, atol=0.004)
    assert rmse(masked(made, batch, 5), 0) == pytest.approx(np.sqrt(made._prepared.noise[0]), abs=0.005)


def array_batch(rng, size=4000):
    """Scalars with 0 to 3 elements that are related to them."""
    a = rng.choice(8, size, p=np.arange(8, 0, -1) / 36).astype(np.int32)
    lengths = rng.integers(0, 4, size)
    owners = np.repeat(a, lengths)
    elements = np.where(rng.random(owners.size) < 0.5, owners, rng.integers(0, 8, owners.size)).astype(np.int32)
    return Batch(size, (Column(a), Column(elements, np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64))))


def test_arrays_keep_the_law_of_their_rows(tau):
    batch = array_batch(np.random.default_rng(2))
    made = calibrated(tau, batch)
    found = masked(made, batch, 10)
    after = [statistics_of(made, Batch(batch.size, m.columns)) for m in found]
    before = made.statistics
    assert np.mean([s.correlation[0, 1] for s in after]) == pytest.approx(before.correlation[0, 1], abs=0.01)
    for j in range(2):
        assert rmse(found, j) == pytest.approx(np.sqrt(made._prepared.noise[j]), abs=0.006)


def test_the_bound_of_what_changes_holds_for_every_attribute(tau, codes):
    """It is the share itself; that of a child lacks the rarest pairs of its root's values."""
    scalars = [*codes, np.roll(codes[1], 1)]
    elements = Column(scalars[2], np.arange(0, scalars[2].size + 1, 2))
    columns = (*(Column(np.ascontiguousarray(column[::2])) for column in scalars[:2]), elements)
    batch = Batch(len(codes[0]) // 2, columns)
    counts = count_batch(batch, [len(tau)] * 3)
    made = calibrated(tau, batch).with_statistics(calibrated(tau, batch).statistics, counts)
    unchanged = made.risk(draws=10).unchanged
    for j, share in enumerate(unchanged.values()):
        bound = made.changed_at_least(j, counts)
        assert 1.0 - share - 0.01 < bound <= 1.0 - share + 1e-4


@pytest.mark.parametrize("alpha", [0.5, 1.0])
def test_three_attributes_keep_the_law_of_the_links_of_their_star(tau, codes, alpha):
    rng = np.random.default_rng(9)
    a, b = codes % 8
    c = np.where(rng.random(a.size) < 0.5, a, rng.integers(0, 8, a.size)).astype(np.int32)
    batch = Batch(a.size, (*as_batch(np.array([a, b])).columns, Column(c)))
    made = calibrated(tau, batch, target={"alpha": alpha})
    star = made.statistics.model["star"]
    assert star["root"] == "x0"
    assert [edge["child"] for edge in star["edges"]] == ["x1", "x2"]
    after = [statistics_of(made, Batch(batch.size, m.columns)) for m in masked(made, batch, 10)]
    for link in ((0, 1), (0, 2)):
        assert np.mean([s.correlation[link] for s in after]) == pytest.approx(
            made.statistics.correlation[link], abs=0.01
        )
    assert rmse(masked(made, batch, 5), 0) == pytest.approx(np.sqrt(made._prepared.noise[0]), abs=0.006)
    for j in range(3):
        assert rmse(masked(made, batch, 5), j) >= np.sqrt(made._prepared.noise[j]) - 0.006
        assert np.mean([s.variance[made.attributes[j]] for s in after]) == pytest.approx(
            made.statistics.variance[made.attributes[j]], rel=0.01
        )


def test_values_that_the_window_lacks_are_masked(tau, codes):
    made = calibrated(tau, as_batch(codes))
    new = as_batch(np.array([[59] * 200, [58] * 200], np.int32))
    found = masked(made, new)[0]
    window = [set(column.tolist()) for column in codes]
    for column, known in zip(found.columns, window, strict=True):
        assert set(column.codes.tolist()) <= known
        assert len(set(column.codes.tolist())) > 1


def test_a_value_with_an_absent_partner_is_masked_alone(tau, codes):
    made = calibrated(tau, as_batch(codes))
    alone = Batch(3000, (Column(codes[0, :3000].copy()), Column(np.full(3000, -1, np.int32))))
    found = masked(made, alone, 5)
    assert all((m.columns[1].codes == -1).all() and (m.columns[0].codes >= 0).all() for m in found)
    assert rmse(found, 0) == pytest.approx(np.sqrt(made._prepared.noise[0]), abs=0.01)


def test_rare_values_beyond_the_greatest_number_count_as_the_nearest(tau, codes, monkeypatch):
    monkeypatch.setattr(values_module, "MAX_WRITTEN_VALUES", 10)
    made = calibrated(tau, as_batch(codes))
    frequent = set(np.argsort(-np.bincount(codes[0], minlength=len(tau)), kind="stable")[:10].tolist())
    assert set(masked(made, as_batch(codes))[0].columns[0].codes.tolist()) == frequent


def test_the_channel_is_what_masking_does(tau, codes):
    batch = as_batch(codes)
    made = calibrated(tau, batch)
    value = int(np.bincount(codes[1]).argmax())
    row = made.channel("x1", tau.ids[value])
    assert sum(row.values()) == pytest.approx(1.0, abs=1e-9)
    chosen = codes[1] == value
    found = np.zeros(len(tau))
    for result in masked(made, batch, 30):
        found += np.bincount(result.columns[1].codes[chosen], minlength=len(tau))
    found /= found.sum()
    wanted = np.zeros(len(tau))
    wanted[tau.encode(list(row))] = list(row.values())
    assert np.abs(found - wanted).max() < 0.02


def test_a_restored_model_masks_alike(tau, codes):
    batch = as_batch(codes)
    made = calibrated(tau, batch, least=3)
    other = SemanticTransport(dict.fromkeys(made.attributes, tau), seed=SEED, least=3)
    other.restore(json.loads(json.dumps(made.snapshot())))
    first, second = (masked(each, batch)[0] for each in (made, other))
    for one, two in zip(first.columns, second.columns, strict=True):
        np.testing.assert_array_equal(one.codes, two.codes)


@pytest.mark.parametrize("damage", ["tuples", "counts", "scale", "exponents", "kernels", "factors", "written"])
def test_a_damaged_model_is_rejected(tau, codes, damage):
    made = calibrated(tau, as_batch(codes))
    snapshot = json.loads(json.dumps(made.snapshot()))
    snapshot["statistics"]["model"]["pair"][damage] = "AAAA"
    with pytest.raises(StatisticsError):
        made.restore(snapshot)


@pytest.mark.parametrize("given", [["x7"], "x0", 1])
def test_truncated_attributes_of_a_damaged_model_are_rejected(tau, codes, given):
    made = calibrated(tau, as_batch(codes))
    snapshot = json.loads(json.dumps(made.snapshot()))
    snapshot["statistics"]["model"]["truncated"] = given
    with pytest.raises(StatisticsError, match="truncated"):
        made.restore(snapshot)


def test_a_warm_start_finds_the_same_transport(tau, codes):
    made = calibrated(tau, as_batch(codes))
    slid = count_batch(
        as_batch(np.concatenate([codes[:, 300:], related(np.random.default_rng(7), 300)], axis=1)), [60, 60]
    )
    warm, cold = (
        made.compute(slid, version=2),
        SemanticTransport(dict.fromkeys(made.attributes, tau), seed=SEED, least=1).compute(slid, version=1),
    )
    figures = [made.with_statistics(s, slid).disclosure() for s in (warm, cold)]
    for name in made.attributes:
        assert figures[0].rmse[name] == pytest.approx(figures[1].rmse[name], rel=0.005)
        assert figures[0].given_record[name] == pytest.approx(figures[1].given_record[name], abs=0.01)


def test_noise_levels_of_single_records_are_rejected(tau, codes):
    made = calibrated(tau, as_batch(codes))
    one = as_batch(codes[:, :1])
    with pytest.raises(ParameterError, match="semantic_transport has one noise level"):
        made.mask_batch(Batch(1, one.columns, np.array([0.5])), FieldKeys(SEED, [b"k"]))


@pytest.mark.parametrize("count", [1, 2, 3])
def test_a_single_call_writes_what_a_batch_does(tau, codes, count):
    batch = Batch(6000, tuple(Column(column) for column in (*codes, codes[1])[:count]))
    made = calibrated(tau, batch)
    records = made.decode(batch, made.mask_batch(batch, FieldKeys(SEED, [b""] * 6000)))[:300]
    records += [dict.fromkeys(made.attributes), dict.fromkeys(made.attributes, "c59")]
    records += [{**records[0], "x0": None}, {**records[0], "other": 1}]
    check_single_calls(made, records)


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_a_single_call_with_a_list_writes_what_a_batch_does(tau, codes, order):
    offsets = np.arange(0, 6001, 3)
    columns = [Column(codes[0, :2000]), Column(codes[1], offsets)]
    batch = Batch(2000, tuple(columns[j] for j in order))
    made = calibrated(tau, batch)
    records = made.decode(batch, made.mask_batch(batch, FieldKeys(SEED, [b""] * 2000)))[:300]
    root, child = (made.attributes[j] for j in order)
    records += [{root: "c59", child: ["c0", "c58", "c59"]}, {root: "c1", child: []}, {root: None, child: ["c1"]}]
    records += [{root: ["c1", "c2"], child: "c3"}, {root: ["c1"], child: ["c3"]}]
    check_single_calls(made, records)
    check_single_calls(pickle.loads(pickle.dumps(made)), records)


def test_a_single_call_refuses_what_a_batch_refuses(tau, codes):
    made = calibrated(tau, as_batch(codes))
    good = {"x0": "c1", "x1": "c2"}
    for record in [{"x0": "c1", "X1": "c2"}, {**good, "x1": ["c2"]}, {**good, "x1": "no"}, {**good, "x0": 4}, "x0", []]:
        with pytest.raises(StreamMaskerError) as single:
            made.mask_one(record, key=b"key")
        with pytest.raises(StreamMaskerError) as many:
            made.mask_many([record], keys=[b"key"])
        assert str(single.value) == str(many.value)
    with pytest.raises(ParameterError, match=r"keys\[0\] is of type str"):
        made.mask_one(good, key="key")
