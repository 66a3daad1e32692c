"""Marginality and its statistics (2013): the examples of the paper, literal computations, and properties."""

import math
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.graphs import taxonomies

from stream_masker import Ontology, WuPalmer
from stream_masker.core.marginality import (
    SDistance,
    marginality,
    marginality_covariance,
    marginality_mean,
    marginality_variance,
)
from stream_masker.distances import LogTaxonomic
from stream_masker.errors import ParameterError, StatisticsError

FIGURE_1 = Ontology.from_edges(
    [
        ("neoplasm", "disease"),
        ("mental disorder", "disease"),
        ("nervous disease", "disease"),
        ("lung cancer", "neoplasm"),
        ("paranoia", "mental disorder"),
        ("schizophrenia", "mental disorder"),
        ("dementia", "mental disorder"),
        ("vascular dementia", "dementia"),
        ("degenerative", "nervous disease"),
        ("alzheimer", "dementia"),
        ("alzheimer", "degenerative"),
        ("meningitis", "nervous disease"),
        ("sclerosis", "nervous disease"),
    ]
).taxonomy()
"""2013, Figure 1, with as many ancestors as its printed distances need: 3 of lung cancer, paranoia, schizophrenia,
meningitis and sclerosis, 4 of vascular dementia, 6 of Alzheimer (itself included)."""

D = LogTaxonomic(FIGURE_1)

SAMPLE = [
    "lung cancer",
    "paranoia",
    "schizophrenia",
    "vascular dementia",
    "alzheimer",
    "alzheimer",
    "meningitis",
    "meningitis",
    "sclerosis",
]

PRINTED = np.array(
    [
        [0, 0.85, 0.85, 0.87, 0.91, 0.91, 0.85, 0.85, 0.85],
        [0.85, 0, 0.58, 0.68, 0.78, 0.78, 0.85, 0.85, 0.85],
        [0.85, 0.58, 0, 0.68, 0.78, 0.78, 0.85, 0.85, 0.85],
        [0.87, 0.68, 0.68, 0, 0.65, 0.65, 0.87, 0.87, 0.87],
        [0.91, 0.78, 0.78, 0.65, 0, 0, 0.65, 0.65, 0.65],
        [0.91, 0.78, 0.78, 0.65, 0, 0, 0.65, 0.65, 0.65],
        [0.85, 0.85, 0.85, 0.87, 0.65, 0.65, 0, 0, 0.58],
        [0.85, 0.85, 0.85, 0.87, 0.65, 0.65, 0, 0, 0.58],
        [0.85, 0.85, 0.85, 0.87, 0.65, 0.65, 0.58, 0.58, 0],
    ]
)
"""The distance matrix of Example 1."""

MARGINALITIES = [6.94, 6.22, 6.22, 6.14, 5.07, 5.07, 5.3, 5.3, 5.88]
"""Table 1."""

UNREACHABLE = [{"alzheimer", "meningitis"}, {"alzheimer", "sclerosis"}]
"""Printed 0.65, which no taxonomy gives together with the other entries: with 2 of 7 ancestors in common, as Alzheimer
and paranoia have, it is log2(12/7) = 0.78."""


def test_all_printed_distances_except_two():
    for j, first in enumerate(SAMPLE):
        for k, second in enumerate(SAMPLE):
            if {first, second} in UNREACHABLE:
                assert D(first, second) == pytest.approx(math.log2(12 / 7))
                assert PRINTED[j, k] == 0.65
            else:
                assert abs(D(first, second) - PRINTED[j, k]) <= 0.0051


def test_table_1_corrected_by_the_two_entries():
    found = marginality(SAMPLE, D)
    for j, value in enumerate(SAMPLE):
        more = sum({value, other} in UNREACHABLE for other in SAMPLE) * (math.log2(12 / 7) - 0.65)
        assert found[j] == pytest.approx(MARGINALITIES[j] + more, abs=0.03)
    np.testing.assert_allclose(PRINTED.sum(axis=1), MARGINALITIES, atol=1e-9)


def test_example_2_alzheimer_is_the_mean():
    assert marginality_mean(SAMPLE, D) == "alzheimer"
    assert marginality(SAMPLE, D).min() == pytest.approx(5.07 + 3 * (math.log2(12 / 7) - 0.65), abs=0.02)


def test_example_3_the_variance():
    assert marginality_variance(SAMPLE, D) == pytest.approx(marginality(SAMPLE, D).mean())
    assert marginality_variance(SAMPLE, D) == pytest.approx(5.79 + 12 * (math.log2(12 / 7) - 0.65) / 9, abs=0.02)


def literal_marginality(values, d):
    return [math.fsum(d(x, y) for k, y in enumerate(values) if k != j) for j, x in enumerate(values)]


@st.composite
def samples(draw, least=1):
    tau = draw(taxonomies())
    n = draw(st.integers(least, 12))
    ids = st.sampled_from(list(tau.ids))
    return [draw(st.lists(ids, min_size=n, max_size=n)) for _ in range(2)], draw(
        st.sampled_from([LogTaxonomic(tau), WuPalmer(tau)])
    )


