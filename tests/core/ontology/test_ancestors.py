"""Lines of ancestors against a literal computation."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.graphs import taxonomies

from stream_masker.core.ontology import Ontology, Taxonomy
from stream_masker.core.ontology.taxonomy import NO_POSITION, line_parents, nearest, to_level


def literal_line(tau: Taxonomy, concept: str) -> list[str]:
    """The concept and its line of ancestors up to the root."""
    above = [p for p in tau.parents_of(concept) if tau.depth_of(p) == tau.depth_of(concept) - 1]
    return [concept, *(literal_line(tau, min(above, key=tau.position)) if above else [])]


@given(tau=taxonomies())
def test_a_line_has_one_ancestor_at_every_level(tau: Taxonomy) -> None:
    parents = line_parents(tau)
    for position, concept in enumerate(tau.ids):
        line = literal_line(tau, concept)
        assert [tau.depth_of(one) for one in line] == list(range(tau.depth_of(concept), 0, -1))
        assert parents[position] == (tau.position(line[1]) if len(line) > 1 else NO_POSITION)
        assert set(line) <= tau.ancestors_of(concept).keys()


@given(tau=taxonomies(), depth=st.integers(1, 8))
def test_the_ancestor_at_a_level(tau: Taxonomy, depth: int) -> None:
    found = tau.decode(to_level(tau, depth))
    for concept, ancestor in zip(tau.ids, found, strict=True):
        assert ancestor == next(one for one in literal_line(tau, concept) if tau.depth_of(one) <= depth)


@given(data=st.data(), tau=taxonomies())
def test_the_nearest_of_chosen_concepts(data: st.DataObject, tau: Taxonomy) -> None:
    chosen = set(data.draw(st.lists(st.sampled_from(tau.ids))))
    found = nearest(tau, np.array([concept in chosen for concept in tau.ids]))
    for concept, position in zip(tau.ids, found.tolist(), strict=True):
        line = [one for one in literal_line(tau, concept) if one in chosen]
        assert position == (tau.position(line[0]) if line else NO_POSITION)


@pytest.mark.parametrize(
    ("code", "line"),
    [("J18.9", ["10", "J09-J18", "J18", "J18.9"]), ("B20", ["1", "B20-B20", "B20", "B20"])],
)
def test_chapters_blocks_and_categories_of_icd(code: str, line: list[str]) -> None:
    tau = Ontology.load("icd10cm").taxonomy()
    assert [tau.ids[to_level(tau, depth)[tau.position(code)]] for depth in (2, 3, 4, 9)] == line
