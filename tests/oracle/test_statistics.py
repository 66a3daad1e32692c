"""Statistics from counts, against the literal n × n formulas of the paper."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.graphs import taxonomies, to_all
from support.large import TAXONOMIES

from stream_masker import (
    LogTaxonomic,
    WuPalmer,
    distance_correlation,
    distance_covariance,
    distance_variance,
    semantic_mean,
    semantic_variance,
)

MEASURES = st.sampled_from([WuPalmer, LogTaxonomic])


@st.composite
def columns(draw, taxonomy):
    """A distance and its taxonomy, for one attribute."""
    tau = draw(taxonomy)
    return draw(MEASURES)(tau), tau


@st.composite
def samples(draw, first, second, most=20):
    """Two distances and n ≥ 1 rows of both attributes as ids."""
    (d_a, tau_a), (d_b, tau_b) = draw(columns(first)), draw(columns(second))
    pairs = st.tuples(st.sampled_from(list(tau_a.ids)), st.sampled_from(list(tau_b.ids)))
    a, b = zip(*draw(st.lists(pairs, min_size=1, max_size=most)), strict=True)
    return list(a), d_a, list(b), d_b


def centred(values, d):
    """2017: equations 15 to 17, for all rows."""
    matrix = d.between(values, values)
    return matrix - matrix.mean(axis=0) - matrix.mean(axis=1)[:, None] + matrix.mean()


def literal_covariance_squared(a, d_a, b, d_b):
    """2017: equation 18, squared."""
    return np.mean(centred(a, d_a) * centred(b, d_b))


def literal_correlation(a, d_a, b, d_b):
    """2017: equation 19."""
    spread = math.sqrt(
        math.sqrt(literal_covariance_squared(a, d_a, a, d_a)) * math.sqrt(literal_covariance_squared(b, d_b, b, d_b))
    )
    return math.sqrt(max(0.0, literal_covariance_squared(a, d_a, b, d_b))) / spread if spread > 1e-9 else 0.0


def exact_wu_palmer(tau, c1, c2):
    lcs = tau.lcs(c1, c2)
    double = 2 * tau.depth[tau.position(lcs)]
    return 1 - Fraction(double, double + tau.ancestors_of(c1)[lcs] + tau.ancestors_of(c2)[lcs])


def literal_mean(values, tau):
    """2017: equation 13 in exact fractions, so that ties are exact."""
    totals = {c: sum(exact_wu_palmer(tau, c, a) for a in values) for c in tau.ids}
    return min(tau.ids, key=lambda c: (totals[c], tau.depth[tau.position(c)], c))


@st.composite
def valued(draw, taxonomy):
    tau = draw(taxonomy)
    return tau, draw(st.lists(st.sampled_from(list(tau.ids)), min_size=1, max_size=20))


@given(sample=valued(taxonomies(most=15)))
def test_mean_over_every_concept_with_exact_ties(sample):
    tau, values = sample
    assert semantic_mean(values, WuPalmer(tau)) == literal_mean(values, tau)
    assert semantic_mean(tau.encode(values), WuPalmer(tau)) == literal_mean(values, tau)


@given(sample=valued(taxonomies()), measure=MEASURES)
def test_variance_is_the_mean_squared_distance_from_the_mean(sample, measure):
    tau, values = sample
    d = measure(tau)
    center = semantic_mean(values, d)
    literal = math.fsum(d(a, center) ** 2 for a in values) / len(values)
    assert semantic_variance(values, d) == pytest.approx(literal, rel=1e-12, abs=0)


@given(sample=samples(taxonomies(), taxonomies()))
def test_covariance_variance_and_correlation(sample):
    a, d_a = sample[:2]
    literal = literal_covariance_squared(*sample)
    assert distance_covariance(*sample) ** 2 == pytest.approx(max(0.0, literal), rel=1e-9, abs=1e-15)
    assert distance_variance(a, d_a) ** 2 == pytest.approx(literal_covariance_squared(a, d_a, a, d_a), abs=1e-14)
    assert distance_correlation(*sample) == pytest.approx(literal_correlation(*sample), abs=1e-6)
    assert 0.0 <= distance_correlation(*sample) <= 1.0


def correlated(rng, first, second, rows=500):
    """Rows of values of two taxonomies, as positions, of which the second depends on the first."""
    a, b = (rng.choice(len(tau), 60, replace=False).astype(np.int32) for tau in (first, second))
    chosen = rng.integers(0, 60, rows)
    return a[chosen], b[(chosen + rng.geometric(0.3, rows)) % 60]


@pytest.mark.parametrize("measure", [WuPalmer, LogTaxonomic])
@pytest.mark.parametrize("name", TAXONOMIES)
def test_large_taxonomies(name, measure):
    """All statistics agree with their n × n formulas to 1e-12, and sMean with the totals of every concept."""
    tau = TAXONOMIES[name]()
    d = measure(tau)
    a, b = correlated(np.random.default_rng(7), tau, tau)
    delta_a, delta_b = centred(a, d), centred(b, d)
    squares = [np.mean(x * y) for x, y in ((delta_a, delta_b), (delta_a, delta_a), (delta_b, delta_b))]
    assert squares[0] > 1e-6
    covariance, of_a, of_b = map(math.sqrt, squares)
    assert distance_covariance(a, d, b, d) == pytest.approx(covariance, rel=0, abs=1e-12)
    assert distance_variance(a, d) == pytest.approx(of_a, rel=0, abs=1e-12)
    assert distance_correlation(a, d, b, d) == pytest.approx(covariance / math.sqrt(of_a * of_b), rel=0, abs=1e-12)
    totals = sum(np.bincount(a)[value] * to_all(d, value) for value in np.unique(a))
    tied = np.flatnonzero(totals <= totals.min() * (1 + 1e-12))
    mean = min(tied.tolist(), key=lambda c: (tau.depth[c], tau.ids[c]))
    assert semantic_mean(a, d) == tau.ids[mean]
    assert semantic_variance(a, d) == pytest.approx(np.mean(to_all(d, mean)[a] ** 2), rel=0, abs=1e-12)
