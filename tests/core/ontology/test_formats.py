"""Files of every format but RF2: what is read, and errors of invalid files."""

from __future__ import annotations

import gzip
import json

import numpy as np
import pytest
from support.data import SMALL, load
from support.large import phenotypes_file

from stream_masker import Ontology
from stream_masker.errors import OntologyError

CSV = 'concept,parent,label\nroot,,Root\na,root,Alpha\nb,root,"Beta, the second"\nc,a,Gamma\nc,b,The third\n'

HEAD = SMALL["hp.owl"].partition("<owl:Ontology")[0]
"""The beginning of a document in OWL."""


def links(onto):
    tau = onto.taxonomy()
    return {(child, parent) for child in onto.ids for parent in tau.parents_of(child)}


@pytest.mark.parametrize("name", ["X.CSV", "x.tsv.gz", "semicolons.csv", "mark.csv"])
def test_variants_of_edge_lists_are_equivalent(tmp_path, name):
    text = "\ufeff" + CSV if name == "mark.csv" else CSV
    separator = {"x.tsv.gz": "\t", "semicolons.csv": ";"}.get(name, ",")
    onto = load(tmp_path / name, text.replace(",", separator).replace(f'"Beta{separator}', '"Beta,'))
    assert links(onto) == {("a", "root"), ("b", "root"), ("c", "a"), ("c", "b")}
    assert (onto.root, onto.label("b")) == ("root", "Beta, the second")
    assert (onto.label("c"), onto.names_of("c")[1:]) == ("Gamma", ("The third",))


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ("a,top\nb,top\na1,a\n", {("a", "top"), ("b", "top"), ("a1", "a")}),
        ("a1,a\nb1,b\n", {("a1", "a"), ("b1", "b"), ("a", "ROOT"), ("b", "ROOT")}),
        ("a,\nb,\n", {("a", "ROOT"), ("b", "ROOT")}),
    ],
)
def test_parents_without_a_row_are_roots_if_no_concept_is_one(tmp_path, rows, expected):
    assert links(load(tmp_path / "x.csv", "concept,parent\n" + rows)) == expected


def test_a_file_that_is_not_text_truncated_missing_or_unknown(tmp_path):
    (tmp_path / "bytes.csv").write_bytes("concept,parent\nr,\nMénière,r\n".encode("cp1252"))
    (tmp_path / "torn.csv.gz").write_bytes(gzip.compress(CSV.encode())[:-12])
    reasons = {"bytes.csv": "is not UTF-8", "torn.csv.gz": "be read", "none.csv": "be read: No such file"}
    for name, reason in reasons.items():
        with pytest.raises(OntologyError, match=rf"{name}:? .*{reason}"):
            Ontology.load(tmp_path / name)
    with pytest.raises(OntologyError, match=r"icd10cm.*\.csv, \.json, \.obo, \.owl, \.tsv"):
        Ontology.load("snomed")


@pytest.mark.parametrize("name", [*SMALL, *(f"{name}.gz" for name in SMALL)])
def test_obo_obo_graphs_and_owl_give_the_same_ontology(tmp_path, name):
    onto = load(tmp_path / name, SMALL[name.removesuffix(".gz")])
    tau = onto.taxonomy()
    assert list(tau.ids) == ["HP:0000001", "HP:0000118", "HP:0000152"]
    assert list(tau.labels) == ["All", "Phenotypic abnormality", "Abnormality of head & neck"]
    assert [tau.parents_of(c) for c in tau.ids] == [(), ("HP:0000001",), ("HP:0000001", "HP:0000118")]
    assert sorted(onto.names_of("HP:0000118")[1:]) == ["Anomalía", "HP:0000999", "Organ anomaly"]


def test_the_human_phenotype_ontology():
    file = phenotypes_file()
    onto = Ontology.load(file)
    tau = onto.taxonomy()
    terms = [stanza for stanza in file.read_text().split("\n[")[1:] if stanza.startswith("Term]")]
    current = [stanza for stanza in terms if "\nis_obsolete: true" not in stanza]
    parents = np.array([stanza.count("\nis_a: ") for stanza in current])
    assert (len(tau), tau.root, onto.label(tau.root)) == (len(current), "HP:0000001", "All")
    assert (np.bincount(np.diff(tau.parent_offsets)) == np.bincount(parents)).all()
    assert "Multicystic kidneys" in onto.names_of("HP:0000003")[1:]
    assert all(tau.lcs(c, p) == p for c in tau.decode(range(len(tau) - 50, len(tau))) for p in tau.parents_of(c))


CLAML = """<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE ClaML SYSTEM "ClaML.dtd">
<ClaML version="2.0.0">
  <Title name="ICD-10" version="2019">International Classification</Title>
  <Modifier code="S4"><SubClass code=".0"/><SubClass code=".1"/></Modifier>
  <ModifierClass code=".0" modifier="S4"><Rubric kind="preferred"><Label>with coma</Label></Rubric></ModifierClass>
  <ModifierClass code=".1" modifier="S4"/>
  <ModifierClass code="0" modifier="S5"><Rubric kind="preferred"><Label>not derailed</Label></Rubric></ModifierClass>
  <ModifierClass code="1" modifier="S5"><Rubric kind="preferred"><Label>derailed</Label></Rubric></ModifierClass>
  <Class code="I" kind="chapter">
    <Rubric kind="preferred"><Label>Certain infectious <Fragment>diseases</Fragment></Label></Rubric></Class>
  <Class code="IV" kind="chapter"><SubClass code="E10"/></Class>
  <Class code="A00" kind="category"><SuperClass code="I"/>
    <Rubric kind="preferred"><Label>Cholera <Reference>A01</Reference></Label></Rubric>
    <Rubric kind="inclusion"><Label>Asiatic
      cholera</Label></Rubric></Class>
  <Class code="E10" kind="category"><ModifiedBy code="S4"/>
    <ModifiedBy code="S5" all="false"><ValidModifierClass code="1"/></ModifiedBy>
    <Rubric kind="preferred"><Label>Type 1 diabetes</Label></Rubric></Class>
  <Class code="E10.1" kind="category"><SuperClass code="E10"/>
    <Rubric kind="preferred"><Label>Its own label</Label></Rubric></Class>
</ClaML>
"""


