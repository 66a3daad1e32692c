"""Marginality and its statistics (2013): the examples of the paper, literal computations, and properties."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.graphs import taxonomies

from stream_masker import LogTaxonomic, Ontology, WuPalmer
from stream_masker.core.marginality import marginality, marginality_mean, marginality_variance

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
def samples(draw):
    tau = draw(taxonomies())
    values = draw(st.lists(st.sampled_from(list(tau.ids)), min_size=1, max_size=12))
    return values, draw(st.sampled_from([LogTaxonomic(tau), WuPalmer(tau)]))


@given(samples())
def test_statistics_equal_literal_computations(sample):
    a, d = sample
    m_a = literal_marginality(a, d)
    np.testing.assert_allclose(marginality(a, d), m_a, atol=1e-12)
    assert m_a[a.index(marginality_mean(a, d))] == pytest.approx(min(m_a), abs=1e-12)
    assert marginality_variance(a, d) == pytest.approx(sum(m_a) / len(a), abs=1e-12)


def test_a_more_frequent_value_is_less_marginal():
    before, after = marginality(SAMPLE, D)[0], marginality([*SAMPLE, *["lung cancer"] * 9], D)[0]
    assert after == pytest.approx(before)
    assert marginality_mean([*SAMPLE, *["lung cancer"] * 9], D) == "lung cancer"
