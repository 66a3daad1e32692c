"""Sliding means and covariances, against a computation from the counts."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.graphs import taxonomies

from stream_masker.core.distance import LogTaxonomic, WuPalmer
from stream_masker.core.ontology import Ontology
from stream_masker.core.statistics import (
    correlation_from_counts,
    covariance_from_counts,
    distance_variance_from_counts,
    mean_from_counts,
    variance_from_counts,
)
from stream_masker.core.statistics.counts import SparseCounts, count_keys, difference, marginals, pair_counts
from stream_masker.core.statistics.sliding import mean as sliding_mean
from stream_masker.core.statistics.sliding.covariance import SlidingCovariance
from stream_masker.core.statistics.sliding.mean import SlidingMean
from stream_masker.errors import StatisticsError

MEASURES = st.sampled_from([WuPalmer, LogTaxonomic])
NOTHING = count_keys(np.zeros(0, np.int64))


def wide_dag(size):
    """A DAG in which a third of the concepts has a second parent."""
    links = [(f"c{k:04}", f"c{(k - 1) // 3:04}") for k in range(1, size)]
    return Ontology.from_edges(links + [(f"c{k:04}", f"c{(k - 1) // 3 + 1:04}") for k in range(10, size, 3)]).taxonomy()


@st.composite
def windows(draw, size, pairs=False):
    """Several successive windows, as counts of positions below ``size`` (or of pairs of them)."""
    value = st.integers(0, (size**2 if pairs else size) - 1)
    samples = draw(st.lists(st.lists(value, min_size=1, max_size=12), min_size=1, max_size=6))
    return [count_keys(np.array(sample, np.int64)) for sample in samples]


@given(
    data=st.data(),
    tau=taxonomies(most=15),
    measure=MEASURES,
    watched=st.integers(1, 20),
    margin=st.sampled_from([0.005, 0.5, 5.0]),
)
def test_the_mean_equals_a_computation_from_the_counts(data, tau, measure, watched, margin):
    d, before = measure(tau), NOTHING
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sliding_mean, "WATCH_MARGIN", margin)
        patch.setattr(sliding_mean, "MAX_WATCHED", watched)
        sliding = SlidingMean(d)
        for window in data.draw(windows(len(tau))):
            sliding.slide(difference(window, before))
            assert sliding.mean == mean_from_counts(window, d)
            assert sliding.variance == pytest.approx(variance_from_counts(window, d), rel=1e-12, abs=1e-15)
            before = window


@given(data=st.data(), tau=taxonomies(most=15), measure=MEASURES)
def test_the_covariance_equals_a_computation_from_the_counts(data, tau, measure):
    d, before = measure(tau), NOTHING
    sliding = SlidingCovariance(d, d)
    for window in data.draw(windows(len(tau), pairs=True)):
        sliding.slide(difference(window, before))
        assert sliding.covariance**2 == pytest.approx(covariance_from_counts(window, d, d) ** 2, rel=1e-9, abs=1e-14)
        before = window


def stream(d, size, rows, seed):
    """Rows of two dependent attributes with heavy-tailed values, as positions."""
    rng = np.random.default_rng(seed)
    a = np.minimum(rng.pareto(0.8, rows).astype(np.int64), size - 1)
    b = np.where(rng.random(rows) < 0.5, (a * 7 + 1) % size, rng.integers(0, size, rows))
    order = rng.permutation(len(d.taxonomy))[:size]
    return order[a].astype(np.int32), order[b].astype(np.int32)


@pytest.mark.parametrize("measure", [WuPalmer, LogTaxonomic])
def test_a_window_that_slides_row_by_row(measure):
    d, window = measure(wide_dag(300)), 400
    a, b = stream(d, 90, 1000, 3)
    sliding, mean = SlidingCovariance(d, d), SlidingMean(d)
    sliding.slide(pair_counts(a[:window], b[:window], 300))
    mean.slide(count_keys(a[:window].astype(np.int64)))
    for k in range(600):
        assert sliding.covariance > 0
        sliding.slide(difference(of(a, b, window + k), of(a, b, k)))
        mean.slide(difference(count_keys(a[[window + k]].astype(np.int64)), count_keys(a[[k]].astype(np.int64))))
        if k % 50 == 0:
            check(sliding, mean, pair_counts(a[k + 1 : window + k + 1], b[k + 1 : window + k + 1], 300), d)


def of(a, b, row):
    return pair_counts(a[row : row + 1], b[row : row + 1], 300)


def check(sliding, mean, counts, d):
    of_a, of_b = marginals(counts, len(d.taxonomy))
    assert sliding.covariance == pytest.approx(covariance_from_counts(counts, d, d), rel=1e-9)
    assert sliding.correlation == pytest.approx(correlation_from_counts(counts, d, d), rel=1e-9)
    expected = [distance_variance_from_counts(part, d) for part in (of_a, of_b)]
    assert sliding.variances == pytest.approx(expected, rel=1e-9)
    assert mean.mean == mean_from_counts(of_a, d)
    assert mean.variance == pytest.approx(variance_from_counts(of_a, d), rel=1e-12)


def test_rows_that_the_window_lacks_cannot_be_removed():
    d = WuPalmer(wide_dag(20))
    mean, covariance = SlidingMean(d), SlidingCovariance(d, d)
    for sliding in (mean, covariance):
        sliding.slide(count_keys(np.array([3, 3, 5])))
        with pytest.raises(StatisticsError, match="the change removes more rows than the window holds"):
            sliding.slide(SparseCounts(np.array([3]), np.array([-3])))
    assert mean.mean == mean_from_counts(count_keys(np.array([3, 3, 5])), d)


def test_an_empty_window_has_no_statistics():
    d = WuPalmer(wide_dag(20))
    for figure in (lambda: SlidingMean(d).mean, lambda: SlidingMean(d).variance):
        with pytest.raises(StatisticsError, match="at least one value"):
            figure()
    with pytest.raises(StatisticsError, match="at least one value"):
        assert SlidingCovariance(d, d).covariance
