"""The order of concepts against a literal computation, and errors of invalid links."""

from itertools import pairwise

import networkx as nx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.graphs import edges

from stream_masker.core.ontology import Ontology
from stream_masker.core.ontology import data as links
from stream_masker.errors import CycleError, SeveralRootsError


def literal_order(parents):
    """Concepts and depths, ordered by depth, then by the position of the first parent, then by id."""
    network = nx.DiGraph([(p, c) for c, above in parents.items() for p in above])
    network.add_nodes_from(parents)
    depth = {}
    for concept in nx.topological_sort(network):
        depth[concept] = 1 + max((depth[p] for p in parents[concept]), default=0)
    position = {}
    for level in range(1, max(depth.values()) + 1):
        at_level = [c for c in parents if depth[c] == level]
        first = {c: min((position[p] for p in parents[c]), default=-1) for c in at_level}
        for concept in sorted(at_level, key=lambda c: (first[c], c)):
            position[concept] = len(position)
    return list(position), [depth[c] for c in position]


@given(edges(most_parents=3, most=40), st.randoms())
def test_concepts_are_ordered_by_depth_first_parent_and_id(given_links, random):
    random.shuffle(given_links)
    tau = Ontology.from_edges(given_links).taxonomy()
    parents = {c: [p for child, p in given_links if child == c] for link in given_links for c in link}
    ids, depths = literal_order(parents)
    assert (list(tau.ids), tau.depth.tolist()) == (ids, depths)
    assert all(set(tau.parents_of(c)) == set(parents[c]) for c in ids)
    assert all(set(tau.children_of(p)) == {c for c in ids if p in parents[c]} for p in ids)
    for offsets, indices in [(tau.parent_offsets, tau.parents), (tau.child_offsets, tau.children)]:
        assert all((np.diff(indices[a:b]) > 0).all() for a, b in pairwise(offsets))


@given(edges(most_parents=2, most=30), st.data())
def test_the_error_names_the_concepts_of_a_cycle(given_links, data):
    concepts = sorted({c for link in given_links for c in link})
    network = nx.DiGraph(given_links)
    top = data.draw(st.sampled_from(concepts))
    bottom = data.draw(st.sampled_from(sorted(nx.ancestors(network, top) | {top})))
    network.add_edge(top, bottom)
    with pytest.raises(CycleError) as caught:
        Ontology.from_edges(network.edges)
    cycle = caught.value.culprits
    assert len(set(cycle)) == len(cycle)
    assert all(network.has_edge(*link) for link in zip(cycle, cycle[1:] + cycle[:1], strict=True))


def test_a_long_chain_needs_no_deep_recursion():
    chain = [(f"{k + 1:06}", f"{k:06}") for k in range(50_000)]
    tau = Ontology.from_edges(chain).taxonomy()
    assert (tau.ids[-1], tau.depth_of("050000")) == ("050000", 50_001)
    with pytest.raises(CycleError, match=r"and 49996 more$"):
        Ontology.from_edges([*chain, ("000000", "050000")])


def test_concepts_without_links_are_roots():
    none = np.empty(0, np.int64)
    assert links.order_links(["r"], none, none)[0].tolist() == [0]
    with pytest.raises(SeveralRootsError, match="a, b"):
        links.order_links(["b", "a"], none, none)


def test_arrays_are_read_only():
    for leaf_parents in ("r", "a"):
        tau = Ontology.from_edges([("a", "r"), ("b", "a"), ("b", "r"), ("c", leaf_parents)]).taxonomy()
        tree = Ontology.from_edges([("a", "r"), ("b", leaf_parents)]).taxonomy()
        arrays = [tau.parents, tau.children, tau.depth, tau.leaf, tau.closure.ancestors, tree.tree.parent]
        arrays += [tau.parent_offsets, tau.child_offsets, tau.closure.offsets, tree.tree.level_lo, tau.ids.blob]
        for array in arrays:
            with pytest.raises(ValueError, match="read-only"):
                array[0] = 1
