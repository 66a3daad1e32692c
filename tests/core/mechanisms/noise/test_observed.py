"""``candidates="observed"``: masks are concepts of the window, drawn by their frequency, and travel with a version."""

from __future__ import annotations

import json

import numpy as np
import pytest

from stream_masker import Ontology, SemanticNoise
from stream_masker.core.batch import Batch, Column
from stream_masker.core.mechanisms.noise.prepared import FREQUENCIES, HELD, total_variation
from stream_masker.core.random import FieldKeys, PositionKeys
from stream_masker.core.replacement.rows.engine import ConceptFrequencies
from stream_masker.core.statistics import count_batch
from stream_masker.errors import ParameterError, StatisticsError

LINKS = [(f"b{i}", "root") for i in range(4)] + [(f"l{i}{k}", f"b{i}") for i in range(4) for k in range(9)]
TREE = Ontology.from_edges(LINKS).taxonomy()
DAG = Ontology.from_edges([*LINKS, ("l00", "b1"), ("l13", "b2")]).taxonomy()
RNG = np.random.default_rng(1)
SIZE = 6_000


@pytest.fixture(params=[TREE, DAG], ids=["tree", "dag"])
def tau(request):
    return request.param


def codes(tau, size=SIZE, names=("l00", "l01", "l02", "l13", "l14", "l25", "l26", "l27", "b3")):
    law = np.arange(1, len(names) + 1) / sum(range(1, len(names) + 1))
    return tau.encode(RNG.choice(names, size, p=law).tolist())


def batch(first, second):
    return Batch(first.size, (Column(first), Column(second)))


def made(tau, **parameters):
    return SemanticNoise({"a": tau, "b": tau}, candidates="observed", seed=b"sixteen bytes...", **parameters)


def advance(noise, counted, version=1):
    size = len(noise.distances[0].taxonomy)
    noise.restore(noise.snapshot_of(noise.compute(count_batch(counted, [size] * 2), version=version)))


def position_keys(size):
    return PositionKeys(b"secret", "t", 0, np.arange(size))


@pytest.mark.parametrize("rounding", ["ceil", "calibrated"])
@pytest.mark.parametrize("reference", ["mean", "pair", "root"])
def test_masks_are_concepts_of_the_window(tau, rounding, reference):
    noise = made(tau, rounding=rounding, reference=reference, alpha=1.0)
    window = batch(codes(tau), codes(tau, names=("l00", "b1", "root")))
    advance(noise, window)
    other = batch(codes(tau, names=tau.ids), codes(tau, names=tau.ids))
    masked = noise.mask_batch(other, position_keys(SIZE))
    for before, after in zip(window.columns, masked.columns, strict=True):
        assert set(after.codes.tolist()) <= set(before.codes.tolist())
        assert len(set(after.codes.tolist())) > 2


def test_ties_are_drawn_by_frequency():
    """All siblings of l00 are equally far: their masks have the shares of the window."""
    names = ["l01"] * 1 + ["l02"] * 2 + ["l03"] * 5 + ["l14"] * 8
    window = TREE.encode([*names * 300, *["l00"] * 200])
    noise = made(TREE, rounding="ceil", reference="root", alpha=0.05)
    advance(noise, batch(window, window))
    many = np.full(SIZE, TREE.position("l00"), np.int32)
    masks = noise.mask_batch(batch(many, many), position_keys(SIZE)).columns[0].codes
    near = masks[np.isin(masks, TREE.encode(["l01", "l02", "l03"]))]
    assert near.size > SIZE / 2
    for name, share in (("l01", 1 / 8), ("l02", 2 / 8), ("l03", 5 / 8)):
        assert abs(np.mean(near == TREE.position(name)) - share) < 4 * np.sqrt(share * (1 - share) / near.size)


def test_a_snapshot_has_the_frequencies(tau):
    noise, other = made(tau), made(tau)
    window = batch(codes(tau), codes(tau))
    advance(noise, window)
    other.restore(json.loads(json.dumps(noise.snapshot())))
    keys = position_keys(SIZE)
    for first, second in zip(
        noise.mask_batch(window, keys).columns, other.mask_batch(window, keys).columns, strict=True
    ):
        np.testing.assert_array_equal(first.codes, second.codes)


def test_frequencies_are_held_with_the_moments():
    noise = made(TREE)
    stream = batch(codes(TREE, 2 * SIZE), codes(TREE, 2 * SIZE))
    keys = FieldKeys(b"secret", [b"%d" % i for i in range(SIZE)])
    part = batch(stream.columns[0].codes[:SIZE], stream.columns[1].codes[:SIZE])
    masks = []
    for version in range(1, 9):
        rows = slice(50 * version, 50 * version + SIZE)
        advance(noise, batch(*(column.codes[rows].copy() for column in stream.columns)), version)
        masks.append(np.concatenate([column.codes for column in noise.mask_batch(part, keys).columns]))
    assert (np.array(masks) == masks[0]).all()
    assert HELD in noise.statistics.model
    rare = batch(*(codes(TREE, names=("l00", "l01", "l13", "l25")) for _ in range(2)))
    advance(noise, rare, 9)
    assert HELD not in noise.statistics.model
    masked = noise.mask_batch(part, keys).columns[0].codes
    assert set(masked.tolist()) <= set(rare.columns[0].codes.tolist())


def test_statistics_without_frequencies_are_rejected():
    plain = SemanticNoise({"a": TREE, "b": TREE}, seed=b"sixteen bytes...")
    advance(plain, batch(codes(TREE), codes(TREE)))
    noise = made(TREE)
    with pytest.raises(StatisticsError, match="the model has no frequencies"):
        noise.restore(plain.snapshot())
    advance(noise, batch(codes(TREE), codes(TREE)))
    snapshot = json.loads(json.dumps(noise.snapshot()))
    snapshot["statistics"]["model"][FREQUENCIES]["b"] = []
    with pytest.raises(StatisticsError):
        noise.restore(snapshot)


def test_total_variation():
    a = ConceptFrequencies(np.array([1, 4], np.int32), np.array([30, 10]))
    b = ConceptFrequencies(np.array([1, 2], np.int32), np.array([1, 1]))
    assert total_variation(a, b) == pytest.approx(0.5)
    assert total_variation(a, a) == 0


def test_other_candidates_are_rejected():
    with pytest.raises(ParameterError, match="use all or leaves or observed"):
        SemanticNoise({"a": TREE}, candidates="seen", seed=b"sixteen bytes...")
