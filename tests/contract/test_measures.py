"""``measure_utility``: the metrics of 2017 from records before and after masking."""

from __future__ import annotations

import numpy as np
import pytest

from stream_masker import Ontology, SemanticNoise, Utility, measure_utility

EDGES = [(f"{c}{k}", c) for c in "abc" for k in range(4)] + [(c, "root") for c in "abc"]
TAU = Ontology.from_edges(EDGES).taxonomy()
CODES = [f"{c}{k}" for c in "abc" for k in range(4)]
RECORDS = [{"first": CODES[k % 12], "second": CODES[(k * 5 + k // 12) % 12]} for k in range(240)]
KEYS = [b"%d" % k for k in range(240)]


@pytest.fixture(scope="module")
def noise():
    noise = SemanticNoise({"first": TAU, "second": TAU}, alpha=0.5, seed=b"sixteen bytes or more")
    noise.learn_many(RECORDS)
    noise.calibrate()
    return noise


def test_records_that_are_not_changed_have_no_distortion(noise):
    found = measure_utility(noise, RECORDS, RECORDS)
    assert isinstance(found, Utility)
    for name, attribute in found.attributes.items():
        assert attribute.rmse_actual == attribute.mean_distance == attribute.rmse_target == 0
        assert attribute.variance_error == pytest.approx(0.5 * noise.statistics.variance[name])
    assert found.pairs["first", "second"].correlation_error == 0


def test_the_rmse_is_that_of_the_distances(noise):
    masked = noise.mask_many(RECORDS, keys=KEYS)
    found = measure_utility(noise, RECORDS, masked)
    for name, d in zip(("first", "second"), noise.distances, strict=True):
        squares = [d(one[name], other[name]) ** 2 for one, other in zip(RECORDS, masked, strict=True)]
        assert found.attributes[name].rmse_actual == pytest.approx(np.sqrt(np.mean(squares)))
        assert found.attributes[name].rmse_actual > 0.1


def test_masks_are_compared_with_what_the_statistics_would_make_of_the_records(noise):
    constant = [{"first": "a0", "second": "a0"}] * len(RECORDS)
    masks = noise.mask_many(RECORDS, keys=KEYS), constant
    verdicts = [measure_utility(noise, RECORDS, masked).verdict for masked in masks]
    assert verdicts == ["none", "act"]
    (pair,) = measure_utility(noise, RECORDS, RECORDS).to_dict()["expected"]["pairs"]
    assert pair["correlation"]["value"] > 0


def test_iterators_are_records(noise):
    masked = noise.mask_many(RECORDS, keys=KEYS)
    expected = measure_utility(noise, RECORDS, masked).to_dict()
    assert measure_utility(noise, iter(RECORDS), iter(masked)).to_dict() == expected
