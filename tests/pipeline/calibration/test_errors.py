"""Standard errors of sVar and sdCor: they predict how the statistics of independent samples scatter."""

from __future__ import annotations

import numpy as np
import pytest
from simulated_stream import Population

from stream_masker.core.batch import Batch, Column
from stream_masker.core.distance import WuPalmer
from stream_masker.core.ontology import Ontology
from stream_masker.core.statistics import compute_statistics
from stream_masker.core.statistics.counts import Counts, count_batch
from stream_masker.pipeline.calibration.errors import MAX_ROWS, standard_errors

EDGES = [(f"{k}", f"{(k - 1) // 3}") for k in range(1, 120)]
TAU = Ontology.from_edges(EDGES).taxonomy()
NAMES, DISTANCES = ("one", "two"), (WuPalmer(TAU), WuPalmer(TAU))
PAIR = ("one", "two")
SAMPLES = 120


def figures(counts: Counts) -> tuple[float, float, float, float]:
    """sVar of the first attribute and sdCor, each with its standard error."""
    summary = compute_statistics(counts, NAMES, DISTANCES, version=1)
    errors = standard_errors(counts, summary, DISTANCES)
    return summary.variance["one"], errors.variance["one"], float(summary.correlation[0, 1]), errors.correlation[PAIR]


@pytest.mark.parametrize("size", [400, 2 * MAX_ROWS])
def test_errors_predict_the_scatter_of_samples(size: int) -> None:
    population = Population.random((len(TAU), len(TAU)), codes=60, rows=500)
    rng = np.random.default_rng(5)
    estimates = np.array([figures(population.counts(rng.integers(0, 500, size))) for _ in range(SAMPLES)])
    for statistic, error in ((0, 1), (2, 3)):
        assert estimates[:, statistic].std() == pytest.approx(estimates[:, error].mean(), rel=0.25)


def test_rows_of_one_event_are_not_independent() -> None:
    rng = np.random.default_rng(1)
    first, codes = rng.integers(0, 60, 100).astype(np.int32), rng.integers(0, 60, 100).astype(np.int32)
    once = count_batch(Batch(100, (Column(first), Column(codes))), (len(TAU),) * 2)
    four = Column(np.repeat(codes, 4), np.arange(0, 401, 4))
    repeated = count_batch(Batch(100, (Column(first), four)), (len(TAU),) * 2)
    assert figures(repeated) == pytest.approx(figures(once))


def test_a_constant_attribute_has_no_error_of_its_correlation() -> None:
    constant, other = np.zeros(20, np.int32), np.arange(20).astype(np.int32)
    counts = count_batch(Batch(20, (Column(constant), Column(other))), (len(TAU),) * 2)
    errors = standard_errors(counts, compute_statistics(counts, NAMES, DISTANCES, version=1), DISTANCES)
    assert errors.correlation == {}
    assert errors.variance["one"] == 0