@given(samples())
def test_statistics_equal_literal_computations(sample):
    (a, b), d = sample
    m_a, m_b = literal_marginality(a, d), literal_marginality(b, d)
    np.testing.assert_allclose(marginality(a, d), m_a, atol=1e-12)
    assert m_a[a.index(marginality_mean(a, d))] == pytest.approx(min(m_a), abs=1e-12)
    assert marginality_variance(a, d) == pytest.approx(sum(m_a) / len(a), abs=1e-12)
    covariance = sum(math.sqrt(x * y) for x, y in zip(m_a, m_b, strict=True)) / len(a)
    assert marginality_covariance(a, d, b, d) == pytest.approx(covariance, abs=1e-12)


def test_a_more_frequent_value_is_less_marginal():
    before, after = marginality(SAMPLE, D)[0], marginality([*SAMPLE, *["lung cancer"] * 9], D)[0]
    assert after == pytest.approx(before)
    assert marginality_mean([*SAMPLE, *["lung cancer"] * 9], D) == "lung cancer"


def test_covariance_needs_pairs_of_values():
    with pytest.raises(ParameterError, match="pairs"):
        marginality_covariance(SAMPLE, D, SAMPLE[:3], D)
    with pytest.raises(StatisticsError):
        marginality_variance([], D)


def literal_s_distance(first, second, columns, numbers, d):
    """2013: equation 7, with variances computed from their definitions."""
    total = 0.0
    for x, y, column in zip(first[0], second[0], columns, strict=True):
        pair = sum(literal_marginality([x, y], d)) / 2
        whole = sum(literal_marginality(column, d)) / len(column)
        total += pair / whole if whole else 0.0
    for x, y, column in zip(first[1], second[1], numbers.T, strict=True):
        whole = np.var(column, ddof=1)
        total += np.var([x, y], ddof=1) / whole if whole else 0.0
    return math.sqrt(total)


@given(samples(least=2), st.integers(0, 1000))
def test_the_s_distance_equals_a_literal_computation(sample, seed):
    random = Random(seed)
    columns, d = sample
    n = len(columns[0])
    numbers = np.array([[random.choice([1.0, 2.5, 7.0]), random.gauss(50, 20)] for _ in range(n)])
    measure = SDistance.of(columns, [d, d], numbers)
    for _ in range(5):
        i, j = random.randrange(n), random.randrange(n)
        first, second = (([column[r] for column in columns], numbers[r].tolist()) for r in (i, j))
        expected = literal_s_distance(first, second, columns, numbers, d)
        assert measure([*first[0], *first[1]], [*second[0], *second[1]]) == pytest.approx(expected, abs=1e-12)


@given(samples(least=3))
def test_the_s_distance_is_a_metric(sample):
    """Theorems 1 and 2: symmetric, 0 for equal records, and subadditive, with the distance of the paper."""
    columns, d = sample
    d = LogTaxonomic(d.taxonomy)
    numbers = np.arange(len(columns[0]), dtype=float)[:, None] ** 2
    measure = SDistance.of(columns, [d, d], numbers)
    records = [[columns[0][r], columns[1][r], numbers[r, 0]] for r in range(3)]
    between = [[measure(x, y) for y in records] for x in records]
    np.testing.assert_allclose(between, np.transpose(between), atol=1e-15)
    assert [between[r][r] for r in range(3)] == [0, 0, 0]
    assert between[0][2] <= between[0][1] + between[1][2] + 1e-12


def test_balanced_attributes_have_equal_mean_squared_distances():
    rng = np.random.default_rng(1)
    column = rng.choice(SAMPLE, 300).tolist()
    numbers = rng.normal(10, 3, (300, 1))
    measure = SDistance.of([column], [D], numbers, balanced=True)
    codes, one = D.encode(column), np.zeros(90_000, np.int32)
    same, repeated = np.zeros((90_000, 1)), np.repeat(numbers, 300, axis=0)
    nominal = measure.pairs([np.repeat(codes, 300)], [np.tile(codes, 300)], same, same) ** 2
    numeric = measure.pairs([one], [one], repeated, np.tile(numbers, (300, 1))) ** 2
    assert nominal.mean() == pytest.approx(1)
    assert numeric.mean() == pytest.approx(299 / 300)
    literal = SDistance.of([column], [D], numbers)
    assert literal.variances[0] == pytest.approx(300 * measure.variances[0])


def test_a_data_set_needs_two_records_and_columns_of_one_length():
    for columns in ([SAMPLE[:1]], [SAMPLE, SAMPLE[:3]]):
        with pytest.raises(StatisticsError):
            SDistance.of(columns, [D] * len(columns))
    with pytest.raises(ParameterError, match="numbers"):
        SDistance((), (), (1.0,)).pairs([], [])
