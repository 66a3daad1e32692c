"""Incremental statistics of successive windows, against statistics computed from the counts alone."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.graphs import dags, taxonomies, trees

from stream_masker.core.batch import ABSENT, Batch, Column
from stream_masker.core.distance import LogTaxonomic, WuPalmer
from stream_masker.core.ontology import Ontology
from stream_masker.core.statistics import IncrementalStatistics, compute_statistics, count_batch
from stream_masker.core.statistics.sliding import covariance
from stream_masker.core.statistics.window_statistics import WindowStatistics

MEASURES = st.sampled_from([WuPalmer, LogTaxonomic])


def compute(columns, distances, incremental=None, **more):
    batch = Batch(len(columns[0]), tuple(Column(np.array(column, np.int32)) for column in columns))
    counts = count_batch(batch, [len(d.taxonomy) for d in distances])
    return compute_statistics(counts, "pqrs"[: len(columns)], distances, version=1, incremental=incremental, **more)


def assert_same(updated, computed_anew):
    assert updated.mean == computed_anew.mean
    assert updated.variance == computed_anew.variance
    assert updated.covariance**2 == pytest.approx(computed_anew.covariance**2, abs=1e-12)
    assert updated.correlation == pytest.approx(computed_anew.correlation, abs=1e-5)
    assert (updated.observed, updated.novel, updated.rollup) == (
        computed_anew.observed,
        computed_anew.novel,
        computed_anew.rollup,
    )


@st.composite
def records(draw, distances):
    """Rows of values, some absent; each attribute has at least two distinct values."""
    value = [st.integers(ABSENT, len(d.taxonomy) - 1) for d in distances]
    rows = draw(st.lists(st.tuples(*value), max_size=25))
    return [(1,) * len(distances), (0,) * len(distances), *rows]


@settings(max_examples=60)
@given(data=st.data(), taus=st.lists(taxonomies(most=12), min_size=1, max_size=3), measure=MEASURES)
def test_incremental_statistics_equal_computed_ones(data, taus, measure):
    distances = [measure(tau) for tau in taus]
    incremental = IncrementalStatistics(distances)
    for rows in data.draw(st.lists(records(distances), min_size=2, max_size=6)):
        columns = list(zip(*rows, strict=True))
        assert_same(compute(columns, distances, incremental), compute(columns, distances))


@given(data=st.data(), taus=st.lists(trees(most=12), min_size=2, max_size=2))
def test_in_trees_they_are_equal_to_the_last_bit(data, taus):
    distances = [WuPalmer(tau) for tau in taus]
    incremental = IncrementalStatistics(distances)
    for rows in data.draw(st.lists(records(distances), min_size=2, max_size=4)):
        columns = list(zip(*rows, strict=True))
        assert compute(columns, distances, incremental).to_dict() == compute(columns, distances).to_dict()


def wide_dag(size):
    links = [(f"c{k:04}", f"c{(k - 1) // 3:04}") for k in range(1, size)]
    return Ontology.from_edges(links + [(f"c{k:04}", f"c{(k - 1) // 3 + 1:04}") for k in range(10, size, 3)]).taxonomy()


@pytest.mark.parametrize("absent_share", [0.0, 0.1])
def test_a_long_stream_in_steps_of_one_percent_of_the_window(absent_share, monkeypatch):
    """Rows with an absent value make the rows of a pair differ from those of its attributes."""
    distances = [WuPalmer(wide_dag(300)), LogTaxonomic(wide_dag(200)), WuPalmer(wide_dag(100))]
    rng = np.random.default_rng(3)
    columns = [(rng.random(8000) ** 2 * len(d.taxonomy)).astype(np.int32) for d in distances]
    columns = [np.where(rng.random(8000) < absent_share, ABSENT, column) for column in columns]
    incremental, computed = IncrementalStatistics(distances), []
    monkeypatch.setattr(WindowStatistics, "mean", lambda *_: computed.append("mean"))
    monkeypatch.setattr(covariance, "PairTable", None)
    for start in range(0, 5000, 50):
        updated = compute([column[start : start + 3000] for column in columns], distances, incremental)
    monkeypatch.undo()
    assert not computed
    assert_same(updated, compute([column[start : start + 3000] for column in columns], distances))


@given(tau=dags(least=6, most=12))
def test_attributes_can_lose_and_regain_common_rows(tau):
    distances = [WuPalmer(tau), WuPalmer(tau)]
    incremental = IncrementalStatistics(distances)
    together, apart = [[0, 1, 2, 3], [1, 2, 3, 4]], [[0, 1, 2, 3, *[ABSENT] * 4], [*[ABSENT] * 4, 1, 2, 3, 4]]
    for columns in (together, apart, together, apart):
        assert_same(compute(columns, distances, incremental), compute(columns, distances))
