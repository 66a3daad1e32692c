"""The preorder walk of a taxonomy: a permutation in which each subtree of first parents is contiguous."""

from __future__ import annotations

import numpy as np
import pytest
from support.large import snomed_shaped

from stream_masker.core.ontology import Ontology, Taxonomy
from stream_masker.core.ontology.graph import first_parents_of, preorder_of


@pytest.mark.parametrize("tau", [Ontology.load("icd10cm").taxonomy(), snomed_shaped(5_000)], ids=["tree", "dag"])
def test_the_descendants_by_first_parents_follow_their_concept(tau: Taxonomy):
    parents = first_parents_of(tau.parent_offsets, tau.parents)
    index = preorder_of(parents)
    last = index.copy()
    for c in range(len(tau) - 1, 0, -1):
        last[parents[c]] = max(last[parents[c]], last[c])
    descendants = np.ones(len(tau), np.int64)
    for c in range(len(tau) - 1, 0, -1):
        descendants[parents[c]] += descendants[c]
    assert (np.sort(index) == np.arange(len(tau))).all()
    assert (last - index + 1 == descendants).all()


def test_the_first_parent_is_the_one_of_least_position():
    tau = Ontology.from_edges([("a", "root"), ("b", "root"), ("c", "b"), ("c", "a")]).taxonomy()
    parents = first_parents_of(tau.parent_offsets, tau.parents)
    assert parents[tau.position("c")] == min(tau.position("a"), tau.position("b"))
    assert parents[0] == 0


def test_two_concepts():
    tau = Ontology.from_edges([("a", "root")]).taxonomy()
    assert preorder_of(first_parents_of(tau.parent_offsets, tau.parents)).tolist() == [0, 1]
