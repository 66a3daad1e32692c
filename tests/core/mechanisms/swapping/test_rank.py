"""Rank swapping and its baselines as mechanisms: what they preserve, which values they swap, and their errors."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.graphs import taxonomies

from stream_masker.core.batch import ABSENT, Batch, Column
from stream_masker.core.distance import WuPalmer
from stream_masker.core.mechanisms.swapping import rank
from stream_masker.core.mechanisms.swapping.data import DataSwapping
from stream_masker.core.mechanisms.swapping.interval import DistributionalRankSwapping
from stream_masker.core.mechanisms.swapping.rank import RankSwapping
from stream_masker.core.ontology import Ontology
from stream_masker.core.random import PositionKeys
from stream_masker.core.statistics import distance_variance, semantic_mean
from stream_masker.errors import ParameterError

SEED = b"sixteen bytes of it"

VARIANTS = {
    "algorithm 1": lambda taus, **more: RankSwapping(taus, intervals="fixed", seed=SEED, **more),
    "algorithm 2": lambda taus, **more: RankSwapping(taus, seed=SEED, **more),
    "algorithm 3": lambda taus, **more: RankSwapping(taus, multivariate=True, seed=SEED, **more),
    "distributional": lambda taus, **more: DistributionalRankSwapping(taus, seed=SEED, **more),
    "data swapping": lambda taus, k=None, **more: DataSwapping(taus, seed=SEED, **more),
}


@pytest.fixture(scope="module")
def tau():
    rng = np.random.default_rng(2)
    links = [(f"c{k}", f"c{rng.integers(0, k)}") for k in range(1, 60)]
    return Ontology.from_edges(links).taxonomy()


@pytest.fixture(params=sorted(VARIANTS))
def kind(request):
    return VARIANTS[request.param]


def calibrated(mechanism, records):
    mechanism.learn_many(records)
    mechanism.calibrate()
    return mechanism


def keys(size, secret=SEED):
    return PositionKeys(secret, "t", 0, np.arange(size))


def masked(mechanism, batch, secret=SEED):
    return mechanism.mask_batch(batch, keys(batch.size, secret))


def two_scalars(tau, n, seed=0):
    rng = np.random.default_rng(seed)
    return [{"a": tau.ids[i], "b": tau.ids[j]} for i, j in (rng.random((n, 2)) ** 2 * len(tau)).astype(int)]


@st.composite
def groups(draw):
    """A taxonomy, and records of a scalar and an array, some absent."""
    tau = draw(taxonomies(most=12))
    values = st.integers(0, len(tau) - 1)
    scalars = draw(st.lists(values | st.just(ABSENT), min_size=6, max_size=20))
    arrays = draw(st.lists(st.lists(values, max_size=3), min_size=len(scalars), max_size=len(scalars)))
    scalars[:2], arrays[:3] = [0, 1], [[0, 1], [1], [0]]
    scalars[2:4] = [1, 1]
    offsets = np.concatenate([[0], np.cumsum([len(row) for row in arrays])])
    elements = np.array([c for row in arrays for c in row], np.int32)
    return tau, Batch(len(scalars), (Column(np.array(scalars, np.int32)), Column(elements, offsets.astype(np.int64))))


@given(groups(), st.sampled_from(sorted(VARIANTS)), st.integers(2, 3))
def test_every_attribute_keeps_its_values_exactly(group, name, k):
    tau, batch = group
    mechanism = VARIANTS[name]({"a": tau, "b": tau}, k=k)
    calibrated(mechanism, [{"a": tau.ids[0], "b": [tau.ids[1]]}])
    masked_batch = masked(mechanism, batch)
    for before, after, d in zip(batch.columns, masked_batch.columns, mechanism.distances, strict=True):
        np.testing.assert_array_equal(np.sort(before.codes), np.sort(after.codes))
        np.testing.assert_array_equal(before.codes < 0, after.codes < 0)
        present = before.codes >= 0
        assert semantic_mean(after.codes[present], d) == semantic_mean(before.codes[present], d)
        assert distance_variance(after.codes[present], d) == distance_variance(before.codes[present], d)
    assert masked_batch.columns[1].offsets is batch.columns[1].offsets


@given(groups(), st.sampled_from(sorted(VARIANTS)))
def test_no_element_swaps_within_its_own_record(group, name):
    tau, batch = group
    ids = np.arange(batch.columns[1].codes.size, dtype=np.int32)
    flat = Ontology.from_edges([(f"v{i}", "root") for i in range(ids.size)]).taxonomy()
    elements = flat.encode([f"v{i}" for i in ids])
    mechanism = calibrated(VARIANTS[name]({"a": tau, "b": flat}, k=2), [{"a": tau.ids[0], "b": ["v0"]}])
    masked_batch = masked(mechanism, Batch(batch.size, (batch.columns[0], Column(elements, batch.columns[1].offsets))))
    owners = np.repeat(np.arange(batch.size), np.diff(batch.columns[1].offsets))
    owner_of = dict(zip(elements.tolist(), owners.tolist(), strict=True))
    moved = masked_batch.columns[1].codes != elements
    assert all(
        owner_of[c] != o for c, o in zip(masked_batch.columns[1].codes[moved].tolist(), owners[moved], strict=True)
    )
    assert masked_batch.distortions[1].truncated == np.count_nonzero(~moved)


def test_array_elements_are_separate_attributes_in_algorithm_3(tau):
    rng = np.random.default_rng(4)
    records = [
        {"a": str(rng.choice(tau.ids)), "b": rng.choice(tau.ids, rng.integers(1, 4)).tolist()} for _ in range(60)
    ]
    mechanism = calibrated(VARIANTS["algorithm 3"]({"a": tau, "b": tau}, k=8), records)
    masked_batch = mechanism.mask_many(records, keys=[b"%d" % i for i in range(60)])
    for place in range(3):
        before, after = ([r["b"][place] for r in rows if len(r["b"]) > place] for rows in (records, masked_batch))
        assert Counter(before) == Counter(after)
        assert before != after


def test_elements_at_rare_array_indices_are_swapped(tau):
    ids = tau.ids
    records = [{"a": ids[i], "b": [ids[i], ids[i + 20]]} for i in range(20)]
    records[4]["b"] = list(ids[40:50])
    mechanism = calibrated(VARIANTS["algorithm 3"]({"a": tau, "b": tau}, k=8), records)
    batch, moved = mechanism.encode(records), []
    for secret in range(20):
        masked_batch = masked(mechanism, batch, b"secret %d" % secret)
        elements = mechanism.decode(batch, masked_batch)[4]["b"]
        moved.append(len(set(elements) - set(records[4]["b"])))
        assert moved[-1] >= 10 - masked_batch.distortions[1].truncated
    assert np.mean(moved) >= 5


@pytest.mark.parametrize("name", ["algorithm 2", "algorithm 3"])
def test_large_groups_swap_in_parts(name, tau, monkeypatch):
    rng = np.random.default_rng(6)
    records = [
        {"a": str(rng.choice(tau.ids)), "b": rng.choice(tau.ids, rng.integers(0, 20)).tolist()} for _ in range(150)
    ]
    mechanism = calibrated(VARIANTS[name]({"a": tau, "b": tau}, k=40), records)
    batch = mechanism.encode(records)
    whole = mechanism.mask_batch(batch, keys(150))
    monkeypatch.setattr(rank, "MAX_UNITS", 60)
    parts = mechanism.mask_batch(batch, keys(150))
    for before, once, after, distortion in zip(
        batch.columns, whole.columns, parts.columns, parts.distortions, strict=True
    ):
        assert (once.codes != after.codes).any()
        np.testing.assert_array_equal(np.sort(before.codes), np.sort(after.codes))
        assert distortion.truncated < 0.2 * distortion.values
        assert (before.codes != after.codes).sum() > 0.3 * distortion.values


def test_parts_contain_consecutive_values(tau, monkeypatch):
    monkeypatch.setattr(rank, "MAX_UNITS", 60)
    codes = np.repeat(np.arange(60, dtype=np.int32), 3)
    mechanism = calibrated(VARIANTS["algorithm 2"]({"a": tau}, k=50), two_scalars(tau, 5))
    after = mechanism.mask_batch(Batch(180, (Column(codes),)), keys(180)).columns[0].codes
    np.testing.assert_array_equal(codes // 20, after // 20)
    assert (after != codes).sum() > 100


def test_parts_have_more_than_k_units(tau, monkeypatch):
    monkeypatch.setattr(rank, "MAX_UNITS", 10)
    records = two_scalars(tau, 100)
    for name in ("algorithm 2", "algorithm 3"):
        mechanism = calibrated(VARIANTS[name]({"a": tau, "b": tau}, k=60), records)
        masked_batch = masked(mechanism, mechanism.encode(records))
        assert all(distortion.truncated < 50 for distortion in masked_batch.distortions)


def test_masks_depend_only_on_the_groups_records_and_keys(kind, tau):
    records = two_scalars(tau, 40)
    first = calibrated(kind({"a": tau, "b": tau}), records)
    second = calibrated(kind({"a": tau, "b": tau}), records[:13])
    names = [b"%d" % i for i in range(40)]
    assert first.mask_many(records, keys=names) == second.mask_many(records, keys=names)
    assert first.mask_many(records, keys=names) != first.mask_many(records, keys=names[::-1])


@pytest.mark.parametrize("name", ["algorithm 1", "distributional"])
def test_ranks_of_swapped_values_differ_by_at_most_k(name, tau):
    rng = np.random.default_rng(1)
    codes = (rng.random(200) ** 2 * len(tau)).astype(np.int32)
    batch = Batch(codes.size, (Column(codes), Column(codes)))
    mechanism = calibrated(VARIANTS[name]({"a": tau, "b": tau}, k=3), two_scalars(tau, 5))
    values, counts = np.unique(codes, return_counts=True)
    sums = WuPalmer(tau).between(values, codes).sum(axis=1)
    scores = (WuPalmer(tau).to_all(int(values[sums.argmax()])) if name == "algorithm 1" else np.zeros(len(tau))).copy()
    if name == "distributional":
        scores[values] = counts
    after = masked(mechanism, batch).columns[0].codes
    ordered = np.sort(scores[codes])
    lowest, highest = (np.searchsorted(ordered, scores, side) for side in ("left", "right"))
    assert (lowest[after] <= highest[codes] - 1 + 3).all()
    assert (lowest[codes] <= highest[after] - 1 + 3).all()
    assert (after != codes).any()


def test_data_swapping_draws_values_uniformly():
    flat = Ontology.from_edges([(f"v{i}", "root") for i in range(6)]).taxonomy()
    codes = flat.encode([f"v{i}" for i in range(6)])
    mechanism = calibrated(DataSwapping({"a": flat}, seed=SEED), [{"a": "v0"}, {"a": "v1"}])
    batch = Batch(6, (Column(codes),))
    counts = Counter(int(masked(mechanism, batch, b"secret %d" % i).columns[0].codes[0]) for i in range(2000))
    assert set(counts) == set(codes[1:].tolist())
    assert max(abs(count - 400) for count in counts.values()) < 5 * np.sqrt(400)


def test_records_with_more_than_k_equals_stay(tau):
    """2019, section 4.3: values that are already k-anonymous are not modified (Table 5, k = 2: RMSE 0)."""
    rows = [{"a": f"c{i}", "b": f"c{i + 20}"} for i in range(12) for _ in range(3)]
    mechanism = calibrated(VARIANTS["algorithm 3"]({"a": tau, "b": tau}, k=2), rows)
    names = [b"%d" % i for i in range(len(rows))]
    assert mechanism.mask_many(rows, keys=names) == rows
    wider = calibrated(VARIANTS["algorithm 3"]({"a": tau, "b": tau}, k=3), rows)
    assert wider.mask_many(rows, keys=names) != rows


def test_values_without_a_partner_are_counted(tau):
    records = two_scalars(tau, 41)
    mechanism = calibrated(VARIANTS["algorithm 2"]({"a": tau, "b": tau}, k=2), records)
    masked_batch = masked(mechanism, mechanism.encode(records))
    assert all(distortion.truncated >= 1 for distortion in masked_batch.distortions)
    assert all(distortion.truncated < 41 for distortion in masked_batch.distortions)


def test_an_interval_can_be_a_share_of_the_group(tau):
    records = two_scalars(tau, 50)
    names = [b"%d" % i for i in range(50)]
    by_share = calibrated(RankSwapping({"a": tau, "b": tau}, p=10, seed=SEED), records)
    by_number = calibrated(RankSwapping({"a": tau, "b": tau}, k=5, seed=SEED), records)
    assert by_share.mask_many(records, keys=names) == by_number.mask_many(records, keys=names)
    each = calibrated(RankSwapping({"a": tau, "b": tau}, k={"a": 5, "b": 2}, seed=SEED), records)
    assert [r["a"] for r in each.mask_many(records, keys=names)] == [
        r["a"] for r in by_number.mask_many(records, keys=names)
    ]
    assert each.mask_many(records, keys=names) != by_number.mask_many(records, keys=names)


@pytest.mark.parametrize(("p", "minimum"), [(50, 4), (10, 20), (3, 67), (1.5, 134), (99, 3), (60, 4)])
def test_the_group_minimum_of_a_share(tau, p, minimum):
    mechanism = RankSwapping({"a": tau}, p=p, seed=SEED)
    assert mechanism.group_minimum == minimum
    records = [{"a": tau.ids[i % len(tau)]} for i in range(minimum)]
    calibrated(mechanism, records).mask_many(records, keys=[b"k"] * minimum)
    with pytest.raises(ParameterError, match=str(minimum)):
        mechanism.mask_many(records[1:], keys=[b"k"] * (minimum - 1))


def test_groups_of_k_records_are_rejected(kind, tau):
    records = two_scalars(tau, 12)
    mechanism = calibrated(kind({"a": tau, "b": tau}, k=11), records)
    mechanism.mask_many(records, keys=[b"k"] * 12)
    minimum = mechanism.group_minimum
    assert minimum == (2 if isinstance(mechanism, DataSwapping) else 12)
    with pytest.raises(ParameterError, match=f"at least {minimum} records"):
        mechanism.mask_many(records[: minimum - 1], keys=[b"k"] * (minimum - 1))


def test_an_attribute_with_too_few_values_is_rejected_by_name(kind, tau):
    records = [{"a": row["a"], "b": None} for row in two_scalars(tau, 12)]
    records[3]["b"] = "c1"
    mechanism = calibrated(kind({"a": tau, "b": tau}, k=4), two_scalars(tau, 12))
    with pytest.raises(ParameterError, match="'b'"):
        mechanism.mask_many(records, keys=[b"k"] * 12)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"k": 1}, "from 2 to 9999"),
        ({"k": 10_000}, "fewer than the window of 10000"),
        ({"k": 101, "window": 100}, "from 2 to 99"),
        ({"k": 2.5}, "whole number"),
        ({"k": True}, "whole number"),
        ({"p": 0}, r"in \(0, 100\)"),
        ({"p": 100}, r"in \(0, 100\)"),
        ({"p": "5"}, r"in \(0, 100\)"),
        ({"k": 3, "p": 5}, "give either k"),
        ({"p": {"a": 5}}, "one for each of"),
        ({"k": {"a": 5, "c": 3}}, "one for each of"),
        ({"k": {"a": 5, "b": 3}, "multivariate": True}, "one interval for all"),
        ({"p": {"a": 5, "b": 3}, "multivariate": True}, "one interval for all"),
        ({"intervals": "any"}, "dynamic or fixed"),
        ({"intervals": "fixed", "multivariate": True}, "remove intervals='fixed'"),
        ({"multivariate": 1}, "use a bool"),
    ],
)
def test_errors_name_the_allowed_parameters(tau, parameters, message):
    with pytest.raises(ParameterError, match=message):
        RankSwapping({"a": tau, "b": tau}, seed=SEED, **parameters)


def test_multivariate_needs_two_attributes(tau):
    with pytest.raises(ParameterError, match="at least two attributes"):
        RankSwapping({"a": tau}, multivariate=True, seed=SEED)
