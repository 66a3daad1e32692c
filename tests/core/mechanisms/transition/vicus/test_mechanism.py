"""VICUS and Random: the paper's probabilities, draws from them, and values outside the window."""

from __future__ import annotations

import numpy as np
import pytest
from support.nominal import BANK, batch_of, flat, flat_taxonomies

from stream_masker.core.batch import Batch, Column
from stream_masker.core.mechanisms import RandomTransitions, Vicus
from stream_masker.core.mechanisms.transition.serialization import pack_array
from stream_masker.core.random import PositionKeys
from stream_masker.errors import ParameterError, StatisticsError

SEED = b"a seed.........."
TAXONOMIES = flat_taxonomies(BANK)
BOTH = [Vicus, RandomTransitions]


def keys(size):
    return PositionKeys(SEED, "t", 0, np.arange(size))


def made(kind=Vicus, records=BANK, taxonomies=TAXONOMIES, **parameters):
    mechanism = kind(taxonomies, **{"threshold": 0.4, "seed": SEED, **parameters})
    mechanism.learn_many(records)
    mechanism.calibrate()
    return mechanism


def test_the_parts_of_the_example_equal_the_papers():
    """Green and Blue share branch and advisor; Brown, Pink and White are similar through similar values; Black is
    near.
    """
    assert made(multigraph=False).partition("client") == [["01", "02"], ["03", "04", "05", "06"]]


@pytest.mark.parametrize(("k1", "k2"), [(2, 20), (5, 20), (10, 10), (1, 1)])
def test_the_transition_probabilities_equal_the_papers(k1, k2):
    """2012: equations 5 and 8 to 11, entry by entry."""
    mechanism = made(multigraph=False, k1=k1, k2=k2)
    ids, matrix = mechanism.transition_matrix("client")
    parts = mechanism.partition("client")
    for i, value in enumerate(ids):
        part = next(members for members in parts if value in members)
        s, other = len(part), 6 - len(part)
        stay = k1 * k2 / (k1 * k2 + k2 * (s - 1) + other)
        for j, target in enumerate(ids):
            expected = stay if i == j else stay / k1 if target in part else stay / (k1 * k2)
            assert matrix[i, j] == pytest.approx(expected)
    np.testing.assert_allclose(matrix.sum(axis=1), 1.0)


def test_the_random_method_keeps_values_as_often_as_vicus():
    """2012: equation 12."""
    _, vicus = made(multigraph=False).transition_matrix("client")
    _, matrix = made(RandomTransitions, multigraph=False).transition_matrix("client")
    np.testing.assert_allclose(np.diag(matrix), np.diag(vicus))
    for i in range(6):
        np.testing.assert_allclose(np.delete(matrix[i], i), (1 - matrix[i, i]) / 5)


@pytest.mark.parametrize("kind", BOTH)
def test_values_are_drawn_with_the_probabilities(kind):
    mechanism = made(kind, multigraph=False, k1=2, k2=3)
    ids, matrix = mechanism.transition_matrix("client")
    tau = TAXONOMIES["client"]
    positions = tau.encode(ids)
    n = 60_000
    codes = np.repeat(positions, n)
    columns = (Column(codes), *(Column(np.full(codes.size, -1, np.int32)) for _ in range(3)))
    masked = mechanism.mask_batch(Batch(codes.size, columns), keys(codes.size)).columns[0].codes
    for i, row in enumerate(masked.reshape(-1, n)):
        shares = (row[:, None] == positions[None, :]).mean(axis=0)
        np.testing.assert_allclose(shares, matrix[i], atol=5 * np.sqrt(0.25 / n))


@pytest.mark.parametrize("kind", BOTH)
def test_a_value_outside_the_window_is_never_emitted(kind):
    taxonomies = {"a": flat(["w", "x", "y", "z", "new"]), "b": flat(["u", "v", "new"])}
    records = [{"a": "x", "b": "u"}] * 6 + [{"a": "y", "b": "v"}] * 3 + [{"a": "z", "b": "v"}]
    mechanism = made(kind, records, taxonomies)
    masked = mechanism.mask_many([{"a": "new", "b": "new"}] * 4000, keys=[b"%d" % k for k in range(4000)])
    values = [record["a"] for record in masked]
    assert set(values) == {"x", "y", "z"}
    assert values.count("x") / 4000 == pytest.approx(0.6, abs=0.05)
    assert {record["b"] for record in masked} == {"u", "v"}


@pytest.mark.parametrize("kind", BOTH)
def test_values_beyond_the_most_frequent_are_masked_as_outside_the_window(kind):
    records = [{"a": "x", "b": "u"}] * 4 + [{"a": "y", "b": "v"}] * 3 + [{"a": "z", "b": "v"}]
    mechanism = made(kind, records, flat_taxonomies(records), most_values=2)
    assert mechanism.transition_matrix("a")[0] == ["x", "y"]
    masked = mechanism.mask_many([{"a": "z", "b": "u"}] * 50, keys=[b"%d" % k for k in range(50)])
    assert {record["a"] for record in masked} == {"x", "y"}


