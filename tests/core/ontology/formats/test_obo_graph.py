"""OBO Graphs, and errors of invalid ones."""

import json

import pytest
from support.small_ontology import load

from stream_masker.errors import CycleError, DuplicateConceptError, SourceFormatError, UnknownParentError

pytestmark = pytest.mark.usefixtures("own_cache")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", r"x.json: line 1 is not valid JSON"),
        ("[]", "not an OBO Graph, which is an object with a list of graphs"),
        ("{}", "not an OBO Graph, which is an object with a list of graphs"),
        ('{"graphs": {"a": 1}}', "graphs must be a list"),
        ('{"graphs": [1]}', "a graph must be an object"),
        ('{"graphs": [{"nodes": [{"type": "CLASS"}]}]}', "id must be a string"),
        ('{"graphs": [{"nodes": [{"type": "CLASS", "id": 3}]}]}', "id must be a string"),
        ('{"graphs": [{"nodes": [{"type": "CLASS", "id": "a", "lbl": 3}]}]}', "lbl must be a string"),
        (
            '{"graphs": [{"nodes": [{"type": "CLASS", "id": "a", "meta": {"synonyms": ["b"]}}]}]}',
            "must be an object",
        ),
        ('{"graphs": [{"edges": [{"pred": "is_a"}]}]}', "sub must be a string"),
        ("[" * 100_000, "nested too deeply"),
    ],
)
def test_invalid_documents_are_refused(tmp_path, text, message):
    with pytest.raises(SourceFormatError, match=message) as caught:
        load(tmp_path / "x.json", text)
    assert "x.json" in str(caught.value)


@pytest.mark.parametrize(
    ("sub", "obj", "error"), [("b", "gone", UnknownParentError), ("a", "b", CycleError), ("gone", "a", None)]
)
def test_links_between_nodes(tmp_path, sub, obj, error):
    nodes = [{"id": name, "type": "CLASS"} for name in ("a", "b")]
    edges = [{"sub": "b", "pred": "is_a", "obj": "a"}, {"sub": sub, "pred": "is_a", "obj": obj}]
    text = json.dumps({"graphs": [{"nodes": nodes, "edges": edges}]})
    if error is None:
        assert len(load(tmp_path / "x.json", text)) == 2
    else:
        with pytest.raises(error):
            load(tmp_path / "x.json", text)


def test_a_node_that_occurs_twice_is_an_error(tmp_path):
    nodes = [{"id": "a", "type": "CLASS"}] * 2
    with pytest.raises(DuplicateConceptError, match="a node is given twice: a"):
        load(tmp_path / "x.json", json.dumps({"graphs": [{"nodes": nodes}]}))
