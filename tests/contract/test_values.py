"""The values that mechanisms write: always values of the data, never the root that only joins them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stream_masker.core.mechanisms import MECHANISMS, Microaggregation, Pram
from stream_masker.core.ontology import ConceptMap, Ontology
from stream_masker.core.ontology.concepts import UNKNOWN
from stream_masker.errors import OntologyError, ParameterError, UnknownConceptError

SEED = b"sixteen bytes or more"
ROOT = "any odor"
VALUES = ["almond", "foul", "musty", "none", "spicy"]
ONTOLOGY = Ontology.from_values(VALUES, root=ROOT)
TAU = ONTOLOGY.taxonomy()
SIZE = 240

OPTIONS = [
    *((name, {"k": SIZE // 2} if name == "rank_swapping" else {}) for name in MECHANISMS),
    *(
        ("semantic_noise", {"alpha": 5.0, "reference": reference, "rounding": rounding, "candidates": candidates})
        for reference in ("mean", "pair", "root")
        for rounding in ("ceil", "calibrated")
        for candidates in ("all", "leaves", "observed")
        if (rounding, candidates) != ("ceil", "observed")
    ),
    ("semantic_noise", {"alpha": 5.0, "distance": "log_taxonomic"}),
    ("exponential", {"epsilon": 0.001}),
    ("exponential", {"epsilon": 0.001, "candidates": "leaves", "distance": "log_taxonomic"}),
    ("microaggregation", {"hybrid": True}),
    ("semantic_transport", {"alpha": 10.0, "certainty": 1.0}),
]


def calibrated(name, options, seed):
    rng = np.random.default_rng(seed)
    mechanism = MECHANISMS[name]({"a": TAU, "b": TAU}, seed=SEED, **options)
    records = [dict(zip("ab", (VALUES[i] for i in pair), strict=True)) for pair in rng.integers(0, 5, (SIZE, 2))]
    mechanism.learn_many(records)
    mechanism.calibrate()
    return mechanism, records


@pytest.mark.parametrize(("name", "options"), OPTIONS, ids=str)
def test_masks_are_values(name, options):
    mechanism, records = calibrated(name, options, 1)
    masked = mechanism.mask_many(records, keys=[b"%d" % i for i in range(SIZE)])
    assert masked != records
    assert {value for record in masked for value in record.values()} <= set(VALUES)


@pytest.mark.parametrize("name", [name for name, kind in MECHANISMS.items() if not kind.needs_group])
def test_no_other_concept_has_a_probability(name):
    mechanism, _ = calibrated(name, {}, 2)
    for value in VALUES:
        assert set(mechanism.channel("a", value)) <= set(VALUES)


LEAVES = [(name, options) for name, options in OPTIONS if options.get("candidates") == "leaves"]


@pytest.mark.parametrize(("name", "options"), LEAVES, ids=str)
def test_leaves_of_icd10cm_are_billable_codes(name, options):
    """Of any values, categories and blocks included, and of records whose values are all equal.

    ``tests/core/ontology/test_ontology.py`` shows that the leaves of the ontology are the billable codes.
    """
    tau = Ontology.load("icd10cm").taxonomy()
    mechanism = MECHANISMS[name]({"a": tau, "b": tau}, seed=SEED, **options)
    codes = np.random.default_rng(3).integers(0, len(tau), (500, 2))
    codes[::10, 1] = codes[::10, 0]
    records = [{"a": tau.ids[a], "b": tau.ids[b]} for a, b in codes.tolist()]
    mechanism.learn_many(records)
    mechanism.calibrate()
    masked = mechanism.mask_many(records, keys=[b"%d" % i for i in range(len(records))])
    assert tau.leaf[tau.encode([value for record in masked for value in record.values()])].all()


@given(st.lists(st.text(min_size=1, max_size=5), min_size=2, unique=True), st.text(min_size=1, max_size=5))
def test_only_the_values_are_found(values, root):
    if root in values:
        with pytest.raises(ParameterError, match="root that is none of them"):
            Ontology.from_values(values, root=root)
        return
    tau = Ontology.from_values(values, root=root).taxonomy()
    assert (tau.find(values) > 0).all()
    assert tau.find([root]).tolist() == [tau.find_one(root)] == [-1]
    assert ConceptMap(tau, unknown="ancestor").find(root).position != 0


@pytest.mark.parametrize("written", [ROOT, ROOT.upper(), f" {ROOT} "])
def test_the_root_is_not_a_value(written):
    concepts = ConceptMap(TAU, ontology=ONTOLOGY)
    assert concepts.find(written).position == UNKNOWN
    with pytest.raises(UnknownConceptError):
        Microaggregation({"a": TAU}, seed=SEED).learn_one({"a": ROOT})


def test_the_root_cannot_be_a_target_of_a_mapping_or_a_matrix():
    with pytest.raises(OntologyError, match="outside the taxonomy"):
        ConceptMap(TAU, mapping={"smell": ROOT})
    matrix = {ROOT: {ROOT: 1.0}, "foul": {"foul": 1.0}}
    with pytest.raises(ParameterError, match="which is not in its taxonomy"):
        Pram({"a": TAU}, matrices={"a": matrix}, seed=SEED)


def test_a_taxonomy_whose_root_is_a_value_is_different():
    other = Ontology.from_edges([(value, ROOT) for value in VALUES]).taxonomy()
    assert other != TAU
    assert other.find([ROOT]) == [0]
