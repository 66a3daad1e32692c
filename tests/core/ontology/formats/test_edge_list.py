"""Edge lists whose roots have no rows of their own."""

from __future__ import annotations

import pytest

from stream_masker.core.ontology import Ontology
from stream_masker.errors import UnknownParentError


@pytest.fixture
def load(tmp_path):
    def load(rows):
        (tmp_path / "edges.csv").write_text("concept,parent\n" + rows)
        return Ontology.load(tmp_path / "edges.csv")

    return load


def test_one_parent_without_a_row_is_the_root(load):
    assert load("a,top\nb,top\na1,a\n").taxonomy().root == "top"


def test_several_parents_without_rows_get_a_common_root(load):
    tau = load("a1,a\na2,a\nb1,b\nc1,b1\n").taxonomy()
    assert {concept for concept in tau.ids if concept != tau.root} == {"a", "a1", "a2", "b", "b1", "c1"}
    assert tau.depth[tau.position("a")] == tau.depth[tau.position("b")] == 2
    assert tau.depth[tau.position("c1")] == 4


def test_a_parent_without_a_row_is_an_error_beside_a_root_that_has_one(load):
    with pytest.raises(UnknownParentError, match="these parents are not concepts: typo"):
        load("top,\na,top\nb,typo\n")
