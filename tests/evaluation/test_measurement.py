"""Measurements of candidates, samples, and data that do not allow a candidate."""

from __future__ import annotations

from dataclasses import asdict, replace

import numpy as np
import pytest

from stream_masker.core.mechanisms import MECHANISMS, SemanticNoise
from stream_masker.core.statistics.counts import joined
from stream_masker.core.statistics.drift import utility
from stream_masker.errors import ParameterError
from stream_masker.evaluation.dataset import sampled
from stream_masker.evaluation.measurement import Candidate, candidates, measure
from tests.evaluation.evaluating import dataset


def test_the_measures_equal_those_of_the_mechanism_itself():
    data = dataset(groups=1)
    options = {"alpha": 0.3, "reference": "pair", "preset": "paper"}
    found = measure(Candidate("semantic_noise", "x", options), data)
    noise = data.calibrated(SemanticNoise(data.taxonomies, **options, window=240, seed=data.secret))
    masked = data.mask(noise)
    after = data.statistics_of(joined([type(data.whole)(240, masked.columns)]))
    expected = utility(data.statistics, after, masked.distortions, noise.alpha, data.distances)
    assert replace(found.utility, attributes={}) == replace(expected, attributes={})
    for name, one in expected.attributes.items():
        assert asdict(found.utility.attributes[name]) == pytest.approx(asdict(one))
    assert found.risk.rmse["a"] == pytest.approx(found.utility.attributes["a"].rmse_actual, rel=0.05)
    same = [(one.codes == other.codes) for one, other in zip(data.whole.columns, masked.columns, strict=True)]
    assert found.unchanged_records == pytest.approx(np.logical_and.reduce(same).mean())
    assert found.to_dict()["unchanged_records"] == found.unchanged_records
    assert found.risk.value == noise.risk().value


@pytest.mark.usefixtures("few_groups")
@pytest.mark.parametrize("name", MECHANISMS)
def test_every_mechanism_is_measured(name):
    data = dataset(120)
    first = next(iter(candidates([name], [0.3])))
    found = measure(first, data)
    assert 0 < found.rmse < 1
    assert 0 < found.vulnerability <= 1


def test_data_that_do_not_allow_a_candidate():
    with pytest.raises(ParameterError):
        measure(Candidate("semantic_noise", "x", {"alpha": {"z": 1.0}}), dataset())


def test_groups_are_masked_one_by_one():
    data = dataset(groups=4)
    mechanism = Candidate("rank_swapping", "x").build(data)
    masked = data.mask(mechanism).columns[0].codes.reshape(4, 60)
    before = data.whole.columns[0].codes.reshape(4, 60)
    assert all(sorted(a) == sorted(b) for a, b in zip(masked, before, strict=True))


def test_samples_are_whole_records_of_the_data():
    whole = dataset(arrays=True).whole
    parts = sampled(whole, 100, 40)
    assert [part.size for part in parts] == [50, 50]
    sample = joined(parts)
    records = set(zip(whole.columns[0].codes, whole.columns[1].codes[::2], strict=True))
    assert set(zip(sample.columns[0].codes, sample.columns[1].codes[::2], strict=True)) <= records
    assert sampled(whole, 0, 1000)[0].size == 240