def test_classes_of_claml_and_codes_of_modifiers(tmp_path):
    onto = load(tmp_path / "icd10.xml.gz", CLAML)
    tau = onto.taxonomy()
    labels = {
        "ICD-10": "International Classification",
        "I": "Certain infectious diseases",
        "IV": "",
        "A00": "Cholera",
        "E10": "Type 1 diabetes",
        "E10.0": "Type 1 diabetes: with coma",
        "E10.1": "Its own label",
        "E10.01": "Type 1 diabetes: with coma: derailed",
        "E10.11": "Its own label: derailed",
    }
    assert {concept: onto.label(concept) for concept in onto.ids} == labels
    below = {concept: tau.children_of(concept) for concept in ("ICD-10", "E10", "E10.0")}
    assert below == {"ICD-10": ("I", "IV"), "E10": ("E10.0", "E10.1"), "E10.0": ("E10.01",)}
    assert onto.names_of("A00")[1:] == ("Asiatic cholera",)


ASTHMA = {"code": "D1", "display": "Asthma", "designation": [{"language": "de", "value": "Bronchialasthma"}]}
NESTED = {
    "resourceType": "CodeSystem",
    "name": "Diseases",
    "title": "A list of diseases",
    "concept": [{"code": "D", "display": "Disease", "concept": [ASTHMA, {"code": "D2"}]}, {"code": "S"}],
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


@pytest.mark.parametrize(
    ("resource", "expected"),
    [
        (NESTED, {("D", "Diseases"), ("S", "Diseases"), ("D1", "D"), ("D2", "D")}),
        (BY_PROPERTIES, {("D1", "D"), ("D2", "D")}),
    ],
)
def test_hierarchies_of_fhir(tmp_path, resource, expected):
    onto = load(tmp_path / "resource.json", json.dumps(resource))
    assert links(onto) == expected
    if resource is NESTED:
        assert (onto.label("Diseases"), onto.label("D1")) == ("A list of diseases", "Asthma")
        assert onto.names_of("D1")[1:] == ("Bronchialasthma",)


IRI = "http://purl.obolibrary.org/obo/HP_0000001"
REFUSED = {
    "x.csv": [
        ("", "first line lacks the columns concept, parent"),
        ("concept,parent,label\n", "no concept"),
        ("concept,parent,label\nr,,R\na,r,Diabetes, type 2\n", "line 3 has 4 of 3 columns"),
        ("concept,parent\nr,\na,gone\n", "not concepts: gone"),
        ("concept,parent\nr\n", "line 2 has 1 of 2"),
        ("concept,parent\n,r\n", "a concept has an empty id"),
        ("concept,parent\nr,\n" + "a" * 200_000 + ",r\n", "field larger than"),
    ],
    "x.obo": [
        ("[Term]\nname: nobody\n", r"the document is not OBO: SyntaxError: .*line 2"),
        ("[Term]\nid: a\nis_a: gone ! Gone\n", "these parents are not concepts: gone"),
        ("[Term]\nid: a\nis_a: b\n\n[Term]\nid: b\nis_a: a\n", "form a cycle: [ab], [ab]"),
    ],
    "x.owl": [
        *((text, "not OWL") for text in ("", "<owl:Class", "Prefix(:=<http://x.org/>)", "<Ontology/>", HEAD)),
        (f"{HEAD}&owl;</rdf:RDF>", "not OWL"),
        (SMALL["hp.owl"].replace(IRI, "HP_0000001", 1), "not OWL"),
    ],
    "x.claml": [
        ("<ClaML>", "line 1 is not well-formed XML"),
        ("<other/>", "the document element must be ClaML"),
        ("<ClaML><Class/></ClaML>", "Class needs code"),
    ],
    "x.json": [
        *((text, "is not valid JSON") for text in ("{", "[" * 100_000)),
        *((text, "no OBO Graph") for text in ("[]", '{"graphs": []}', '{"graphs": {"a": 1}}')),
        ('{"graphs": [1]}', "not an OBO Graph"),
        ('{"graphs": [{"nodes": [{"type": "CLASS", "id": 3}]}]}', "not an OBO Graph"),
        ('{"resourceType": "CodeSystem", "content": "not-present"}', "lists no concepts"),
        ('{"resourceType": "CodeSystem", "concept": [{"code": 5}]}', "the id or a name of a concept is not a text"),
        (
            '{"resourceType": "CodeSystem", "concept": [{"code": "D", "display": 5}]}',
            "a name of a concept is not a text",
        ),
        ('{"resourceType": "CodeSystem", "concept": [{}]}', "not valid FHIR: KeyError: 'code'"),
        ('{"resourceType": "Patient"}', "no CodeSystem of FHIR"),
    ],
}


@pytest.mark.parametrize(
    ("name", "text", "message"), [(name, *case) for name, cases in REFUSED.items() for case in cases]
)
def test_invalid_files_are_refused_with_the_reason(tmp_path, name, text, message):
    with pytest.raises(OntologyError, match=rf"{name}.*{message}"):
        load(tmp_path / name, text)
