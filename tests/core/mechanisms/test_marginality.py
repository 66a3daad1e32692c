"""Marginality and its statistics (2013): the examples of the paper, and literal computations."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.graphs import FIGURE_2013, taxonomies

from stream_masker import LogTaxonomic, Ontology, WuPalmer
from stream_masker.core.mechanisms.grouped import GroupValues
from stream_masker.core.mechanisms.microaggregation import group_means, marginality_variance

D = LogTaxonomic(Ontology.from_edges(FIGURE_2013).taxonomy())
"""2013, Figure 1, with as many ancestors as its printed distances need."""

SAMPLE = ["lung cancer", "paranoia", "schizophrenia", "vascular dementia", *["Alzheimer"] * 2, *["meningitis"] * 2]
SAMPLE += ["multiple sclerosis"]

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

MISPRINT = math.log2(12 / 7) - 0.65
"""Printed 0.65 for Alzheimer with meningitis and with sclerosis, which no taxonomy gives together with the other
entries: with 2 of 7 ancestors in common, as Alzheimer and paranoia have, it is log2(12/7) = 0.78."""

OTHERS = {"meningitis", "multiple sclerosis"}
WRONG = np.array([["Alzheimer" in {a, b} and bool({a, b} & OTHERS) for b in SAMPLE] for a in SAMPLE])


def marginality(values, d):
    """Equation 2: the sum of the distances of each value to all others."""
    return d.matrix(values).sum(axis=1)


def mean_and_variance(values, d):
    """Equations 3 and 5."""
    sample, every = GroupValues.of(d.encode(values), d), np.arange(len(values))
    (mean,) = set(group_means(sample, [every], every.astype(np.uint64)).tolist())
    return d.taxonomy.ids[mean], marginality_variance(sample)


def test_the_examples_of_2013_with_its_two_misprints():
    np.testing.assert_allclose(D.matrix(SAMPLE), PRINTED + MISPRINT * WRONG, atol=0.0051)
    np.testing.assert_allclose(PRINTED.sum(axis=1), MARGINALITIES, atol=1e-9)
    found = marginality(SAMPLE, D)
    np.testing.assert_allclose(found, MARGINALITIES + MISPRINT * WRONG.sum(axis=1), atol=0.03)
    mean, variance = mean_and_variance(SAMPLE, D)
    assert mean == "Alzheimer"
    assert variance == pytest.approx(5.79 + MISPRINT * WRONG.sum() / 9, abs=0.02)
    more = [*SAMPLE, *["lung cancer"] * 9]
    assert marginality(more, D)[0] == pytest.approx(found[0])
    assert mean_and_variance(more, D)[0] == "lung cancer"


@st.composite
def samples(draw):
    tau = draw(taxonomies())
    values = draw(st.lists(st.sampled_from(list(tau.ids)), min_size=1, max_size=12))
    return values, draw(st.sampled_from([LogTaxonomic(tau), WuPalmer(tau)]))


@given(samples())
def test_statistics_equal_literal_computations(sample):
    a, d = sample
    m_a = [math.fsum(d(x, y) for k, y in enumerate(a) if k != j) for j, x in enumerate(a)]
    np.testing.assert_allclose(marginality(a, d), m_a, atol=1e-12)
    mean, variance = mean_and_variance(a, d)
    assert m_a[a.index(mean)] == pytest.approx(min(m_a), abs=1e-8)
    assert variance == pytest.approx(sum(m_a) / len(a), abs=1e-12)
