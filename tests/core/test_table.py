"""The table of distances against a scan of all concepts."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.graphs import dags, taxonomies
from support.large import TAXONOMIES

from stream_masker import LogTaxonomic, WuPalmer
from stream_masker.core.table import DistanceTable

MEASURES = st.sampled_from([WuPalmer, LogTaxonomic])


@st.composite
def tables(draw, taxonomy, **previous):
    """A table of some anchors of a taxonomy."""
    tau = draw(taxonomy)
    anchors = draw(st.lists(st.integers(0, len(tau) - 1), max_size=8))
    return DistanceTable.build(draw(MEASURES)(tau), np.array(anchors, np.int32), **previous)


def scan(d, positions):
    """(n, m): the distances of some positions to every concept, pair by pair."""
    return d.between(positions, np.arange(len(d.taxonomy)))


def assert_exact(table):
    """The table has the distances of all anchors to all concepts, and consistent classes."""
    expected = scan(table.distance, table.anchors)
    np.testing.assert_array_equal(table.levels[table.rows][:, table.class_of], expected)
    np.testing.assert_array_equal(
        table.levels[table.rows[:, table.class_of[table.anchors]]], expected[:, table.anchors]
    )
    np.testing.assert_array_equal(np.sort(table.members), np.arange(table.class_of.size))
    for j, (start, end) in enumerate(zip(table.starts[:-1], table.starts[1:], strict=True)):
        members = table.members[start:end]
        assert (np.diff(members) > 0).all()
        assert (table.class_of[members] == j).all()
    assert (np.bincount(table.class_of)[table.class_of[table.anchors]] == 1).all()
    assert (np.diff(table.levels) > 0).all()
    assert table.levels[0] == 0.0


@given(table=tables(taxonomies(most=40)))
def test_it_is_exact_over_all_concepts(table):
    assert_exact(table)
    assert table.anchors[0] == 0
    np.testing.assert_array_equal(table.index_of(table.anchors), np.arange(table.anchors.size))
    others = np.setdiff1d(np.arange(len(table.distance.taxonomy)), table.anchors)
    assert (table.index_of(others) == -1).all()


@given(table=tables(dags(least=10, most=40)), data=st.data())
def test_rows_that_stay_are_kept(table, data):
    anchors = np.array(data.draw(st.lists(st.integers(0, len(table.distance.taxonomy) - 1), max_size=8)), np.int32)
    following = DistanceTable.build(table.distance, anchors, table)
    afresh = DistanceTable.build(table.distance, anchors)
    np.testing.assert_array_equal(following.rows, afresh.rows)
    np.testing.assert_array_equal(following.class_of, afresh.class_of)
    assert DistanceTable.build(table.distance, table.anchors, table) is table


@given(table=tables(taxonomies(most=40)))
def test_rows_of_any_concept(table):
    """For the classes of anchors and their ancestors alone, and for all classes, which then take their place."""
    tau = table.distance.taxonomy
    every = np.arange(len(tau), dtype=np.int32)
    expected, own = scan(table.distance, every)[:, table.members[table.starts[:-1]]], table.class_of
    expected[every, own] = 0.0
    near = own[np.unique(tau.closure.above(table.anchors)[1])]
    rows = table.all_rows[table.slots(every, whole=False)]
    np.testing.assert_array_equal(table.levels[rows[:, near]], expected[:, near])
    for position in every:
        row = table.all_rows[table.slots(np.array([position]))[0]]
        np.testing.assert_array_equal(table.levels[row], expected[position])


@given(table=tables(taxonomies(most=40)), data=st.data())
def test_totals_are_those_of_a_scan(table, data):
    size = table.anchors.size
    counts = np.array(data.draw(st.lists(st.integers(0, 9), min_size=size, max_size=size)))
    expected = counts @ scan(table.distance, table.anchors)
    np.testing.assert_allclose(table.totals(counts)[table.class_of], expected, rtol=1e-12)


@pytest.mark.parametrize(
    ("name", "measure", "size"), [("ICD-9-CM", WuPalmer, 700), ("HPO", LogTaxonomic, 60), ("RF2", WuPalmer, 60)]
)
def test_it_is_exact_on_large_taxonomies(name, measure, size):
    tau = TAXONOMIES[name]()
    table = DistanceTable.build(measure(tau), np.random.default_rng(1).choice(len(tau), size, replace=False))
    assert_exact(table)
    assert table.rows.shape[1] < 0.6 * len(tau)
