"""Record linkage against its definition, and k-anonymity."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.graphs import taxonomies

from stream_masker.core.batch import ABSENT, Batch, Column
from stream_masker.core.distance import LogTaxonomic, WuPalmer
from stream_masker.core.linkage import least_class, record_linkage
from stream_masker.core.ontology import Ontology


def scalars(*columns):
    return tuple(Column(np.array(column, np.int32)) for column in columns)


def literal(original, masked, matrices):
    """The probability of each record, from all pairs of records."""

    def apart(first, second):
        total = 0.0
        for matrix, a, b in zip(matrices, first, second, strict=True):
            total += sum(matrix[x, y] for x, y in zip(a, b, strict=False)) + abs(len(a) - len(b))
        return total

    result = []
    for i, record in enumerate(original):
        distances = np.array([apart(record, other) for other in masked])
        nearest = distances < distances.min() + 1e-9
        result.append(nearest[i] / nearest.sum())
    return result


@st.composite
def maskings(draw):
    tau = draw(taxonomies(most=12))
    n = draw(st.integers(1, 12))
    values = st.integers(0, len(tau) - 1)
    lengths = draw(st.lists(st.integers(0, 3), min_size=n, max_size=n))

    def side():
        return [
            [draw(st.lists(values, min_size=1, max_size=1)), draw(st.lists(values, min_size=m, max_size=m))]
            for m in lengths
        ]

    return tau, side(), side()


def batch_of(rows):
    offsets = np.concatenate([[0], np.cumsum([len(row[1]) for row in rows])]).astype(np.int64)
    elements = np.array([c for row in rows for c in row[1]], np.int32)
    return Batch(len(rows), (Column(np.array([row[0][0] for row in rows], np.int32)), Column(elements, offsets)))


@given(maskings(), st.sampled_from([WuPalmer, LogTaxonomic]))
def test_probabilities_follow_the_definition(case, distance):
    tau, original, masked = case
    d = distance(tau)
    found = record_linkage(batch_of(original), batch_of(masked).columns, [d, d])
    np.testing.assert_allclose(found, literal(original, masked, [d.matrix(np.arange(len(tau)))] * 2))


def test_an_absent_value_is_far_from_a_present_one():
    flat = WuPalmer(Ontology.from_edges([(f"v{i}", "root") for i in range(20)]).taxonomy())
    before, after = scalars([1, ABSENT]), scalars([2, ABSENT])
    assert record_linkage(Batch(2, before), after, [flat]).tolist() == [1.0, 1.0]


@pytest.mark.parametrize(
    ("columns", "least"),
    [
        (([1, 1, 2, 3],), 1),
        (([1, 1, 2, 2], [1, 2, 3, 3]), 1),
        (([1, 1, 2, 2], [1, 1, 3, 3]), 2),
        (([1, -1, -1, 1], [1, 1, 1, 1]), 2),
        (([],), 0),
    ],
)
def test_records_are_as_anonymous_as_the_rarest_of_them(columns, least):
    assert least_class(Batch(len(columns[0]), scalars(*columns))) == least


def test_the_records_of_one_unit_count_once():
    assert least_class(replace(Batch(6, scalars([1, 1, 1, 2, 2, 2])), units=np.array([1, 2, 3, 4, 4, 5]))) == 2
