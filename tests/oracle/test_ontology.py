"""Ontologies against literal computations: order, lines of ancestors, the concepts of values, and RF2."""

from __future__ import annotations

import csv
import re
from collections import defaultdict
from dataclasses import replace
from itertools import pairwise

import networkx as nx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import snomed
from support.graphs import edges

from stream_masker import UNKNOWN, ConceptMap, Match, Ontology


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
    assert all((np.diff(tau.parents[a:b]) > 0).all() for a, b in pairwise(tau.parent_offsets))


class LiteralMap:
    """The rules of ``ConceptMap``, with dictionaries over all concepts."""

    def __init__(self, taxonomy, ontology):
        pairs = list(enumerate(taxonomy.ids))
        self.exact = {concept: i for i, concept in pairs}
        self.codes = [(code.casefold(), i) for i, code in pairs]
        names = [(name, i) for i, c in pairs for name in (taxonomy.labels[i], *ontology.names_of(c)[1:])]
        self.names = self.unambiguous((name.casefold(), i) for name, i in names if name)
        self.longer_are_finer = self.are_finer(taxonomy)

    def are_finer(self, tau):
        codes = {concept.casefold().replace(".", ""): concept for concept in tau.ids}
        starts = {code: [codes[code[:k]] for k in range(1, len(code)) if code[:k] in codes] for code in codes}
        found = [longer[-1] in tau.parents_of(codes[code]) for code, longer in starts.items() if longer]
        return sum(found) > len(found) / 2

    def coded(self, text):
        """The codes that are a text, or that are one if the dots are removed that only the text, or only they, have."""
        found = [i for code, i in self.codes if code == text]
        if "." in text:
            return found + [i for code, i in self.codes if "." not in code and code == text.replace(".", "")]
        return found + [i for code, i in self.codes if "." in code and code.replace(".", "") == text]

    def keys_of_value(self, value):
        text = value.strip().casefold()
        padded = re.sub(r"^\d+(?=\.|$)", lambda digits: digits[0].zfill(3), text) if self.is_icd9(text) else text
        return [padded, text]

    def is_icd9(self, text):
        return re.fullmatch(r"\d+", text.partition(".")[0]) is not None

    def unambiguous(self, pairs):
        found = {}
        for key, position in pairs:
            found[key] = position if found.get(key, position) == position else UNKNOWN
        return found

    def find(self, value):
        if value in self.exact:
            return Match(self.exact[value], "exact")
        coded = next(filter(None, map(self.coded, self.keys_of_value(value))), [])
        if len(coded) == 1:
            return Match(coded[0], "normalised")
        name = self.names.get(value.strip().casefold(), UNKNOWN)
        return self.ancestor(value) if name == UNKNOWN else Match(name, "label")

    def ancestor(self, value):
        for text in self.keys_of_value(value) if self.longer_are_finer else ():
            for end in range(len(text) - 1, 2, -1):
                coded = self.coded(text[:end])
                if len(coded) == 1 and coded[0] > 0 and len(text[:end].replace(".", "")) > 2:
                    return Match(coded[0], "ancestor")
        return Match(UNKNOWN, "unknown")


CODES = st.from_regex(r"[EeVv]?[01]{1,3}(\.[01a]{1,2})?", fullmatch=True) | st.text("aAß.0", min_size=1, max_size=3)
TEXTS = st.lists(CODES | st.text("ßsSİiα ", max_size=3), max_size=3)


@given(st.lists(CODES, min_size=2, max_size=12, unique=True), st.data())
def test_values_have_the_concepts_of_the_literal_rules(codes, data):
    links = [(code, data.draw(st.sampled_from(codes[:k]))) for k, code in enumerate(codes) if k]
    names = {code: data.draw(TEXTS) for code in codes}
    labels = {code: own[0] for code, own in names.items() if own}
    onto = Ontology.from_edges(links, labels, {code: own[1:] for code, own in names.items()})
    taxonomy = onto.taxonomy(root=data.draw(st.sampled_from(codes)))
    concepts, literal = ConceptMap(taxonomy, unknown="ancestor"), LiteralMap(taxonomy, onto)
    values = [*codes, *(name for own in names.values() for name in own), *data.draw(st.lists(CODES, max_size=10))]
    values += [*map(str.swapcase, values), *(value.replace(".", "") for value in values)]
    for value in values:
        found = concepts.find(value)
        assert (replace(found, how="unknown") if found.how == "ambiguous" else found) == literal.find(value)


def rows_of(folder, kind):
    for path in sorted(folder.rglob(f"sct2_{kind}_*.txt")):
        with path.open(encoding="utf-8", newline="") as file:
            yield from csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE)


def literal_release(folder):
    """The parents, labels and synonyms of a release, read row by row, as a graph."""
    active = {row["id"] for row in rows_of(folder, "Concept") if row["active"] == "1"}
    parents = {concept: set() for concept in active}
    for row in rows_of(folder, "Relationship"):
        if row["active"] == "1" and row["typeId"] == str(snomed.IS_A) and row["sourceId"] in active:
            parents[row["sourceId"]].add(row["destinationId"])
    names = defaultdict(list)
    for row in rows_of(folder, "Description"):
        if row["active"] == "1" and row["conceptId"] in active:
            full = row["typeId"] == str(snomed.FULLY_SPECIFIED_NAME)
            names[row["conceptId"]].append((not full, row["languageCode"] != "en", int(row["id"]), row["term"]))
    labels = {concept: min(own)[-1] for concept, own in names.items()}
    synonyms = {c: [name[-1] for name in sorted(own) if name[0]] for c, own in names.items()}
    network = nx.DiGraph([(child, parent) for child, above in parents.items() for parent in above])
    for concept in active:
        network.add_node(concept, label=labels.get(concept, ""), synonyms=synonyms.get(concept, ()))
    return network


@pytest.mark.parametrize(("concepts", "seed"), [(1, 0), (2, 0), (40, 1), (600, 2)])
def test_generated_releases_are_read_as_row_by_row(tmp_path, concepts, seed):
    folder = snomed.write_release(tmp_path / "release", concepts=concepts, seed=seed)
    read, expected = Ontology.load(folder), Ontology.from_networkx(literal_release(folder))
    assert len(read) == concepts
    assert read == expected
    assert list(read.labels) == list(expected.labels)
    assert all(set(expected.names_of(one)[1:]) <= set(read.names_of(one)[1:]) for one in read.ids)
