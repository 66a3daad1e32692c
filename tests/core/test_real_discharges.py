"""The published statistics of the real discharges: (diag_1, diag_2) on ICD-9-CM, 101,388 pairs, to four digits."""

import numpy as np
import pytest
from support.data import icd9cm
from support.real_codes import as_batch, real_pairs

from stream_masker.core.distance import WuPalmer
from stream_masker.core.mechanisms import MECHANISMS, Pram
from stream_masker.core.statistics import compute_statistics, count_batch


@pytest.fixture(scope="module")
def distance():
    return WuPalmer(icd9cm().taxonomy())


@pytest.fixture(scope="module")
def counts(distance):
    return count_batch(as_batch(real_pairs()), [len(distance.taxonomy)] * 2)


def test_the_number_of_pairs_with_two_known_codes(counts):
    assert counts.records == 101_388
    assert [len(column.keys) for column in counts.values] == [716, 748]
    assert len(counts.pairs[0, 1].keys) == 18_432


def test_published_statistics(counts, distance):
    """The mean is the chapter of the circulatory system."""
    statistics = compute_statistics(counts, ["diag_1", "diag_2"], [distance] * 2, version=1)
    assert round(float(statistics.correlation[0, 1]), 4) == 0.2587
    assert round(float(statistics.covariance[0, 1]), 5) == 0.03736
    assert np.round(np.diag(statistics.covariance), 4).tolist() == [0.1371, 0.1521]
    assert statistics.projection == 0.0
    assert statistics.mean == {"diag_1": "390-459", "diag_2": "390-459"}


@pytest.mark.scheduled
@pytest.mark.parametrize(
    ("name", "parameters", "small", "large"),
    [
        ("rank_swapping", {}, 0.12, 0.65),
        ("rank_swapping", {"algorithm": "multivariate"}, 0.14, 0.47),
        ("microaggregation", {}, 0.32, 0.57),
    ],
)
def test_large_groups_protect_less(name, parameters, small, large, counts, distance):
    """The table of docs/methods.md."""
    taxonomies = dict.fromkeys(("diag_1", "diag_2"), distance.taxonomy)
    for records, expected in ((50, small), (1_000, large)):
        made = MECHANISMS[name](taxonomies, group_records=records, seed=b"sixteen bytes...", **parameters)
        found = made.with_statistics(made.compute(counts, version=1), counts).risk()
        assert found.value["diag_1"].vulnerability == pytest.approx(expected, abs=0.01)


def test_certain_guesses_are_counted_although_several_originals_are_possible(counts, distance):
    made = Pram(dict.fromkeys(("diag_1", "diag_2"), distance.taxonomy), retention=0.9, seed=b"sixteen bytes...")
    made = made.with_statistics(made.compute(counts, version=1), counts)
    for learned in made.risk(draws=10).value.values():
        assert learned.certain == pytest.approx(1.0, abs=0.01)
        assert learned.greatest < 1.0