def test_an_attribute_with_one_value_is_masked_to_it():
    records = [{"a": "x", "b": "u"}, {"a": "x", "b": "v"}]
    taxonomies = {"a": flat(["x", "new"]), "b": flat(["u", "v"])}
    masked = made(records=records, taxonomies=taxonomies).mask_one({"a": "new", "b": "u"}, key=b"k")
    assert masked["a"] == "x"


def test_elements_of_an_array_are_masked_one_by_one():
    records = [{"a": ["01", "02"], "b": "u"}, {"a": ["03"], "b": "v"}, {"a": [], "b": "u"}, {"a": None, "b": "v"}]
    taxonomies = {"a": flat(["01", "02", "03", "04"]), "b": flat(["u", "v"])}
    mechanism = made(records=records, taxonomies=taxonomies)
    masked = mechanism.mask_many(records, keys=[b"1", b"2", b"3", b"4"])
    assert [len(record["a"] or []) for record in masked] == [2, 1, 0, 0]
    assert masked[3]["a"] is None


def test_a_recalibration_uses_the_current_window():
    records = [{"a": "x", "b": "u"}, {"a": "y", "b": "v"}, {"a": "z", "b": "w"}, {"a": "t", "b": "s"}]
    mechanism = made(records=records[:2], taxonomies=flat_taxonomies(records), window=2)
    assert mechanism.transition_matrix("a")[0] == ["x", "y"]
    mechanism.learn_many(records[2:])
    mechanism.calibrate()
    assert sorted(mechanism.transition_matrix("a")[0]) == ["t", "z"]


def test_the_model_depends_only_on_counts_and_the_partition_seed():
    first, second = made(seed=b"one............."), made(seed=b"two.............")
    assert first.statistics.to_dict() == second.statistics.to_dict()


def test_vicus_keeps_values_in_their_parts_more_often_than_random():
    batch = batch_of(BANK * 200, TAXONOMIES)
    inside = []
    for kind in BOTH:
        mechanism = made(kind, multigraph=False)
        masked = mechanism.mask_batch(batch, keys(batch.size)).columns[0].codes
        low = TAXONOMIES["client"].encode(["01", "02"])
        inside.append((np.isin(masked, low) == np.isin(batch.columns[0].codes, low)).mean())
    assert inside[0] > inside[1] + 0.05


@pytest.mark.parametrize("kind", BOTH)
@pytest.mark.parametrize(
    ("given", "allowed"),
    [
        ({"threshold": -0.1}, "from 0 to 1"),
        ({"threshold": 1.1}, "from 0 to 1"),
        ({"threshold": float("nan")}, "from 0 to 1"),
        ({"threshold": "0.5"}, "from 0 to 1"),
        ({"c1": 0.6, "c2": 0.5}, "sum to 1"),
        ({"c1": 1.5, "c2": -0.5}, "from 0 to 1"),
        ({"k1": 0.5}, "from 1 to"),
        ({"k2": 0}, "from 1 to"),
        ({"k2": float("inf")}, "from 1 to"),
        ({"part_size": 0}, "whole number from 1"),
        ({"part_size": 2.5}, "whole number"),
        ({"parts": 0}, "whole number from 1"),
        ({"population": 1}, "whole number from 2"),
        ({"generations": -1}, "whole number from 0"),
        ({"partition_seed": "x"}, "whole number"),
        ({"most_values": 5001}, "from 2 to 5000"),
        ({"multigraph": 1}, "bool"),
    ],
)
def test_errors_name_the_allowed_parameters(kind, given, allowed):
    with pytest.raises(ParameterError, match=allowed):
        kind(TAXONOMIES, seed=SEED, **given)


@pytest.mark.parametrize("kind", BOTH)
def test_a_single_attribute_is_rejected(kind):
    with pytest.raises(ParameterError, match="at least two attributes"):
        kind({"a": TAXONOMIES["client"]}, seed=SEED)


def broken_models():
    client = made().statistics.model["client"]
    yield {}
    yield "text"
    yield {**client, "parts": pack_array(np.array([1, 2], np.int32))}
    yield {**client, "parts": pack_array(np.array([7, -1], np.int32))}
    yield {**client, "values": "no base64!"}
    yield {**client, "values": pack_array(np.array([1, 1, 2, 3, 4, 5], np.int32))}
    yield {**client, "values": pack_array(np.array([1, 2, 3, 4, 5, 99], np.int32))}
    yield {**client, "counts": pack_array(np.zeros(6, np.int64))}
    yield {**client, "counts": pack_array(np.ones(5, np.int64))}


@pytest.mark.parametrize("model", list(broken_models()))
def test_a_damaged_model_is_rejected(model):
    mechanism = made()
    snapshot = mechanism.snapshot()
    snapshot["statistics"]["model"] = {**snapshot["statistics"]["model"], "client": model}
    with pytest.raises(StatisticsError):
        Vicus(TAXONOMIES, seed=SEED).restore(snapshot)


def test_a_snapshot_without_a_model_is_rejected():
    snapshot = made().snapshot()
    del snapshot["statistics"]["model"]
    with pytest.raises(StatisticsError, match="no model"):
        Vicus(TAXONOMIES, seed=SEED).restore(snapshot)


def test_the_matrix_of_an_unknown_attribute_is_rejected():
    with pytest.raises(ParameterError, match="use one of"):
        made().transition_matrix("age")
