"""The utility metrics of 2017, section 5, one by one."""

import math

import numpy as np
import pytest
from support.channels import trained

from stream_masker import SemanticNoise, SemanticTransport
from stream_masker.core.batch import Batch, Column, Distortion
from stream_masker.core.distance import WuPalmer
from stream_masker.core.mechanisms.expected import expected_masks
from stream_masker.core.ontology import Ontology
from stream_masker.core.random import PositionKeys
from stream_masker.core.statistics import (
    compute_statistics,
    count_batch,
    distance_correlation,
    distance_covariance,
    semantic_mean,
    semantic_variance,
)
from stream_masker.core.statistics.drift import utility
from stream_masker.errors import StatisticsError

LINKS = [("a", "r"), ("b", "r"), ("a1", "a"), ("a2", "a"), ("b1", "b"), ("b2", "b")]
D = WuPalmer(Ontology.from_edges(LINKS).taxonomy())

A, B = ["a1", "a1", "a2", "b1", "a1"], ["b1", "b1", "b2", "a1", "b2"]
MASKED_A, MASKED_B = ["a2", "b1", "a", "b1", "b2"], ["b2", "b1", "b", "a2", "b1"]
DISTORTIONS = (
    Distortion(values=5, squared_distance=0.8, squared_noise=0.45),
    Distortion(values=4, squared_distance=1.0),
)


def statistics(*columns, names=("p", "q")):
    batch = Batch(len(columns[0]), tuple(Column(D.taxonomy.encode(values)) for values in columns))
    counts = count_batch(batch, [len(D.taxonomy)] * len(columns))
    return compute_statistics(counts, names, [D] * len(columns), version=1)


ORIGINAL, MASKED = statistics(A, B), statistics(MASKED_A, MASKED_B)


def test_metrics_of_an_attribute():
    measures = utility(ORIGINAL, MASKED, DISTORTIONS, 0.3, [D, D]).attributes["p"]
    assert measures.mean_distance == D(semantic_mean(MASKED_A, D), semantic_mean(A, D)) > 0
    assert measures.variance_error == abs(semantic_variance(MASKED_A, D) - 1.3 * semantic_variance(A, D)) > 0
    assert measures.rmse_actual == pytest.approx(0.4)
    assert measures.rmse_target == pytest.approx(0.3)


@pytest.mark.parametrize("levels", [{"p": 0.3, "q": 0.3}, {"p": 0.1, "q": 0.9}])
def test_metrics_of_a_pair(levels):
    """The covariance of different noise levels grows by their geometric mean."""
    measures = utility(ORIGINAL, MASKED, DISTORTIONS, levels, [D, D]).pairs["p", "q"]
    before, after = distance_covariance(A, D, B, D), distance_covariance(MASKED_A, D, MASKED_B, D)
    growth = math.sqrt((1 + levels["p"]) * (1 + levels["q"]))
    assert measures.covariance_error == pytest.approx(abs(after - growth * before))
    correlation = distance_correlation(MASKED_A, D, MASKED_B, D)
    assert measures.correlation_error == pytest.approx(abs(correlation - distance_correlation(A, D, B, D)))


def test_statistics_of_other_attributes_are_refused():
    with pytest.raises(StatisticsError, match="same attributes"):
        utility(ORIGINAL, statistics(A, B, names=("p", "s")), DISTORTIONS, 0.3, [D, D])


LEAVES = [f"{c}{k}" for c in "abc" for k in range(4)]
WIDE = Ontology.from_edges([(leaf, leaf[0]) for leaf in LEAVES] + [(c, "r") for c in "abc"]).taxonomy()


def record(rng):
    """One event: a scalar, one that may be missing, a list that may be empty, and another scalar."""
    first = LEAVES[int(rng.integers(12)) if rng.random() < 0.3 else int(rng.integers(4))]
    near = LEAVES[(LEAVES.index(first) + int(rng.integers(3))) % 12]
    some = [LEAVES[(LEAVES.index(first) + int(k)) % 12] for k in rng.integers(0, 5, rng.integers(0, 4))]
    return {"one": first, "missing": near if rng.random() < 0.7 else None, "list": some, "other": near}


@pytest.mark.parametrize("names", [("one", "list"), ("list",), ("one", "other", "missing")])
def test_masks_are_as_expected_with_lists_and_missing_values(names):
    """The masks of a window are those that the statistics of the window make of random records of its law."""
    rng = np.random.default_rng(3)
    noise = SemanticNoise(dict.fromkeys(names, WIDE), seed=b"sixteen bytes or more")
    batch = noise.encode([record(rng) for _ in range(3_000)])
    sizes = [len(WIDE)] * len(names)
    counts = count_batch(batch, sizes)
    noise = noise.with_statistics(noise.compute(counts, version=1), counts)
    masked = noise.mask_batch(batch, PositionKeys(b"a secret of a worker", "t", 0, np.arange(batch.size)))
    masks, expected = count_batch(Batch(batch.size, masked.columns), sizes), expected_masks(noise, counts)
    after, made = (compute_statistics(each, names, noise.distances, version=2) for each in (masks, expected))
    found = utility(noise.statistics, after, masked.distortions, 1.0, noise.distances, expected=made, counts=masks)
    assert found.verdict == "none"
    assert set(found.expected.attributes) == set(names)
    for name in names:
        assert made.variance[name] == pytest.approx(after.variance[name], abs=0.02)


@pytest.mark.parametrize(("names", "known"), [(("one", "other"), True), (("one", "other", "list"), False)])
def test_masks_of_transport_are_expected_for_two_attributes_alone(names, known):
    """Records are drawn with two attributes, and records that lack a third one can have no maps."""
    made, rng = SemanticTransport(dict.fromkeys(names, WIDE), seed=b"sixteen bytes or more"), np.random.default_rng(3)
    trained(made, [record(rng) for _ in range(500)])
    assert (expected_masks(made, made.counts) is not None) == known
