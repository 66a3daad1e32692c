"""Rank swapping as a mechanism: what it preserves, which values it swaps, and groups that are too small."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.channels import trained
from support.graphs import taxonomies, to_all

from stream_masker.core.batch import ABSENT, Batch, Column
from stream_masker.core.distance import WuPalmer
from stream_masker.core.mechanisms import RankSwapping
from stream_masker.core.ontology import Ontology
from stream_masker.core.random import PositionKeys
from stream_masker.core.statistics import distance_variance, semantic_mean
from stream_masker.errors import ParameterError

SEED = b"sixteen bytes of it"

ALGORITHMS = ("fixed", "dynamic", "multivariate")


def made(algorithm, taxonomies, records, k):
    return trained(RankSwapping(taxonomies, algorithm=algorithm, k=k, seed=SEED), records)


@pytest.fixture(scope="module")
def tau():
    rng = np.random.default_rng(2)
    links = [(f"c{k}", f"c{rng.integers(0, k)}") for k in range(1, 60)]
    return Ontology.from_edges(links).taxonomy()


def masked(mechanism, batch):
    return mechanism.mask_batch(batch, PositionKeys(SEED, "t", 0, np.arange(batch.size)))


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


@given(groups(), st.sampled_from(ALGORITHMS), st.integers(2, 3))
def test_every_attribute_keeps_its_values_exactly(group, algorithm, k):
    tau, batch = group
    mechanism = made(algorithm, {"a": tau, "b": tau}, [{"a": tau.ids[0], "b": [tau.ids[1]]}], k)
    masked_batch = masked(mechanism, batch)
    for before, after, d in zip(batch.columns, masked_batch.columns, mechanism.distances, strict=True):
        np.testing.assert_array_equal(np.sort(before.codes), np.sort(after.codes))
        np.testing.assert_array_equal(before.codes < 0, after.codes < 0)
        present = before.codes >= 0
        assert semantic_mean(after.codes[present], d) == semantic_mean(before.codes[present], d)
        assert distance_variance(after.codes[present], d) == distance_variance(before.codes[present], d)
    assert masked_batch.columns[1].offsets is batch.columns[1].offsets


def test_scalars_swap_as_records_and_lists_alone_in_algorithm_3(tau):
    rng = np.random.default_rng(4)
    rows = two_scalars(tau, 60)
    lists = [{**row, "c": rng.choice(tau.ids, rng.integers(0, 4)).tolist()} for row in rows]
    names = [b"%d" % i for i in range(60)]
    pairs = made("multivariate", {"a": tau, "b": tau}, rows, 8).mask_many(rows, keys=names)
    three = made("multivariate", dict.fromkeys("abc", tau), lists, 8).mask_many(lists, keys=names)
    assert [{name: row[name] for name in "ab"} for row in three] == pairs
    alone = made("dynamic", dict.fromkeys("abc", tau), lists, 8).mask_many(lists, keys=names)
    assert [row["c"] for row in three] == [row["c"] for row in alone] != [row["c"] for row in lists]


def test_ranks_of_swapped_values_differ_by_at_most_k_in_algorithm_1(tau):
    codes = (np.random.default_rng(1).random(200) ** 2 * len(tau)).astype(np.int32)
    mechanism = made("fixed", {"a": tau, "b": tau}, two_scalars(tau, 5), 3)
    values = np.unique(codes)
    scores = to_all(WuPalmer(tau), int(values[WuPalmer(tau).between(values, codes).sum(axis=1).argmax()]))
    after = masked(mechanism, Batch(codes.size, (Column(codes), Column(codes)))).columns[0].codes
    ordered = np.sort(scores[codes])
    lowest, highest = (np.searchsorted(ordered, scores, side) for side in ("left", "right"))
    assert (lowest[after] <= highest[codes] - 1 + 3).all()
    assert (lowest[codes] <= highest[after] - 1 + 3).all()
    assert (after != codes).any()


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_groups_of_k_records_and_of_too_few_values_are_rejected(algorithm, tau):
    records = two_scalars(tau, 12)
    mechanism = made(algorithm, {"a": tau, "b": tau}, records, 11)
    mechanism.mask_many(records, keys=[b"k"] * 12)
    with pytest.raises(ParameterError, match="at least 12 records"):
        mechanism.mask_many(records[:11], keys=[b"k"] * 11)
    for record in records[1:]:
        record["b"] = None
    with pytest.raises(ParameterError, match="'b'"):
        mechanism.mask_many(records, keys=[b"k"] * 12)
