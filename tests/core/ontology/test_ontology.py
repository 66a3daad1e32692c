"""Ontologies from links and graphs, the order of their concepts, taxonomies, and errors of invalid links."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest
import simple_icd_10_cm
from hypothesis import given
from hypothesis import strategies as st
from support.data import icd9cm
from support.graphs import edges, taxonomies

from stream_masker import UNKNOWN, Ontology
from stream_masker.errors import OntologyError, ParameterError, UnknownConceptError

LINKS = [("a", "r"), ("b", "a"), ("c", "a"), ("c", "r"), ("d", "r")]


@given(edges(most_parents=2, most=30), st.data())
def test_the_error_names_the_concepts_of_a_cycle(given_links, data):
    concepts = sorted({c for link in given_links for c in link})
    network = nx.DiGraph(given_links)
    top = data.draw(st.sampled_from(concepts))
    bottom = data.draw(st.sampled_from(sorted(nx.ancestors(network, top) | {top})))
    network.add_edge(top, bottom)
    with pytest.raises(OntologyError) as caught:
        Ontology.from_networkx(network)
    cycle = caught.value.culprits
    assert len(set(cycle)) == len(cycle)
    assert all(network.has_edge(*link) for link in zip(cycle, cycle[1:] + cycle[:1], strict=True))


def test_a_long_chain_needs_no_deep_recursion():
    chain = [(f"{k + 1:06}", f"{k:06}") for k in range(1_200)]
    tau = Ontology.from_edges(chain).taxonomy()
    assert (tau.ids[-1], tau.depth[tau.position("001200")]) == ("001200", 1_201)
    with pytest.raises(OntologyError, match=r"and 1196 more$"):
        Ontology.from_edges([*chain, ("000000", "001200")])


@pytest.mark.parametrize(
    ("links", "message"),
    [
        ([], "the ontology holds no concept"),
        ([("a", "r"), ("b", "a"), ("a", "b")], "the is-a links form a cycle: [ab], [ab]"),
        ([("a", "a")], "the is-a links form a cycle: a"),
    ],
)
def test_invalid_links_are_refused_with_the_concepts(links, message):
    with pytest.raises(OntologyError, match=f"^{message}$"):
        Ontology.from_edges(links)


def test_several_roots_get_a_common_one_with_a_name_of_its_own():
    onto = Ontology.from_edges([("ROOT", "a"), ("c", "b")])
    assert (onto.root, len(onto)) == ("(ROOT)", 5)
    assert onto.taxonomy().children_of("(ROOT)") == ("a", "b")


def test_an_ontology_survives_networkx():
    onto = Ontology.from_edges(LINKS, labels={"a": "Alpha"}, synonyms={"a": ["First", "A"]})
    network = onto.to_networkx()
    assert set(network.edges) == set(LINKS)
    again = Ontology.from_networkx(network)
    assert again.taxonomy() == onto.taxonomy()
    assert (again.label("a"), again.names_of("a")[1:], again.names_of("b")[1:]) == ("Alpha", ("First", "A"), ())
    assert len(Ontology.from_networkx(nx.DiGraph([("x", "y")]))) == 2


def test_a_taxonomy_has_a_root_or_a_domain():
    onto = Ontology.from_edges(LINKS)
    assert list(onto.taxonomy(root="a").ids) == ["a", "b", "c"]
    assert onto.taxonomy(root="a").parents_of("c") == ("a",)
    assert onto.taxonomy(root="a") is onto.taxonomy(domain=["b", "c"])
    assert onto.taxonomy() is onto.taxonomy(root="r") is onto
    with pytest.raises(ParameterError, match="not both"):
        onto.taxonomy(domain=["b"], root="a")
    for domain, message in (([], "at least one"), ("b", "are one text")):
        with pytest.raises(ParameterError, match=message):
            onto.taxonomy(domain=domain)
    with pytest.raises(UnknownConceptError, match=r"^root='z' is not a concept of the ontology: use one of 5 ids"):
        onto.taxonomy(root="z")
    with pytest.raises(UnknownConceptError, match=r"^value 1 of 2 is not a concept of the taxonomy$"):
        onto.taxonomy(domain=["b", "z"])


def test_concepts_are_found_by_their_exact_ids():
    ids = ["E11.9", "E119", "e11.9", "ß", "SS", "a\0b", "\ud800", " x"]
    tau = Ontology.from_edges([(one, "r") for one in ids]).taxonomy()
    others = ["E.119", "ss", "x", "", None, 3, ["E11.9"], b"ss"]
    assert tau.decode(tau.encode(ids)) == ids
    assert [tau.ids[tau.find(one)] for one in ids] == ids
    for value in [*others, *others]:
        assert tau.find(value) == UNKNOWN
    assert "E119" in tau
    assert not any(one in tau for one in others)
    with pytest.raises(UnknownConceptError, match="value 1 of 2"):
        tau.encode(["SS", "ss"])
    for wrong in ("ss", ["E11.9"], None):
        with pytest.raises(UnknownConceptError, match=r"that is not shown, is not below 'r': use one of 9 ids"):
            tau.position(wrong)


def test_arrays_are_read_only():
    for leaf_parents in ("r", "a"):
        tau = Ontology.from_edges([("a", "r"), ("b", "a"), ("b", "r"), ("c", leaf_parents)]).taxonomy()
        arrays = [tau.parents, tau.depth, tau.leaf, tau.closure.ancestors]
        for array in [*arrays, tau.parent_offsets, tau.closure.offsets]:
            with pytest.raises(ValueError, match="read-only"):
                array[0] = 1


def test_icd10cm_and_icd9cm():
    onto = Ontology.load("icd10cm")
    tau, nine = onto.taxonomy(), icd9cm().taxonomy()
    assert (len(onto), tau.is_tree, tau.parents_of("B20")) == (98_493 + 1, True, ("B20-B20",))
    assert onto.label("A00.0") == "Cholera due to Vibrio cholerae 01, biovar cholerae"
    assert (len(nine), nine.root, nine.is_tree) == (17_727, "ICD9CM", True)


def test_every_leaf_of_icd10cm_is_a_code():
    """The package has 280 chapters and blocks, 12 of which are headings of blocks that nothing is below."""
    tau = Ontology.load("icd10cm").taxonomy()
    leaves = {tau.ids[c] for c in np.flatnonzero(tau.leaf)}
    codes = {code for code in simple_icd_10_cm.get_all_codes(with_dots=True) if simple_icd_10_cm.is_leaf(code)}
    headings = {code for code in codes if not simple_icd_10_cm.is_category_or_subcategory(code)}
    assert len(headings) == 12
    assert leaves == codes - headings
    assert not headings & set(tau.ids)


@given(tau=taxonomies(), depth=st.integers(1, 5))
def test_ancestors_at_a_depth_are_those_that_have_it(tau, depth):
    found = [set() for _ in tau.ids]
    for owner, concept in zip(*tau.ancestors_at(np.arange(len(tau)), depth), strict=True):
        found[owner].add(tau.ids[concept])
    assert found == [{s for s in tau.ancestors_of(c) if tau.depth[tau.position(s)] == depth} or {c} for c in tau.ids]
