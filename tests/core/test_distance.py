"""The worked examples of the papers, and general properties of the distances."""

import numpy as np
import pytest
from hypothesis import given
from support.graphs import FIGURE_1, FIGURE_2013, taxonomies, to_all

from stream_masker.core.distance import DISTANCES, LogTaxonomic, WuPalmer, distance_on
from stream_masker.core.ontology import Ontology
from stream_masker.errors import ParameterError, UnknownConceptError


def test_wu_palmer_in_figure_1_of_2017():
    d = WuPalmer(Ontology.from_edges(FIGURE_1).taxonomy())
    assert d.taxonomy.depth[d.taxonomy.position("Inflammatory disorder of digestive tract")] == 6
    assert d("gingivitis", "gastritis") == pytest.approx(1 - 12 / 14, abs=1e-15)
    assert d("gastritis", "gastritis") == 0


def test_the_taxonomy_of_the_domain_in_2017_holds_all_descendants_of_its_subsumer():
    onto = Ontology.from_edges([*FIGURE_1, ("Disease", "Clinical finding"), ("Pain", "Clinical finding")])
    tau = onto.taxonomy(domain=["gastritis", "hematoma", "gingivitis"])
    assert tau.root == "Disease"
    assert set(tau.ids) == {c for link in FIGURE_1 for c in link}


@pytest.mark.parametrize("name", sorted(DISTANCES))
@given(tau=taxonomies())
def test_a_distance_is_symmetric_bounded_zero_only_for_equal_concepts_and_the_same_in_all_methods(name, tau):
    d = distance_on(tau, name)
    matrix = d.matrix(tau.ids)
    assert (matrix == matrix.T).all()
    assert ((matrix > 0) == ~np.eye(len(tau), dtype=bool)).all()
    assert (matrix < 1).all()
    assert (d.between(np.arange(len(tau), dtype=np.int32), tau.ids) == matrix).all()
    assert all((to_all(d, c) == matrix[c]).all() for c in range(len(tau)))
    assert [d(a, b) for a in tau.ids for b in tau.ids] == matrix.ravel().tolist()


def test_distances_are_equal_if_they_are_the_same_measure_on_the_same_taxonomy():
    tau = Ontology.from_edges(FIGURE_1).taxonomy()
    assert WuPalmer(tau) == distance_on(Ontology.from_edges(FIGURE_1).taxonomy(), "wu_palmer")
    assert len({WuPalmer(tau), WuPalmer(tau), LogTaxonomic(tau)}) == 2
    assert WuPalmer(tau) != WuPalmer(Ontology.from_edges(FIGURE_2013).taxonomy())


def test_errors_name_unknown_concepts_by_index_only():
    d = WuPalmer(Ontology.from_edges(FIGURE_1).taxonomy())
    with pytest.raises(UnknownConceptError, match="value 1 of 2") as caught:
        d.matrix(["gastritis", "a secret"])
    assert "secret" not in str(caught.value)
    assert caught.value.position == 1
    with pytest.raises(UnknownConceptError, match="position 0"):
        d.pairs(np.array([99]), np.array([0]))


def test_pairs_of_different_lengths_and_unknown_distances_are_errors():
    d = WuPalmer(Ontology.from_edges(FIGURE_1).taxonomy())
    with pytest.raises(ParameterError, match="not 1 and 2"):
        d.pairs(["gastritis"], ["gastritis", "hematoma"])
    with pytest.raises(ParameterError, match="use wu_palmer or log_taxonomic"):
        distance_on(d.taxonomy, "lin")
