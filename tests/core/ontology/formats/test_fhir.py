"""CodeSystems and ValueSets of FHIR."""

from __future__ import annotations

import json

import pytest

from stream_masker.core.ontology import Ontology
from stream_masker.errors import OntologyError

NESTED = {
    "resourceType": "CodeSystem",
    "name": "Diseases",
    "title": "A list of diseases",
    "concept": [
        {
            "code": "D",
            "display": "Disease",
            "concept": [
                {"code": "D1", "display": "Asthma", "designation": [{"language": "de", "value": "Bronchialasthma"}]},
                {"code": "D2", "display": "Gastritis"},
            ],
        },
        {"code": "S", "display": "Symptom"},
    ],
}

BY_PROPERTIES = {
    "resourceType": "CodeSystem",
    "id": "by-properties",
    "concept": [
        {"code": "D", "property": [{"code": "child", "valueCode": "D2"}]},
        {"code": "D1", "property": [{"code": "parent", "valueCode": "D"}]},
        {"code": "D2", "property": [{"code": "parent", "valueCode": "D"}, {"code": "weight", "valueDecimal": 2}]},
    ],
}

EXPANSION = {
    "resourceType": "ValueSet",
    "name": "Expanded",
    "expansion": {
        "contains": [
            {"abstract": True, "display": "Group", "contains": [{"code": "A", "display": "One"}]},
            {"code": "B", "contains": [{"code": "B1"}]},
        ]
    },
}

COMPOSED = {
    "resourceType": "ValueSet",
    "name": "Composed",
    "compose": {"include": [{"system": "http://x", "concept": [{"code": "A", "display": "One"}, {"code": "B"}]}]},
}


def load(tmp_path, resource):
    path = tmp_path / "resource.json"
    path.write_text(json.dumps(resource))
    return Ontology.load(path)


def links(ontology):
    tau = ontology.taxonomy()
    return {(child, parent) for child in ontology.concepts for parent in tau.parents_of(child)}


def test_nested_concepts_have_a_common_root_with_the_name_of_the_resource(tmp_path):
    found = load(tmp_path, NESTED)
    assert found.root == "Diseases"
    assert found.label("Diseases") == "A list of diseases"
    assert links(found) == {("D", "Diseases"), ("S", "Diseases"), ("D1", "D"), ("D2", "D")}
    assert found.label("D1") == "Asthma"
    assert found.synonyms["D1"] == ("Bronchialasthma",)


def test_properties_give_parents_and_children(tmp_path):
    found = load(tmp_path, BY_PROPERTIES)
    assert found.root == "D"
    assert links(found) == {("D1", "D"), ("D2", "D")}


def test_the_expansion_of_a_value_set(tmp_path):
    found = load(tmp_path, EXPANSION)
    assert links(found) == {("A", "Expanded"), ("B", "Expanded"), ("B1", "B")}


def test_the_listed_concepts_of_a_value_set(tmp_path):
    assert links(load(tmp_path, COMPOSED)) == {("A", "Composed"), ("B", "Composed")}


@pytest.mark.parametrize(
    ("resource", "message"),
    [
        ({"resourceType": "ValueSet", "compose": {"include": [{"system": "http://x"}]}}, "lists no concepts"),
        ({"resourceType": "CodeSystem", "content": "not-present"}, "lists no concepts"),
        ({"resourceType": "CodeSystem", "concept": [{"code": "A"}, {"code": "A"}]}, "a code is given twice: A"),
        ({"resourceType": "CodeSystem", "concept": [{"code": 5}]}, "code must be a text"),
        ({"resourceType": "CodeSystem", "concept": {"code": "A"}}, "concept must be a list of objects"),
        ({"resourceType": "Patient"}, "no CodeSystem or ValueSet of FHIR"),
    ],
)
def test_resources_that_are_refused(tmp_path, resource, message):
    with pytest.raises(OntologyError, match=message):
        load(tmp_path, resource)
