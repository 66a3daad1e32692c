"""Measurements of candidates, samples, and data that do not allow a candidate."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import asdict, replace

import numpy as np
import pytest
from support.evaluating import dataset

from stream_masker.core.mechanisms import MECHANISMS, SemanticNoise
from stream_masker.core.statistics import compute_statistics
from stream_masker.core.statistics.counts import NO_SLOT
from stream_masker.core.statistics.utility import utility
from stream_masker.core.window import joined
from stream_masker.errors import ParameterError
from stream_masker.evaluation.candidates import Candidate, candidates, noise_candidate
from stream_masker.evaluation.dataset import sampled
from stream_masker.evaluation.measurement import measure


def test_the_measures_equal_those_of_the_mechanism_itself():
    data = dataset(groups=1)
    found = measure(noise_candidate("Correlated-Algorithm2", "ceil", 0.3), data)
    noise = SemanticNoise(
        data.taxonomies,
        alpha=0.3,
        reference="pair",
        rounding="ceil",
        candidates="all",
        window=240,
        seed=data.secret,
    )
    noise = data.calibrated(noise)
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
    assert found.vulnerability_of_record >= found.vulnerability - 0.05


@pytest.mark.usefixtures("few_groups")
@pytest.mark.parametrize("name", MECHANISMS)
def test_every_mechanism_is_measured(name):
    data = dataset(120)
    first = next(iter(candidates([name], [0.3])))
    found = measure(first, data, repeats=2)
    assert 0 < found.rmse < 1
    assert 0 < found.vulnerability <= 1


def test_the_statistics_of_a_data_set_are_computed_once(monkeypatch):
    """Those of the original records for all candidates, and for each one those of the masked records."""
    data, computed = dataset(), []

    def counted(*given, **more):
        computed.append(given)
        return compute_statistics(*given, **more)

    for module in ("evaluation.dataset", "core.mechanisms.base"):
        monkeypatch.setattr(f"stream_masker.{module}.compute_statistics", counted)
    for retention in (0.5, 0.7):
        measure(Candidate("pram", "x", "", {"retention": retention}), data, repeats=1)
    assert len(computed) == 3


def test_data_that_do_not_allow_a_candidate():
    with pytest.raises(ParameterError):
        measure(Candidate("semantic_noise", "x", "", {"alpha": {"z": 1.0}}), dataset())


def test_groups_are_masked_one_by_one():
    data = dataset(groups=4)
    mechanism = Candidate("rank_swapping", "x", "").build(data)
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


def test_samples_keep_the_noise_keys_of_their_records():
    whole = dataset().whole
    known = replace(whole, slots=whole.columns[0].codes.astype(np.int64))
    sample = joined(sampled(known, 100, 40))
    assert sample.slots.tolist() == sample.columns[0].codes.tolist()
    half = joined([known, whole]).slots
    assert half.tolist() == [*known.slots.tolist(), *[NO_SLOT] * whole.size]
    assert joined([whole]).slots is None


STARTED = """
import os, time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from stream_masker.evaluation.evaluation import _start_worker
with ProcessPoolExecutor(1, get_context("spawn"), initializer=_start_worker, initargs=(None,)) as pool:
    print(pool.submit(os.getpid).result(), flush=True)
    time.sleep(600)
"""


def test_the_processes_of_an_evaluation_end_when_it_is_killed():
    """They write to the same pipe, which ends with the last of them."""
    with subprocess.Popen([sys.executable, "-P", "-c", STARTED], stdout=subprocess.PIPE) as started:
        assert int(started.stdout.readline()) != started.pid
        started.kill()
        assert started.stdout.read() == b""
