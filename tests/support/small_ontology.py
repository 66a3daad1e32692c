"""A small ontology in each format: OBO, OBO Graph and OWL."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

from stream_masker.core.ontology import Ontology

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

META = {
    "synonyms": [
        {"pred": "hasExactSynonym", "val": "Organ anomaly"},
        {"pred": "hasRelatedSynonym", "val": "Anomalía"},
    ],
    "basicPropertyValues": [
        {"pred": "http://www.geneontology.org/formats/oboInOwl#hasAlternativeId", "val": "HP:0000999"}
    ],
}
NODES = [
    {"id": PURL + "HP_0000001", "lbl": "All", "type": "CLASS"},
    {"id": PURL + "HP_0000118", "lbl": "Phenotypic abnormality", "type": "CLASS", "meta": META},
    {"id": PURL + "HP_0000152", "lbl": "Abnormality of head & neck", "type": "CLASS"},
    {"id": PURL + "HP_0000002", "lbl": "Gone", "type": "CLASS", "meta": {"deprecated": True}},
    {"id": PURL + "BFO_0000050", "lbl": "part of", "type": "PROPERTY"},
]
EDGES = ["118 is_a 001", "118 is_a 001", "152 is_a 118", "152 is_a 001", "002 is_a 118"]
LINKS = [dict(zip(("sub", "pred", "obj"), edge.split(), strict=True)) for edge in EDGES]
GRAPH = {
    "graphs": [
        {
            "id": PURL + "hp.json",
            "nodes": NODES,
            "edges": [{**link, **{end: f"{PURL}HP_0000{link[end]}" for end in ("sub", "obj")}} for link in LINKS],
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
  <!-- an anonymous superclass is not an is-a link -->
  <owl:Class rdf:about="http://purl.obolibrary.org/obo/HP_0000118">
    <rdfs:subClassOf rdf:resource="http://purl.obolibrary.org/obo/HP_0000001"/>
    <rdfs:subClassOf rdf:resource="http://purl.obolibrary.org/obo/HP_0000001"/>
    <rdfs:subClassOf>
      <owl:Restriction>
        <owl:onProperty rdf:resource="http://purl.obolibrary.org/obo/BFO_0000050"/>
        <owl:someValuesFrom rdf:resource="http://purl.obolibrary.org/obo/HP_0000152"/>
      </owl:Restriction>
    </rdfs:subClassOf>
    <oboInOwl:hasExactSynonym>Organ anomaly</oboInOwl:hasExactSynonym>
    <oboInOwl:hasRelatedSynonym xml:lang="es">Anomalía</oboInOwl:hasRelatedSynonym>
    <oboInOwl:hasAlternativeId>HP:0000999</oboInOwl:hasAlternativeId>
    <rdfs:label xml:lang="en">Phenotypic abnormality</rdfs:label>
  </owl:Class>
  <owl:Class rdf:about="http://purl.obolibrary.org/obo/HP_0000152">
    <rdfs:subClassOf rdf:resource="http://purl.obolibrary.org/obo/HP_0000118"/>
    <rdfs:subClassOf rdf:resource="http://purl.obolibrary.org/obo/HP_0000001"/>
    <rdfs:label>Abnormality of head &amp; neck</rdfs:label>
  </owl:Class>
  <owl:Class rdf:about="http://purl.obolibrary.org/obo/HP_0000002">
    <rdfs:subClassOf rdf:resource="http://purl.obolibrary.org/obo/HP_0000118"/>
    <owl:deprecated rdf:datatype="http://www.w3.org/2001/XMLSchema#boolean">true</owl:deprecated>
    <rdfs:label>Gone</rdfs:label>
  </owl:Class>
</rdf:RDF>
"""
)

FORMATS = {"hp.obo": OBO, "hp.json": json.dumps(GRAPH), "hp.owl": OWL}
"""The same ontology by file name."""


def load(path: Path, text: str) -> Ontology:
    """Write a text to a file, gzipped if its name ends in .gz, and load it."""
    path.write_bytes(gzip.compress(text.encode()) if path.suffix == ".gz" else text.encode())
    return Ontology.load(path)
