"""Depths, paths, subsumers and distances against literal computations with networkx, from the definitions."""

import math

import networkx as nx
import numpy as np
import pytest
from hypothesis import given
from support.graphs import dags, edges, taxonomies, trees

from stream_masker.core.distance import LogTaxonomic, WuPalmer
from stream_masker.core.ontology import Ontology


def graph_of(tau):
    links = nx.DiGraph()
    links.add_nodes_from(tau.ids)
    links.add_edges_from((c, p) for c in tau.ids for p in tau.parents_of(c))
    return links


def longest_depth(links, concept, root):
    return max(len(path) for path in nx.all_simple_paths(links, concept, root)) if concept != root else 1


def subsumers(links, concept):
    return nx.descendants(links, concept) | {concept}


def literal_lcs(links, root, c1, c2):
    common = subsumers(links, c1) & subsumers(links, c2)
    return min(
        common,
        key=lambda s: (
            -longest_depth(links, s, root),
            nx.shortest_path_length(links, c1, s) + nx.shortest_path_length(links, c2, s),
            s,
        ),
    )


def literal_wu_palmer(links, root, c1, c2):
    """2017: equations 11 and 12, to the letter."""
    lcs = literal_lcs(links, root, c1, c2)
    double = 2 * longest_depth(links, lcs, root)
    return 1 - double / (double + nx.shortest_path_length(links, c1, lcs) + nx.shortest_path_length(links, c2, lcs))


def literal_log_taxonomic(links, c1, c2):
    """2013: equation 1, to the letter."""
    t1, t2 = subsumers(links, c1), subsumers(links, c2)
    return math.log2(1 + (len(t1 | t2) - len(t1 & t2)) / len(t1 | t2))


@given(tau=taxonomies(most=10))
def test_depth_path_and_subsumer(tau):
    links = graph_of(tau)
    for c1 in tau.ids:
        assert tau.depth_of(c1) == longest_depth(links, c1, tau.root)
        assert tau.ancestors_of(c1) == {s: nx.shortest_path_length(links, c1, s) for s in subsumers(links, c1)}
        assert [tau.lcs(c1, c2) for c2 in tau.ids] == [literal_lcs(links, tau.root, c1, c2) for c2 in tau.ids]


@given(tau=taxonomies(most=10))
def test_distances(tau):
    links = graph_of(tau)
    expected = [[literal_wu_palmer(links, tau.root, a, b) for b in tau.ids] for a in tau.ids]
    np.testing.assert_allclose(WuPalmer(tau).matrix(tau.ids), expected, rtol=0, atol=1e-15)
    expected = [[literal_log_taxonomic(links, a, b) for b in tau.ids] for a in tau.ids]
    np.testing.assert_allclose(LogTaxonomic(tau).matrix(tau.ids), expected, rtol=0, atol=1e-15)


@given(tau=trees())
def test_a_tree_s_descendants_of_one_level_are_contiguous(tau):
    links, table = graph_of(tau), tau.tree
    for s, concept in enumerate(tau.ids):
        start, end = table.level_offsets[s], table.level_offsets[s + 1]
        for k in range(end - start):
            inside = tau.ids[table.level_lo[start + k] : table.level_hi[start + k]]
            below = {c for c in nx.ancestors(links, concept) | {concept} if tau.path(c, concept) == k}
            assert set(inside) == below
            assert below


@given(links=edges(most_parents=3))
def test_positions_put_parents_first_and_do_not_depend_on_the_order_of_the_links(links):
    tau = Ontology.from_edges(links).taxonomy()
    assert all(tau.position(p) < tau.position(c) for c in tau.ids for p in tau.parents_of(c))
    assert (np.diff(tau.depth) >= 0).all()
    again = Ontology.from_edges(links[::-1]).taxonomy()
    assert again.ids == tau.ids
    assert again == tau


@given(tau=dags(least=3))
def test_a_cut_below_a_concept_holds_its_descendants_and_their_links(tau):
    links = graph_of(tau)
    onto = Ontology.from_parents({c: tau.parents_of(c) for c in tau.ids})
    for root in tau.ids:
        cut = onto.taxonomy(root=root)
        assert set(cut.ids) == nx.ancestors(links, root) | {root}
        assert all(set(cut.parents_of(c)) == set(tau.parents_of(c)) & set(cut.ids) for c in cut.ids if c != root)


def test_the_literal_twin_is_not_the_fast_code_in_disguise():
    diamond = Ontology.from_edges([("b", "a"), ("c", "b"), ("c", "a"), ("d", "c"), ("e", "a"), ("d", "e")]).taxonomy()
    assert diamond.depth_of("d") == 4
    assert diamond.path("d", "a") == 2
    assert WuPalmer(diamond)("d", "b") == pytest.approx(1 - 4 / 6)
