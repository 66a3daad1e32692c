"""The published statistics of the real discharges: (diag_1, diag_2) on ICD-9-CM, 101,388 pairs, to four digits."""

import numpy as np
import pytest
from support.data import icd9cm
from support.real_codes import as_batch, real_pairs

from stream_masker.core.distance import WuPalmer
from stream_masker.core.mechanisms import MECHANISMS, Pram
from stream_masker.core.risk.channel import confident_share, joint_law
from stream_masker.core.risk.floor import determined_share
from stream_masker.core.risk.records import value_law
from stream_masker.core.risk.risk import CERTAIN
from stream_masker.core.statistics import compute_statistics, count_batch


@pytest.fixture(scope="module")
def distance():
    return WuPalmer(icd9cm().taxonomy())


def counted(codes, distance):
    return count_batch(as_batch(codes), [len(distance.taxonomy)] * 2)


@pytest.fixture(scope="module")
def counts(distance):
    return counted(real_pairs(), distance)


@pytest.fixture(scope="module")
def some_counts(distance):
    """Counts of every 300th record."""
    return counted(real_pairs()[:, ::300], distance)


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


def test_the_mean_is_the_chapter_of_the_circulatory_system(statistics):
    assert statistics.mean == {"diag_1": "390-459", "diag_2": "390-459"}
    assert sum(statistics.rollup["diag_1"].values()) == pytest.approx(1.0)


def determined_and_certain(made, counts):
    """Return for each attribute the share of changed values that masks determine, and the share of certain guesses."""
    made = made.with_statistics(made.compute(counts, version=1), counts)
    for j, column in enumerate(counts.values):
        values, prior = value_law(column)
        channel = made.attribute_channel(j, values, counts)
        joint = joint_law(prior, channel.rows)
        yield determined_share(joint, prior, channel.unchanged), confident_share(joint, CERTAIN)


@pytest.mark.parametrize(
    "name", sorted({n for n, one in MECHANISMS.items() if not one.needs_group} - {"vicus", "random"})
)
def test_no_method_determines_a_changed_code_by_default(name, some_counts, distance):
    made = MECHANISMS[name](dict.fromkeys(("diag_1", "diag_2"), distance.taxonomy), seed=b"sixteen bytes...")
    assert [determined for determined, _ in determined_and_certain(made, some_counts)] == [0.0, 0.0]


def rare(*given):
    """A row of the scheduled run: another one in this run shows the same of its method."""
    return pytest.param(*given, marks=pytest.mark.scheduled)


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("name", "parameters", "small", "large"),
    [
        ("rank_swapping", {}, 0.12, 0.65),
        rare("rank_swapping", {"multivariate": True}, 0.14, 0.47),
        rare("microaggregation", {}, 0.32, 0.57),
    ],
)
def test_large_groups_protect_less(name, parameters, small, large, counts, distance):
    """The table of docs/security/attacks.md. Scheduled: methods whose small groups the test below masks, too."""
    taxonomies = dict.fromkeys(("diag_1", "diag_2"), distance.taxonomy)
    for records, expected in ((50, small), (1_000, large)):
        made = MECHANISMS[name](taxonomies, group_records=records, seed=b"sixteen bytes...", **parameters)
        found = made.with_statistics(made.compute(counts, version=1), counts).risk()
        assert found.vulnerability["diag_1"] == pytest.approx(expected, abs=0.01)


@pytest.mark.exhaustive
@pytest.mark.parametrize("records", [50, pytest.param(1_000, marks=pytest.mark.scheduled)])
@pytest.mark.parametrize(
    ("name", "parameters", "small", "large"),
    [
        ("rank_swapping", {}, (0.11, 0.14, 0.17), (0.64, 0.74, 0.80)),
        rare("rank_swapping", {"multivariate": True}, (0.11, 0.17, 0.26), (0.44, 0.65, 0.80)),
        ("microaggregation", {}, (0.28, 0.51, 0.79), (0.56, 0.81, 0.95)),
        rare("microaggregation", {"hybrid": True}, (0.08, 0.10, 0.10), (0.28, 0.49, 0.63)),
    ],
)
def test_several_masks_of_a_person_tell_more(name, parameters, small, large, records, counts, distance):
    """The table of docs/security/attacks.md.

    Scheduled: its large groups, which the test above masks once, and variants of methods.
    """
    taxonomies = dict.fromkeys(("diag_1", "diag_2"), distance.taxonomy)
    made = MECHANISMS[name](taxonomies, group_records=records, seed=b"sixteen bytes...", **parameters)
    made = made.with_statistics(made.compute(counts, version=1), counts)
    found = [made.repeated_risk(repeats=n, draws=4_000).given_value["diag_1"] for n in (1, 5, 16)]
    assert found == pytest.approx(small if records == 50 else large, abs=0.02)


def test_certain_guesses_of_codes_that_stay_are_not_determined(counts, distance):
    made = Pram(dict.fromkeys(("diag_1", "diag_2"), distance.taxonomy), retention=0.9, seed=b"sixteen bytes...")
    for determined, certain in determined_and_certain(made, counts):
        assert determined == 0.0
        assert certain == pytest.approx(1.0, abs=0.01)
