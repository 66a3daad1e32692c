"""Depths, paths, subsumers and distances against literal computations with networkx."""

import math

import networkx as nx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.graphs import dags, taxonomies

from stream_masker import LogTaxonomic, Ontology, WuPalmer


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
    """2017: equations 11 and 12, computed literally."""
    lcs = literal_lcs(links, root, c1, c2)
    double = 2 * longest_depth(links, lcs, root)
    return 1 - double / (double + nx.shortest_path_length(links, c1, lcs) + nx.shortest_path_length(links, c2, lcs))


def literal_log_taxonomic(links, c1, c2):
    """2013: equation 1, computed literally."""
    t1, t2 = subsumers(links, c1), subsumers(links, c2)
    return math.log2(1 + (len(t1 | t2) - len(t1 & t2)) / len(t1 | t2))


@given(tau=taxonomies(most=10))
def test_depth_path_and_subsumer(tau):
    links = graph_of(tau)
    for c1 in tau.ids:
        assert tau.depth[tau.position(c1)] == longest_depth(links, c1, tau.root)
        assert tau.ancestors_of(c1) == {s: nx.shortest_path_length(links, c1, s) for s in subsumers(links, c1)}
        assert [tau.lcs(c1, c2) for c2 in tau.ids] == [literal_lcs(links, tau.root, c1, c2) for c2 in tau.ids]


@given(tau=dags(least=3))
def test_a_subtaxonomy_holds_the_descendants_of_its_root_and_their_links(tau):
    links = graph_of(tau)
    onto = Ontology.from_edges([(c, p) for c in tau.ids for p in tau.parents_of(c)])
    for root in tau.ids:
        subtaxonomy = onto.taxonomy(root=root)
        kept = set(subtaxonomy.ids)
        assert kept == nx.ancestors(links, root) | {root}
        assert all(set(subtaxonomy.parents_of(c)) == set(tau.parents_of(c)) & kept for c in kept if c != root)


def literal_matrix(tau, measure):
    """(m, m): the literal distances of all concepts by position."""
    links = graph_of(tau)
    if measure is LogTaxonomic:
        return np.array([[literal_log_taxonomic(links, a, b) for b in tau.ids] for a in tau.ids])
    return np.array([[literal_wu_palmer(links, tau.root, a, b) for b in tau.ids] for a in tau.ids])


def all_pairs(tau):
    first, second = np.indices((len(tau), len(tau)), dtype=np.int32)
    return first.ravel(), second.ravel()


@pytest.mark.parametrize("measure", [WuPalmer, LogTaxonomic])
@given(tau=taxonomies(most=12), data=st.data())
def test_matrices_have_the_literal_distances_as_levels(measure, tau, data):
    positions = st.lists(st.integers(0, len(tau) - 1), min_size=1, max_size=8).map(lambda p: np.array(p, np.int32))
    a, b = data.draw(positions), data.draw(positions)
    d, expected = measure(tau), literal_matrix(tau, measure)
    np.testing.assert_array_equal(d.levels[d.level_matrix(a, b)], d.between(a, b))
    np.testing.assert_allclose(d.between(a, b), expected[np.ix_(a, b)], rtol=0, atol=1e-15)
    assert (np.diff(d.levels) > 1e-9).all()


@pytest.mark.parametrize("measure", [WuPalmer, LogTaxonomic])
@pytest.mark.parametrize("more", [[], [("s", "c001"), ("s", "c099"), ("t", "s"), ("t", "c150")]])
def test_long_paths(measure, more):
    chain = [(f"c{k:03}", f"c{k - 1:03}") for k in range(1, 200)]
    branches = [(f"b{k:03}", f"c{k:03}") for k in range(0, 200, 3)]
    tau = Ontology.from_edges(chain + branches + more).taxonomy()
    d, (a, b) = measure(tau), all_pairs(tau)
    expected = np.array([d(one, other) for one in tau.ids for other in tau.ids])
    np.testing.assert_array_equal(d.pairs(a, b), expected)
    matrix = expected.reshape(len(tau), -1)
    np.testing.assert_array_equal(d.matrix(np.arange(len(tau))), matrix)
    np.testing.assert_array_equal(d.between(np.arange(100), np.arange(20, 90)), matrix[:100, 20:90])
