"""What 2017's section 5 says of the baselines that know distributions alone, on 10,000 real discharges.

The paper's data are not public; its Figures 6 to 8 print no numbers. Its findings hold here as well: naive and
probabilistic distortion add more noise than semantic noise of α = 1 (an RMSE of 0.74 and 0.71 against 0.37), and leave
no correlation (0.08 and 0.05, as much as shuffled values have, of 0.29; semantic noise leaves 0.23); probabilistic
distortion keeps the mean, and naive distortion moves it by 0.33 (Table 5: 0.04 and 0, against 0.20 and 0.27).
"""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from support.data import discharges, icd9cm

from stream_masker.core.batch import Batch, Column
from stream_masker.core.mechanisms import mechanism
from stream_masker.core.ontology import ConceptMap
from stream_masker.core.random.keys import PositionKeys
from stream_masker.core.statistics import compute_statistics, count_batch
from stream_masker.core.utility import utility

SIZE = 10_000
BASELINES = ("naive_distortion", "probabilistic_distortion")


@cache
def original():
    tau = icd9cm().taxonomy()
    concepts = ConceptMap(tau, unknown="ancestor", ontology=icd9cm())
    codes = np.array([[concepts.resolve(row[a])[0] for a in ("diag_1", "diag_2")] for row in discharges()], np.int32)
    known = codes[(codes >= 0).all(axis=1)][:SIZE]
    return tau, Batch(SIZE, tuple(Column(np.ascontiguousarray(known[:, j])) for j in range(2)))


@cache
def measured(name, **parameters):
    tau, batch = original()
    made = mechanism(name)({"a": tau, "b": tau}, seed=b"s", **parameters)
    sizes = [len(tau)] * 2
    before = made.compute(count_batch(batch, sizes), version=1)
    made.restore(made.snapshot_of(before))
    masked = made.mask_batch(batch, PositionKeys(b"s", "t", 0, np.arange(SIZE)))
    after = compute_statistics(count_batch(Batch(SIZE, masked.columns), sizes), ("a", "b"), made.distances, version=1)
    return utility(before, after, masked.tallies, {"a": 1.0, "b": 1.0}, made.distances), before


def figures(name, **parameters):
    """RMSE of a and b, the moves of their means, and the correlation left."""
    found, _ = measured(name, **parameters)
    a, b = found.attributes.values()
    return a.rmse_actual, b.rmse_actual, a.mean_distance, b.mean_distance, found.pairs["a", "b"].correlation


@pytest.mark.parametrize("baseline", BASELINES)
def test_the_baselines_add_more_noise_than_semantic_noise(baseline):
    noise = figures("semantic_noise", alpha=1.0)
    assert min(figures(baseline)[:2]) > max(noise[:2])


@pytest.mark.parametrize("baseline", BASELINES)
def test_the_baselines_leave_no_correlation(baseline):
    _, before = measured(baseline)
    left, kept = figures(baseline)[4], figures("semantic_noise", alpha=1.0)[4]
    assert before.correlation[0, 1] > 0.2
    assert left < 0.1
    assert kept > 2 * left


def test_probabilistic_distortion_keeps_the_mean_and_naive_distortion_does_not():
    assert figures("probabilistic_distortion")[2:4] == (0.0, 0.0)
    assert min(figures("naive_distortion")[2:4]) > 0.2
