"""Sensitive groups: the built-in lists exist in the classifications, and own groups are checked."""

from __future__ import annotations

import pytest
from support.data import icd9cm

from stream_masker.core.ontology import Ontology
from stream_masker.core.risk.risk import SENSITIVE_LISTS, limited_groups, present_groups
from stream_masker.errors import ParameterError

SMALL = Ontology.from_edges([("a", "all"), ("b", "all"), ("a1", "a"), ("a2", "a"), ("ab", "a"), ("ab", "b")]).taxonomy()


def members(tau, mask) -> set[str]:
    return set(tau.decode(mask.nonzero()[0]))


@pytest.fixture(scope="module")
def icd10cm():
    return Ontology.load("icd10cm").taxonomy()


def test_each_root_is_a_concept_of_its_classification_and_below_no_other_one(icd10cm):
    for entry in SENSITIVE_LISTS.values():
        assert entry["law"]
        for tau, roots in ((icd10cm, entry["icd10cm"]), (icd9cm().taxonomy(), entry["icd9cm"])):
            assert [root for root in roots if root not in tau] == []
            assert [root for root in roots if set(roots) & (set(tau.ancestors_of(root)) - {root})] == []


def test_the_lists_hold_the_codes_that_their_laws_name(icd10cm):
    ten, nine = (present_groups(tau) for tau in (icd10cm, icd9cm().taxonomy()))
    expected = {
        "hiv": ("B20", "042"),
        "mental_disorders": ("F32.9", "296.20"),
        "substance_use": ("F11.20", "304.00"),
        "pregnancy_and_abortion": ("O03.9", "634.90"),
        "sexually_transmitted_infections": ("A54.00", "098.0"),
        "abuse": ("T74.12XA", "995.81"),
    }
    for name, (code, old) in expected.items():
        assert code in members(icd10cm, ten[name])
        assert old in members(icd9cm().taxonomy(), nine[name])
        assert not ten[name][icd10cm.position("J18.9")]
    assert "F17.210" not in members(icd10cm, ten["substance_use"])
    assert "305.1" not in members(icd9cm().taxonomy(), nine["substance_use"])


def test_own_groups_are_subtrees_also_of_a_graph():
    own = {"first": {"limit": 0.3, "roots": ["b"]}, "second": {"limit": 0.2, "roots": ["a1", "b"]}}
    (found,) = limited_groups(own, {"x": SMALL})
    assert {name: (members(SMALL, mask), limit) for name, (mask, limit) in found.items()} == {
        "first": ({"b", "ab"}, 0.3),
        "second": ({"a1", "b", "ab"}, 0.2),
    }


def test_a_taxonomy_that_is_a_part_of_the_classification_has_the_groups_that_it_holds():
    part = Ontology.load("icd10cm").taxonomy(root="F20-F29")
    assert list(present_groups(part)) == ["mental_disorders"]
    assert present_groups(part)["mental_disorders"].all()
    assert present_groups(SMALL) == {}


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"hvi": 0.3}, "'hvi': use one of hiv, mental_disorders"),
        ({"hiv": 0.3}, "'hiv': no attribute's ontology holds"),
        ({"own": {"limit": 0.3, "roots": ["c"]}}, "'own': no attribute's ontology holds"),
        ({"own": {"limit": 3.0, "roots": ["b"]}}, "sensitive own"),
        ("hiv", "give a limit"),
    ],
)
def test_wrong_groups_are_refused_with_what_is_allowed(given, message):
    with pytest.raises(ParameterError, match=message):
        limited_groups(given, {"x": SMALL})
