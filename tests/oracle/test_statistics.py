"""Statistics from counts, against the literal n × n formulas of the paper."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.graphs import taxonomies

from stream_masker.core.distance import LogTaxonomic, WuPalmer
from stream_masker.core.ontology import Ontology
from stream_masker.core.statistics import (
    covariance,
    distance_correlation,
    distance_covariance,
    distance_variance,
    marginal,
    mean,
    semantic_mean,
    semantic_variance,
)
from stream_masker.core.statistics.counts import count_keys, pair_counts
from stream_masker.core.statistics.covariance import PairTable
from stream_masker.core.statistics.marginal import Marginal

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
    pairs = st.tuples(st.sampled_from(tau_a.ids), st.sampled_from(tau_b.ids))
    a, b = zip(*draw(st.lists(pairs, min_size=1, max_size=most)), strict=True)
    return list(a), d_a, list(b), d_b


def literal_centred(values, d):
    """2017: equations 15 to 17."""
    n = len(values)
    sd = d.between(values, values).tolist()
    row = [sum(sd[i]) / n for i in range(n)]
    column = [sum(sd[i][j] for i in range(n)) / n for j in range(n)]
    grand = sum(map(sum, sd)) / n**2
    return [[sd[i][j] - row[i] - column[j] + grand for j in range(n)] for i in range(n)]


def literal_covariance_squared(a, d_a, b, d_b):
    """2017: equation 18, squared."""
    n, delta_a, delta_b = len(a), literal_centred(a, d_a), literal_centred(b, d_b)
    return sum(delta_a[i][j] * delta_b[i][j] for i in range(n) for j in range(n)) / n**2


def literal_correlation(a, d_a, b, d_b):
    """2017: equation 19."""
    spread = math.sqrt(
        math.sqrt(literal_covariance_squared(a, d_a, a, d_a)) * math.sqrt(literal_covariance_squared(b, d_b, b, d_b))
    )
    return math.sqrt(max(0.0, literal_covariance_squared(a, d_a, b, d_b))) / spread if spread > 1e-9 else 0.0


def exact_wu_palmer(tau, c1, c2):
    lcs = tau.lcs(c1, c2)
    double = 2 * tau.depth_of(lcs)
    return 1 - Fraction(double, double + tau.path(c1, lcs) + tau.path(c2, lcs))


def literal_mean(values, tau):
    """2017: equation 13 in exact fractions, so that ties are exact."""
    totals = {c: sum(exact_wu_palmer(tau, c, a) for a in values) for c in tau.ids}
    return min(tau.ids, key=lambda c: (totals[c], tau.depth_of(c), c))


@st.composite
def valued(draw, taxonomy):
    tau = draw(taxonomy)
    return tau, draw(st.lists(st.sampled_from(tau.ids), min_size=1, max_size=20))


@given(sample=valued(taxonomies(most=15)))
def test_mean_over_every_concept_with_exact_ties(sample):
    tau, values = sample
    assert semantic_mean(values, WuPalmer(tau)) == literal_mean(values, tau)
    assert semantic_mean(tau.encode(values), WuPalmer(tau)) == literal_mean(values, tau)


@given(sample=valued(taxonomies(most=15)))
def test_mean_by_the_other_measure(sample):
    tau, values = sample
    d = LogTaxonomic(tau)
    totals = {c: math.fsum(d(c, a) for a in values) for c in tau.ids}
    least = min(totals.values())
    tied = [c for c in tau.ids if totals[c] <= least * (1 + 1e-12)]
    assert semantic_mean(values, d) == min(tied, key=lambda c: (tau.depth_of(c), c))


@given(
    sample=valued(taxonomies(most=20)),
    measure=MEASURES,
    hubs=st.lists(st.integers(1, 12), min_size=1, max_size=3),
    hint=st.integers(0, 1),
)
def test_the_search_finds_all_concepts_of_minimal_total(sample, measure, hubs, hint):
    tau, values = sample
    counts = count_keys(tau.encode(values).astype(np.int64))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(mean, "SEARCH_HUBS", tuple(hubs))
        patch.setattr(mean, "EVALUATION_BATCH", 2)
        search = mean.MeanSearch(measure(tau), counts.keys.astype(np.int32), counts.counts.astype(np.float64))
        concepts, found = search.minimal(hint=hint)
    totals = measure(tau).matrix(tau.ids) @ np.bincount(tau.encode(values), minlength=len(tau))
    others = np.setdiff1d(np.arange(len(tau)), concepts)
    assert len(set(concepts.tolist())) == concepts.size
    np.testing.assert_allclose(found, totals[concepts], rtol=1e-12, atol=1e-12)
    assert (totals[others] > totals.min() * (1 + 1e-12)).all()


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


@given(sample=samples(taxonomies(), taxonomies()), cells=st.integers(1, 200))
def test_blocks_of_any_size_agree(sample, cells):
    literal = literal_covariance_squared(*sample)
    assert blockwise(table_of(*sample), cells) == pytest.approx(literal, rel=1e-9, abs=1e-15)


def wide_dag(size):
    """A DAG in which a third of the concepts has a second parent."""
    links = [(f"c{k:04}", f"c{(k - 1) // 3:04}") for k in range(1, size)]
    return Ontology.from_edges(links + [(f"c{k:04}", f"c{(k - 1) // 3 + 1:04}") for k in range(10, size, 3)]).taxonomy()


@pytest.mark.parametrize(("of_a", "of_b"), [(110, 60), (60, 110)])
@pytest.mark.parametrize("measure", [WuPalmer, LogTaxonomic])
def test_more_values_than_one_block_holds(measure, of_a, of_b):
    rng = np.random.default_rng(7)
    d = measure(wide_dag(400))
    a, b = rng.choice(400, of_a, replace=False), rng.choice(400, of_b, replace=False)
    rows = rng.integers(0, of_a, 500)
    sample = [d.taxonomy.decode(a[rows]), d, d.taxonomy.decode(b[(rows + rng.geometric(0.3, 500)) % of_b]), d]
    literal = literal_covariance_squared(*sample)
    assert literal > 1e-6
    for cells in (1, 3 * 32**2, 1 << 25):
        assert blockwise(table_of(*sample), cells) == pytest.approx(literal, rel=1e-9)


def table_of(a, d_a, b, d_b):
    pair = pair_counts(d_a.encode(a), d_b.encode(b), len(d_b.taxonomy))
    return PairTable.of(pair, d_a, d_b)


def blockwise(table, cells):
    """sdCov² with a budget of ``cells``, so that matrices come in blocks."""
    fresh = PairTable(
        Marginal(table.a.counts, table.a.d),
        Marginal(table.b.counts, table.b.d),
        table.table,
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(covariance, "MAX_HELD_CELLS", cells)
        patch.setattr(marginal, "MAX_HELD_CELLS", cells)
        return fresh.covariance**2
