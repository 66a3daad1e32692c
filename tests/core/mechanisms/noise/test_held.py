"""Held moments: masks stay the same while the statistics fluctuate, and the noise follows them once they move."""

from __future__ import annotations

import json

import numpy as np
import pytest

from stream_masker import Ontology, SemanticNoise
from stream_masker.core.batch import Batch, Column
from stream_masker.core.mechanisms.noise.prepared import HELD, TOLERANCE, noise_statistics
from stream_masker.core.numeric import Numeric
from stream_masker.core.random import FieldKeys
from stream_masker.core.statistics import count_batch
from stream_masker.errors import StatisticsError

RNG = np.random.default_rng(3)
TAU = Ontology.from_edges(
    [(f"b{i}", "root") for i in range(4)] + [(f"l{i}{k}", f"b{i}") for i in range(4) for k in range(9)]
).taxonomy()
LEAVES = np.flatnonzero(TAU.leaf).astype(np.int32)
SIZE = 4_000
VERSIONS = 16
STREAM = RNG.choice(LEAVES, (SIZE + 60 * VERSIONS, 2), p=np.arange(1, 37) / 666).astype(np.int32)
NUMBERS = RNG.normal(50, 10, (len(STREAM), 1))


def batch(start, size=SIZE, codes=STREAM):
    rows = slice(start, start + size)
    return Batch(
        size, tuple(Column(codes[rows, j].copy()) for j in range(2)), numeric=np.ascontiguousarray(NUMBERS[rows])
    )


def made(**parameters):
    return SemanticNoise({"a": TAU, "b": TAU}, numeric={"x": Numeric()}, seed=b"sixteen bytes...", **parameters)


def advance(noise, counted, version):
    noise.restore(noise.snapshot_of(noise.compute(count_batch(counted, [len(TAU)] * 2), version=version)))


@pytest.mark.parametrize("rounding", ["ceil", "calibrated"])
@pytest.mark.parametrize("numeric_noise", ["correlated", "kim"])
def test_a_value_has_one_mask_over_versions_of_a_sliding_window(rounding, numeric_noise):
    noise = made(rounding=rounding, numeric_noise=numeric_noise)
    keys = FieldKeys(b"secret", [b"%d" % i for i in range(SIZE)])
    covariances, masks, numbers = [], [], []
    for version in range(1, VERSIONS + 1):
        advance(noise, batch(60 * version), version)
        masked = noise.mask_batch(batch(0), keys)
        covariances.append(noise.statistics.covariance)
        masks.append(np.concatenate([column.codes for column in masked.columns]))
        numbers.append(masked.numeric)
    assert all((later != covariances[0]).any() for later in covariances[1:])
    assert (np.array(masks) == masks[0]).all()
    assert (np.array(numbers) == numbers[0]).all()


def test_the_noise_follows_statistics_that_move():
    """A window of one branch has other variances: its own moments apply."""
    noise = made()
    advance(noise, batch(0), 1)
    assert HELD not in noise.statistics.model
    advance(noise, batch(60), 2)
    assert noise_statistics(noise.statistics).version == 1
    concentrated = np.where(RNG.random(STREAM.shape) < 0.6, LEAVES[0], STREAM).astype(np.int32)
    advance(noise, batch(0, codes=concentrated), 3)
    assert HELD not in noise.statistics.model
    assert noise_statistics(noise.statistics) is noise.statistics


def test_the_held_moments_differ_by_at_most_the_tolerance():
    noise = made()
    shares = np.linspace(0, 0.5, 12)
    held = []
    for version, share in enumerate(shares, 1):
        codes = np.where(RNG.random(STREAM.shape) < share, LEAVES[0], STREAM).astype(np.int32)
        advance(noise, batch(0, codes=codes), version)
        window, used = noise.statistics, noise_statistics(noise.statistics)
        scale = np.sqrt(np.diag(used.covariance))
        assert (np.abs(window.covariance - used.covariance) <= TOLERANCE * np.outer(scale, scale)).all()
        held.append(used.version)
    assert 2 < len(set(held)) < len(shares)


def test_a_changed_reference_uses_the_moments_of_its_own_version():
    noise = made(reference="mean")
    advance(noise, batch(0), 1)
    snapshot = noise.snapshot()
    snapshot["statistics"]["mean"]["a"] = "l00" if noise.statistics.mean["a"] != "l00" else "l01"
    noise.restore(snapshot)
    advance(noise, batch(60), 2)
    assert HELD not in noise.statistics.model


@pytest.mark.parametrize("broken", [{}, {"version": 1, "variance": {}, "covariance": [[1]]}, [], "text"])
def test_held_moments_that_cannot_be_read_are_rejected(broken):
    noise = made()
    advance(noise, batch(0), 1)
    snapshot = json.loads(json.dumps(noise.snapshot()))
    snapshot["statistics"]["model"] = {HELD: broken}
    with pytest.raises(StatisticsError, match="held moments"):
        noise.restore(snapshot)


def test_held_moments_without_variance_are_rejected():
    noise = made()
    advance(noise, batch(0), 1)
    advance(noise, batch(60), 2)
    snapshot = json.loads(json.dumps(noise.snapshot()))
    snapshot["statistics"]["model"][HELD]["covariance"][0] = [0.0, 0.0]
    with pytest.raises(StatisticsError):
        noise.restore(snapshot)
