"""The ``repr`` of mechanisms, statistics and risk: readable, without the seed."""

from __future__ import annotations

import copy
import pickle

import pytest

from stream_masker.core.mechanisms import MECHANISMS, SemanticNoise, mechanism
from stream_masker.core.ontology import ConceptMap, Ontology

TAU = Ontology.from_edges([("x", "root"), ("y", "root"), ("x1", "x"), ("x2", "x"), ("y1", "y")]).taxonomy()
SHOWN = "Taxonomy(root='root', concepts=6, depth=3, tree=True)"
SEED = b"seed that is a secret"
RECORDS = [{"a": code, "b": code} for code in ("x1", "x2", "y1")] * 40


@pytest.mark.parametrize("name", MECHANISMS)
def test_a_mechanism_shows_attributes_and_state_but_not_its_seed(name):
    made = mechanism(name)({"a": TAU, "b": TAU}, window=500, seed=SEED)
    assert repr(made) == f"<{type(made).__name__}({{'a': {SHOWN}, 'b': {SHOWN}}}), no statistics>"
    assert "secret" not in repr(made)


def test_a_calibrated_mechanism_shows_its_statistics_also_as_a_copy():
    noise = SemanticNoise({"a": TAU}, alpha={"a": 0.5}, seed=SEED)
    noise.learn_many(RECORDS)
    noise.calibrate()
    shown = f"<SemanticNoise({{'a': {SHOWN}}}), statistics version 1 of 120 records>"
    assert repr(noise) == repr(copy.copy(noise)) == repr(pickle.loads(pickle.dumps(noise))) == shown


def test_statistics_and_risk_show_rounded_figures_in_one_line():
    noise = SemanticNoise({"a": TAU, "b": TAU}, seed=SEED)
    noise.learn_many(RECORDS)
    statistics = noise.calibrate()
    assert repr(statistics).startswith(
        "Statistics(version=1, records=120, mean={'a': 'x', 'b': 'x'}, variance={'a': 0."
    )
    assert repr(statistics).endswith("correlation=[[1.0, 1.0], [1.0, 1.0]])")
    risk = repr(noise.risk())
    assert risk.startswith("Risk(a: 0.")
    assert "given the value's mask, b: 0." in risk
    assert "given the record's, b: 0." in risk
    assert "\n" not in repr(statistics) + risk


def test_a_concept_map_shows_its_policy():
    assert repr(ConceptMap(TAU, unknown="ancestor")) == f"ConceptMap({SHOWN}, unknown='ancestor')"
