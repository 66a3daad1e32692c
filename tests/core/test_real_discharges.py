"""The published statistics of the real discharges: (diag_1, diag_2) on ICD-9-CM, 101,388 pairs, to four digits."""

import numpy as np
import pytest
from support.data import discharges, icd9cm

from stream_masker.core.batch import Batch, Column
from stream_masker.core.distance import WuPalmer
from stream_masker.core.ontology import ConceptMap
from stream_masker.core.statistics import compute_statistics, count_batch
from stream_masker.core.statistics.covariance import PairTable


@pytest.fixture(scope="module")
def distance():
    return WuPalmer(icd9cm().taxonomy())


@pytest.fixture(scope="module")
def counts(distance):
    """Counts of the records with two known codes (leading zeros restored, or the longest known prefix)."""
    tau = distance.taxonomy
    concepts = ConceptMap(tau, unknown="ancestor", ontology=icd9cm())
    codes = np.array([[concepts.resolve(row[a])[0] for a in ("diag_1", "diag_2")] for row in discharges()], np.int32)
    known = codes[(codes >= 0).all(axis=1)]
    columns = tuple(Column(np.ascontiguousarray(known[:, j])) for j in range(2))
    return count_batch(Batch(len(known), columns), [len(tau)] * 2)


@pytest.fixture(scope="module")
def statistics(counts, distance):
    return compute_statistics(counts, ["diag_1", "diag_2"], [distance] * 2, version=1)


def test_the_number_of_pairs_with_two_known_codes(counts):
    assert counts.records == 101_388
    assert [len(column.keys) for column in counts.values] == [716, 748]
    assert len(counts.pairs[0, 1].keys) == 18_432


def test_published_statistics(statistics):
    assert round(float(statistics.correlation[0, 1]), 4) == 0.2587
    assert round(float(statistics.covariance[0, 1]), 5) == 0.03736
    assert np.round(np.diag(statistics.covariance), 4).tolist() == [0.1371, 0.1521]
    assert statistics.projection == 0.0


def test_the_computation_by_blocks_agrees(statistics, counts, distance):
    table = PairTable.of(counts.pairs[0, 1], distance, distance)
    assert table.covariance_squared_by_blocks() == pytest.approx(statistics.covariance[0, 1] ** 2, rel=1e-10)


def test_the_mean_is_the_chapter_of_the_circulatory_system(statistics):
    assert statistics.mean == {"diag_1": "390-459", "diag_2": "390-459"}
    assert sum(statistics.rollup["diag_1"].values()) == pytest.approx(1.0)
