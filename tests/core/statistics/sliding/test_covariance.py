"""Distance variances and covariances of sliding windows, for small and large changes, with little and much memory."""

from collections import Counter
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.graphs import taxonomies

from stream_masker.core.distance import LogTaxonomic, WuPalmer
from stream_masker.core.ontology import Ontology
from stream_masker.core.statistics import correlation_from_counts, covariance_from_counts, distance_variance_from_counts
from stream_masker.core.statistics.counts import SparseCounts, count_keys, difference, marginals
from stream_masker.core.statistics.sliding import covariance
from stream_masker.core.statistics.sliding import marginal as sliding_marginal
from stream_masker.core.statistics.sliding.covariance import SlidingCovariance, SlidingPair
from stream_masker.core.statistics.sliding.marginal import SlidingMarginal, SlidingVariance
from stream_masker.errors import StatisticsError, UnknownConceptError

MEASURES = st.sampled_from([WuPalmer, LogTaxonomic])


def deep_dag(size):
    """A DAG with two children per concept, in which every fifth concept has a second parent."""
    links = [(f"c{k:04}", f"c{(k - 1) // 2:04}") for k in range(1, size)]
    return Ontology.from_edges(links + [(f"c{k:04}", f"c{(k - 1) // 5:04}") for k in range(12, size, 5)]).taxonomy()


def counted(rows):
    return count_keys(np.array(rows, np.int64))


def check(sliding, rows, d):
    """Assert that the statistics and the counts equal those of a computation from the counts."""
    window = counted(rows)
    sides = marginals(window, len(d.taxonomy))
    assert sliding.covariance**2 == pytest.approx(covariance_from_counts(window, d, d) ** 2, rel=1e-10, abs=1e-14)
    squares = [distance_variance_from_counts(side, d) ** 2 for side in sides]
    assert [v**2 for v in sliding.variances] == pytest.approx(squares, rel=1e-10, abs=1e-14)
    for kept, side in zip(sliding.marginals, sides, strict=True):
        np.testing.assert_array_equal(kept.keys, side.keys)
        np.testing.assert_array_equal(kept.counts, side.counts)


