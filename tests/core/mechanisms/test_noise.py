"""Semantic noise: references, noise levels of records, candidates, snapshots, and real discharges."""

from __future__ import annotations

import json

import numpy as np
import pytest
from support.channels import trained
from support.data import icd9cm
from support.real_codes import as_batch, real_pairs

from stream_masker import Ontology, SemanticNoise, WuPalmer
from stream_masker.core.batch import Batch, Column
from stream_masker.core.random import FieldKeys, PositionKeys
from stream_masker.core.statistics import compute_statistics, count_batch
from stream_masker.errors import ParameterError, StatisticsError
from tests.core.mechanisms.flooding import TREE as FLOODED
from tests.core.mechanisms.flooding import changed_of_others, flooded

SEED = b"sixteen bytes or more"
TREE = Ontology.from_edges(
    [(f"b{i}", "root") for i in range(4)] + [(f"l{i}{j}", f"b{i}") for i in range(4) for j in range(5)]
).taxonomy()
COMMON = [*[f"l0{j}" for j in range(5)] * 8, *TREE.ids]
"""Values most of which lie below b0, so that the mean is not the root."""


def build(names="ab", tau=TREE, **parameters) -> SemanticNoise:
    return SemanticNoise(dict.fromkeys(names, tau), **{"seed": SEED, **parameters})


def calibrated(names="ab", size=300, **parameters) -> SemanticNoise:
    rng = np.random.default_rng(1)
    records = [{name: str(rng.choice(COMMON)) for name in names} for _ in range(size)]
    return trained(build(names, **parameters), records)


def keys_of(size):
    return [b"%d" % k for k in range(size)]


def test_a_scalar_is_paired_with_all_elements_and_with_the_first():
    """So its mask is that beside the first element, and the mask of each element is that beside the scalar."""
    noise = calibrated(reference="pair", correlated=False, rounding="ceil", candidates="all", alpha=1.0)

    def masked(a, b):
        return noise.mask_many([{"a": a, "b": b}] * 60, keys=keys_of(60))

    def scalar(a, b, name):
        return [row[name] for row in masked(a, b)]

    both = masked("l00", ["l11", "l22"])
    assert [row["a"] for row in both] == scalar("l00", "l11", "a") != scalar("l00", "l22", "a")
    assert [row["b"][1] for row in both] == scalar("l00", "l22", "b") != scalar("l20", "l22", "b")
    assert scalar("l03", [], "a") == scalar("l03", None, "a") != scalar("l03", "l11", "a")


def test_two_arrays_cannot_be_correlated_or_paired():
    record = {"a": ["l00"], "b": ["l01"]}
    with pytest.raises(ParameterError, match="allows one array attribute, but a, b are arrays"):
        calibrated().mask_one(record, key=b"k")
    with pytest.raises(ParameterError, match="reference='pair' allows one array attribute"):
        calibrated(correlated=False, reference="pair").mask_one(record, key=b"k")
    masked = calibrated(correlated=False, reference="mean").mask_one(record, key=b"k")
    assert [len(value) for value in masked.values()] == [1, 1]


def test_uncorrelated_noise_uses_svar_and_correlated_noise_sdvar():
    n = 20_000
    batch = Batch(n, tuple(Column(np.full(n, TREE.position("l00"), np.int32)) for _ in range(2)))
    for correlated in (False, True):
        noise = calibrated(correlated=correlated, alpha=0.5)
        squares = noise.mask_batch(batch, PositionKeys(SEED, "t", 0, np.arange(n))).distortions[0].squared_noise / n
        variances = np.diag(noise.statistics.covariance)[0], noise.statistics.variance["a"]
        assert abs(variances[0] / variances[1] - 1) > 0.15
        assert squares == pytest.approx(0.5 * variances[0 if correlated else 1], rel=0.05)


@pytest.mark.parametrize(
    "change",
    [
        lambda s: s["model"]["variance"].__setitem__(0, -0.1),
        lambda s: s["model"]["variance"].__setitem__(0, float("nan")),
        lambda s: s["mean"].update(a="a concept of another taxonomy"),
        lambda s: s.update(attributes=["b", "a"]),
        lambda s: s.pop("observed"),
        lambda s: s["model"].update(variance=[0.1]),
        lambda s: s["model"].update(covariance=[[1]]),
        lambda s: s["model"].update(covariance=[[0.0, 0.0], [0.0, 0.0]]),
        lambda s: s["model"].update(frequencies={}),
        lambda s: s["model"].update(frequencies={"a": [], "b": []}),
    ],
)
def test_broken_statistics_are_rejected(change):
    noise = calibrated()
    before, snapshot = noise.snapshot(), json.loads(json.dumps(noise.snapshot()))
    change(snapshot["statistics"])
    with pytest.raises(StatisticsError) as caught:
        noise.restore(snapshot)
    assert "a concept of" not in str(caught.value)
    assert noise.snapshot() == before


