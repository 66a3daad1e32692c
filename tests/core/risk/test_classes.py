"""Classes of equivalent concepts: merging them changes no measure."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.graphs import dags

from stream_masker.core.distance import LogTaxonomic, WuPalmer
from stream_masker.core.ontology import Ontology
from stream_masker.core.risk.channel import conditional_entropy, expected_rank, joint_law, vulnerability
from stream_masker.core.risk.classes import distance_classes, value_classes

WIDE = Ontology.from_edges(
    [(f"b{i}", "root") for i in range(30)] + [(f"l{i}.{j}", f"b{i}") for i in range(30) for j in range(30)]
).taxonomy()


@given(dags(), st.sampled_from([WuPalmer, LogTaxonomic]), st.integers(0, 2**32))
def test_concepts_of_a_class_have_equal_distances_from_every_anchor(tau, measure, seed):
    rng = np.random.default_rng(seed)
    d = measure(tau)
    anchors = np.unique(rng.integers(0, len(tau), 4)).astype(np.int32)
    weights = rng.integers(0, 3, len(tau)).astype(np.float64)
    classes = distance_classes(d, anchors, weights)
    np.testing.assert_array_equal(classes.class_of[anchors], np.arange(anchors.size))
    used = np.flatnonzero(classes.class_of >= 0)
    assert set(used) == {*np.flatnonzero(weights), *anchors}
    same = classes.representatives[classes.class_of[used]]
    np.testing.assert_array_equal(d.between(anchors, used), d.between(anchors, same))
    np.testing.assert_allclose(classes.totals, np.bincount(classes.class_of[used], weights[used], len(classes)))


def test_a_large_taxonomy_has_few_classes():
    anchors = WIDE.encode(["l0.0", "l0.1", "l5.3"])
    assert len(distance_classes(WuPalmer(WIDE), anchors, np.ones(len(WIDE)))) < 15


def test_merged_classes_have_the_same_measures():
    d, values = WuPalmer(WIDE), WIDE.encode(["l0.0", "l0.1", "l5.3", "b7"])
    prior = np.array([0.4, 0.3, 0.2, 0.1])
    weights = np.random.default_rng(1).random(len(WIDE))
    merged = distance_classes(d, values, weights)
    rows = np.exp(-3.0 * d.between(values, merged.representatives)) * merged.totals
    single = value_classes(np.arange(len(WIDE)), len(WIDE))
    all_rows = np.exp(-3.0 * d.between(values, single.representatives)) * weights
    one = joint_law(prior, rows / rows.sum(axis=1, keepdims=True))
    other = joint_law(prior, all_rows / all_rows.sum(axis=1, keepdims=True))
    for measure in (vulnerability, conditional_entropy, expected_rank):
        assert measure(one) == pytest.approx(measure(other))


def test_a_row_is_spread_by_weight():
    d, values = WuPalmer(WIDE), WIDE.encode(["l0.0"])
    weights = np.zeros(len(WIDE))
    weights[WIDE.encode(["l0.0", "l3.1", "l4.1"])] = [1.0, 1.0, 3.0]
    classes = distance_classes(d, values, weights)
    spread = classes.spread(np.array([0.2, 0.8]))
    assert {WIDE.ids[c]: p for c, p in spread.items()} == pytest.approx({"l0.0": 0.2, "l3.1": 0.2, "l4.1": 0.6})