@given(
    data=st.data(),
    tau=taxonomies(most=15),
    measure=MEASURES,
    kept=st.sampled_from([1, 20, 1 << 20]),
    steps=st.sampled_from([0, 1 << 20]),
)
def test_rows_that_enter_and_leave(data, tau, measure, kept, steps):
    """A few rows at a time enter and leave, some with new values; finally all but one leave."""
    d, value = measure(tau), st.integers(0, len(tau) ** 2 - 1)
    rows = data.draw(st.lists(value, min_size=4, max_size=10))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sliding_marginal, "MAX_KEPT_DISTANCES", kept)
        patch.setattr(sliding_marginal, "MAX_CHANGE_SHARE", 10.0)
        patch.setattr(covariance, "MAX_INCREMENTAL_STEPS", steps)
        patch.setattr(covariance, "MIN_SMALL_CHANGE", 0)
        sliding, variance = SlidingCovariance(d, d), SlidingVariance(d)
        sliding.slide(counted(rows))
        for _ in range(data.draw(st.integers(1, 12))):
            check(sliding, rows, d)
            variance.slide_to(marginals(counted(rows), len(tau))[0])
            assert variance.variance == pytest.approx(sliding.variances[0], rel=1e-9, abs=1e-7)
            added = data.draw(st.lists(value, max_size=4))
            removed, rest = rows[: len(rows) // 3], rows[len(rows) // 3 :]
            sliding.slide(difference(counted(added), counted(removed)))
            rows = rest + added
        sliding.slide(difference(counted(rows[:1]), counted(rows)))
        assert sliding.covariance == 0.0


def stream(tau, rows, values, seed):
    """Keys of pairs of dependent values, few of them frequent; the frequent ones drift over all concepts."""
    rng = np.random.default_rng(seed)
    drift = np.arange(rows) * len(tau) // (2 * rows)
    first = np.minimum(values * rng.random(rows) ** 2.5, values - 1).astype(np.int64) + drift
    second = np.where(rng.random(rows) < 0.6, 7 * first + 3, rng.integers(0, values, rows) + drift)
    places = rng.permutation(len(tau))
    return places[first % len(tau)] * len(tau) + places[second % len(tau)]


@pytest.mark.parametrize("measure", [WuPalmer, LogTaxonomic])
@pytest.mark.parametrize("step", [1, 7])
@pytest.mark.parametrize("kept", [1000, 1 << 20])
def test_a_drifting_window(measure, step, kept, monkeypatch):
    monkeypatch.setattr(sliding_marginal, "MAX_KEPT_DISTANCES", kept)
    d, window = measure(deep_dag(400)), 300
    keys = stream(d.taxonomy, 3000, 60, 1)
    sliding = SlidingCovariance(d, d)
    sliding.slide(count_keys(keys[:window]))
    for end in range(window + step, keys.size, step):
        assert sliding.covariance > 0.0
        start = end - window
        sliding.slide(difference(count_keys(keys[end - step : end]), count_keys(keys[start - step : start])))
        if end % 151 < step:
            check(sliding, keys[start:end], d)
            expected = correlation_from_counts(count_keys(keys[start:end]), d, d)
            assert sliding.correlation == pytest.approx(expected, rel=1e-13)


def literal_sums(keys, d, shift_a, shift_b):
    """Σ N ∘ (X_A N X_B), and Σ n_i n_j x_ij² of both attributes, in exact fractions."""
    x = [
        [[Fraction(float(z)) for z in row] for row in d.matrix(np.arange(len(d.taxonomy))) - s]
        for s in (shift_a, shift_b)
    ]
    pairs = Counter(divmod(int(key), len(d.taxonomy)) for key in keys)
    products = sum(n * m * x[0][a][c] * x[1][b][e] for (a, b), n in pairs.items() for (c, e), m in pairs.items())
    values = [Counter(pair[side] for pair in pairs.elements()) for side in (0, 1)]
    squares = [
        sum(n * m * x[side][a][c] ** 2 for a, n in values[side].items() for c, m in values[side].items())
        for side in (0, 1)
    ]
    return products, squares


def test_small_changes_accumulate_no_rounding():
    """After 30,000 slides all sums are as exact as the initial ones."""
    d, window = WuPalmer(deep_dag(30)), 60
    keys = stream(d.taxonomy, 30_000, 12, 5)
    counts = count_keys(keys[:window])
    pair = SlidingPair(counts, d, d)
    for start in range(keys.size - window):
        change = difference(count_keys(keys[[start + window]]), count_keys(keys[[start]]))
        pair.slide(change, difference(pair.counts, SparseCounts(change.keys, -change.counts)))
    products, squares = literal_sums(keys[-window:], d, pair.a.shift, pair.b.shift)
    assert float(pair._products.values[0]) == pytest.approx(float(products), rel=1e-15, abs=0)
    for side, square in zip((pair.a, pair.b), squares, strict=True):
        assert float(side._squares.values[0]) == pytest.approx(float(square), rel=1e-15, abs=0)


def test_an_invalid_change_changes_nothing():
    d = WuPalmer(deep_dag(100))
    m = len(d.taxonomy)
    rows = [3 * m + 4, 3 * m + 4, 5 * m + 7, 50 * m + 60, 9 * m + 2]
    sliding = SlidingCovariance(d, d)
    sliding.slide(counted(rows))
    before = [sliding.covariance, *sliding.variances]
    for changed, error in (
        (SparseCounts(np.array([3 * m + 4]), np.array([-3])), StatisticsError),
        (SparseCounts(np.array([4 * m + 4]), np.array([-1])), StatisticsError),
        (SparseCounts(np.array([8 * m + 8, m * m + 1]), np.array([1, 1])), UnknownConceptError),
    ):
        with pytest.raises(error):
            sliding.slide(changed)
        assert [sliding.covariance, *sliding.variances] == pytest.approx(before, rel=1e-15)
    check(sliding, rows, d)


def test_an_emptied_window_starts_again():
    d = WuPalmer(deep_dag(100))
    rows = [304, 507, 5060, 902]
    sliding = SlidingCovariance(d, d)
    sliding.slide(counted(rows))
    assert sliding.covariance > 0.0
    sliding.slide(difference(counted([]), counted(rows)))
    with pytest.raises(StatisticsError, match="at least one value"):
        assert sliding.covariance
    sliding.slide(counted(rows[:3]))
    check(sliding, rows[:3], d)


def test_kept_distances_stay_within_the_memory_limit(monkeypatch):
    monkeypatch.setattr(sliding_marginal, "MAX_KEPT_DISTANCES", 2000)
    d = WuPalmer(deep_dag(1000))
    marginal = SlidingMarginal(counted(range(0, 1000, 10)), d)
    for k in range(3000):
        marginal.slide(difference(counted([(k * 77 + 1) % 1000]), counted([(k * 77 - 76) % 1000] if k else [0])))
        assert marginal.value_sums.distances.size <= 2000
    assert marginal.counts.keys.size == 100
    assert marginal.value_sums.row_of.size <= 400