def test_the_preset_strong_needs_codes_that_are_leaves():
    leaves, groups = [{"a": f"l{k % 4}{k % 5}"} for k in range(57)], [{"a": f"b{k}"} for k in range(4)]
    noise = trained(build("a", preset="strong"), leaves + groups[:3])
    assert all(row["a"].startswith("l") for row in noise.mask_many(leaves, keys=keys_of(57)))
    noise.learn_many(groups)
    with pytest.raises(StatisticsError, match="a: 89% of the window's codes are leaves of their ontology"):
        noise.calibrate()


def test_real_discharges_keep_their_correlation_and_get_the_requested_noise():
    tau, batch = icd9cm().taxonomy(), as_batch(real_pairs()[:, :20_000])
    names, counts = ("diag_1", "diag_2"), count_batch(batch, [len(tau)] * 2)
    ratio = {}
    for rounding in ("ceil", "calibrated"):
        noise = build(names, tau, alpha=0.1, reference="pair", rounding=rounding, candidates="all")
        original = noise.compute(counts, version=1)
        noise.restore(noise.snapshot_of(original))
        masked = noise.mask_batch(batch, PositionKeys(SEED, "t", 0, np.arange(batch.size)))
        after = compute_statistics(
            count_batch(Batch(batch.size, masked.columns), [len(tau)] * 2), names, [WuPalmer(tau)] * 2, version=1
        )
        distortion = masked.distortions[0]
        ratio[rounding] = np.sqrt(distortion.squared_distance / distortion.squared_noise)
        assert abs(after.correlation[0, 1] - original.correlation[0, 1]) < 0.12
    assert ratio["calibrated"] == pytest.approx(1.0, abs=0.02)
    assert 1.2 < ratio["ceil"] < 2.0


def window(rng, size=4_000, leaves=20, shift=0):
    """A window of codes of which the last ones are the most frequent."""
    law = np.arange(1, leaves + 1) + shift
    codes = rng.choice(TREE.encode([c for c in TREE.ids if c[0] == "l"][:leaves]), (2, size), p=law / law.sum())
    return Batch(size, tuple(Column(column.astype(np.int32)) for column in codes))


def advance(noise, counted, version):
    noise.restore(noise.snapshot_of(noise.compute(count_batch(counted, [len(TREE)] * 2), version=version)))


RULES = [("ceil", "all"), ("calibrated", "all"), ("calibrated", "observed")]


@pytest.mark.parametrize(("rounding", "candidates"), RULES)
def test_a_value_has_one_mask_over_versions_of_a_sliding_window(rounding, candidates):
    """Moments and frequencies are held while they fluctuate."""
    noise = build(rounding=rounding, candidates=candidates)
    stream, keys = window(np.random.default_rng(3), 5_000), FieldKeys(SEED, keys_of(4_000))
    covariances, masks = [], []
    for version in range(1, 17):
        advance(noise, stream.take(np.arange(60 * version, 60 * version + 4_000)), version)
        masked = noise.mask_batch(stream.take(np.arange(4_000)), keys)
        covariances.append(noise.statistics.covariance)
        masks.append(np.concatenate([column.codes for column in masked.columns]))
    assert all((later != covariances[0]).any() for later in covariances[1:])
    assert (np.array(masks) == masks[0]).all()


def test_the_noise_follows_statistics_that_move():
    noise, rng = build(rounding="calibrated", candidates="observed"), np.random.default_rng(4)
    advance(noise, window(rng), 1)
    held = noise.statistics.model
    advance(noise, window(rng), 2)
    assert noise.statistics.model == held
    few = window(rng, leaves=4)
    advance(noise, few, 3)
    assert noise.statistics.model != held
    masked = noise.mask_batch(window(rng), FieldKeys(SEED, keys_of(4_000)))
    assert set(masked.columns[0].codes.tolist()) <= set(few.columns[0].codes.tolist())


def flooded_noise(counts, rounding):
    """Noise with the statistics of these counts in force. Raises StatisticsError if they are refused."""
    noise = SemanticNoise({"code": FLOODED}, preset="paper", rounding=rounding, seed=SEED)
    return noise.with_statistics(noise.compute(counts, version=1), counts)


@pytest.mark.parametrize(
    ("rounding", "share", "values"), [("calibrated", 0.0, 12), ("calibrated", 0.99, 72), ("ceil", 0.99, 12)]
)
def test_a_window_that_is_full_of_one_value_still_changes_the_others(share, rounding, values):
    counts = flooded(share, values)
    changed, required = changed_of_others(flooded_noise(counts, rounding), counts)
    assert changed >= required > 0.04


@pytest.mark.parametrize("values", [12, 72])
def test_statistics_that_would_change_hardly_any_other_value_are_refused(values):
    with pytest.raises(StatisticsError, match=r"apart from its most frequent value|single possible original"):
        flooded_noise(flooded(0.999, values), "calibrated")
