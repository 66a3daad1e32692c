"""The order relation of 2019, on the values of its figures.

Figure 1 itself is an image. The taxonomy here satisfies every statement of the text about Figures 1 to 4: the ranks of
the values, neuropathy as the most distant value, its interval, and the distance 0.67 of hepatic coma and herpes zoster
ophthalmicus.
"""

from __future__ import annotations

import numpy as np
import pytest

from stream_masker.core.distance import WuPalmer
from stream_masker.core.mechanisms.swapping.rank.order import (
    ascending_rank,
    most_distant_records,
    most_distant_values,
    record_distances,
)
from stream_masker.core.ontology import Ontology
from stream_masker.errors import ParameterError

LINKS = [
    ("Disorder of nervous system", "Disease"),
    ("Disorder of liver", "Disease"),
    ("Disorder of glucose", "Disease"),
    ("Disorder of eye", "Disease"),
    ("Disorder of ear", "Disease"),
    ("Varicella-zoster infection", "Disease"),
    ("Coma", "Disorder of nervous system"),
    ("Hepatic coma", "Coma"),
    ("Hepatic coma", "Disorder of liver"),
    ("Hypoglycemic coma", "Coma"),
    ("Hypoglycemic coma", "Disorder of glucose"),
    ("Nerve disorder", "Disorder of nervous system"),
    ("Peripheral nerve disorder", "Nerve disorder"),
    ("Neuropathy", "Peripheral nerve disorder"),
    ("Herpes zoster", "Varicella-zoster infection"),
    ("Herpes zoster ophthalmicus", "Herpes zoster"),
    ("Herpes zoster ophthalmicus", "Disorder of eye"),
    ("Herpes zoster auricularis", "Herpes zoster"),
    ("Herpes zoster auricularis", "Disorder of ear"),
    ("Neurological varicella", "Varicella-zoster infection"),
    ("Neurological varicella", "Disorder of nervous system"),
]

FIGURE_4 = [
    "Disorder of nervous system",
    "Neurological varicella",
    "Coma",
    "Neuropathy",
    "Herpes zoster ophthalmicus",
    "Herpes zoster auricularis",
    "Hepatic coma",
    "Hypoglycemic coma",
]


@pytest.fixture(scope="module")
def d():
    return WuPalmer(Ontology.from_edges(LINKS).taxonomy())


def test_the_rank_depends_on_the_reference(d):
    values = ["Disorder of nervous system", "Coma", "Neuropathy", "Hepatic coma", "Hypoglycemic coma"]
    by_coma, by_neuropathy = (ascending_rank(values, reference, d) for reference in ("Coma", "Neuropathy"))
    assert by_coma[0] == "Coma"
    assert set(by_coma[1:3]) == {"Hepatic coma", "Hypoglycemic coma"}
    assert by_neuropathy[:3] == ["Neuropathy", "Disorder of nervous system", "Coma"]
    assert set(by_neuropathy[3:]) == {"Hepatic coma", "Hypoglycemic coma"}


def test_the_order_is_total_but_not_antisymmetric(d):
    assert d("Hepatic coma", "Coma") == d("Hypoglycemic coma", "Coma")
    assert ascending_rank(["Hepatic coma", "Hypoglycemic coma"], "Coma", d) == ["Hepatic coma", "Hypoglycemic coma"]
    assert ascending_rank(["Hypoglycemic coma", "Hepatic coma"], "Coma", d) == ["Hypoglycemic coma", "Hepatic coma"]


def test_figure_4(d):
    assert most_distant_values(FIGURE_4, d) == ("Neuropathy",)
    ranked = ascending_rank(FIGURE_4, "Neuropathy", d)
    assert ranked[:2] == ["Neuropathy", "Disorder of nervous system"]
    assert set(ranked[2:4]) == {"Coma", "Neurological varicella"}
    assert set(ranked[4:6]) == {"Hepatic coma", "Hypoglycemic coma"}
    assert set(ranked[6:]) == {"Herpes zoster ophthalmicus", "Herpes zoster auricularis"}
    assert round(d("Hepatic coma", "Herpes zoster ophthalmicus"), 2) == 0.67


def test_the_most_distant_value_has_the_largest_sum(d):
    sums = d.matrix(FIGURE_4).sum(axis=1)
    assert FIGURE_4[int(sums.argmax())] == "Neuropathy"
    assert most_distant_values(["Coma"] * 3 + ["Hepatic coma"], d) == ("Hepatic coma",)
    assert most_distant_values(["Hepatic coma", "Coma", "Hypoglycemic coma"], d) == (
        "Hepatic coma",
        "Hypoglycemic coma",
    )


def test_the_farthest_value_is_the_last_of_the_rank(d):
    far = most_distant_values(FIGURE_4, d, reference="Neuropathy")
    assert set(far) == {"Herpes zoster ophthalmicus", "Herpes zoster auricularis"}


def test_the_distance_of_records_is_the_mean_distance_of_their_values(d):
    records = [("Coma", "Neuropathy"), ("Hepatic coma", "Neuropathy"), ("Herpes zoster", "Coma")]
    between = record_distances(records, records, [d, d])
    assert between[0, 1] == pytest.approx(d("Coma", "Hepatic coma") / 2)
    assert between[0, 2] == pytest.approx((d("Coma", "Herpes zoster") + d("Neuropathy", "Coma")) / 2)
    np.testing.assert_array_equal(between, between.T)
    assert most_distant_records(records, [d, d]) == (2,)
    assert most_distant_records(records, [d, d], reference=records[2]) == (0, 1)


def test_no_values_are_rejected(d):
    with pytest.raises(ParameterError, match="no records"):
        most_distant_values([], d)
