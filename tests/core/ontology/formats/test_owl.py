"""OWL ontologies in RDF/XML, and errors of invalid ones."""

import pytest
from support.small_ontology import HEAD, PURL, load

from stream_masker.errors import (
    CycleError,
    DuplicateConceptError,
    OntologyError,
    SeveralRootsError,
    SourceFormatError,
    UnknownParentError,
)

pytestmark = pytest.mark.usefixtures("own_cache")


def load_owl(tmp_path, body, head=HEAD):
    return load(tmp_path / "x.owl", f"{head}{body}</rdf:RDF>")


def classes(*parents, top="", more=""):
    bodies = (f'<rdfs:subClassOf rdf:resource="{parent}"/>' if parent else "" for parent in (top, *parents))
    return (
        "".join(f'<owl:Class rdf:about="http://x.org/{k}">{body}</owl:Class>' for k, body in enumerate(bodies)) + more
    )


def test_labels_in_several_languages(tmp_path):
    labels = '<rdfs:label xml:lang="es">Oreja</rdfs:label><rdfs:label xml:lang="en-US">Ear</rdfs:label>'
    onto = load_owl(tmp_path, f'<owl:Class rdf:ID="ear">{labels}<rdfs:label xml:lang="da">Øre</rdfs:label></owl:Class>')
    assert onto.root == PURL + "#ear"
    assert (onto.label(onto.root), onto.synonyms[onto.root]) == ("Ear", ("Oreja", "Øre"))


def test_thing_is_the_root_only_if_several_classes_are_below_it(tmp_path):
    thing = "http://www.w3.org/2002/07/owl#Thing"
    several = load_owl(tmp_path, classes(thing, top=thing))
    assert (several.root, len(several)) == ("owl:Thing", 3)
    assert load_owl(tmp_path, classes("http://x.org/0", top=thing)).root == "http://x.org/0"
    with pytest.raises(SeveralRootsError):
        load_owl(tmp_path, classes("", top=thing))


def test_thing_is_not_a_parent_of_a_class_with_another_parent(tmp_path):
    more = '<owl:Class rdf:about="http://x.org/1"><rdfs:subClassOf rdf:resource="http://x.org/0"/></owl:Class>'
    onto = load_owl(tmp_path, classes("http://www.w3.org/2002/07/owl#Thing", more=more))
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
def test_invalid_documents_are_refused(tmp_path, body, error, message):
    with pytest.raises(error, match=message):
        load_owl(tmp_path, body)


def test_invalid_links_are_errors(tmp_path):
    with pytest.raises(UnknownParentError, match=r"x.owl: .*: http://x.org/9"):
        load_owl(tmp_path, classes("http://x.org/9"))
    with pytest.raises(CycleError, match=r"http://x.org/1"):
        load_owl(tmp_path, classes("http://x.org/2", "http://x.org/1"))
    twice = f'<owl:Class rdf:about="{PURL}X_1"/><owl:Class rdf:about="{PURL.replace("http", "https")}X_1"/>'
    with pytest.raises(DuplicateConceptError, match="two IRIs stand for the same class: X:1"):
        load_owl(tmp_path, twice)


@pytest.mark.parametrize(
    "declarations",
    [
        '<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;&a;&a;"><!ENTITY c "&b;&b;&b;&b;&b;&b;">',
        '<!ENTITY c SYSTEM "file:///etc/passwd">',
        '<!ENTITY % p SYSTEM "http://127.0.0.1:9/x.dtd">',
    ],
)
def test_a_document_that_declares_entities_is_refused(tmp_path, declarations):
    head = HEAD.replace("<rdf:RDF", f"<!DOCTYPE rdf:RDF [\n{declarations}]>\n<rdf:RDF", 1)
    body = f"{classes()}<owl:Class rdf:about='x'><rdfs:label>&c;</rdfs:label></owl:Class>"
    with pytest.raises(SourceFormatError, match=r"x.owl: line 3 declares an entity"):
        load_owl(tmp_path, body, head)


def test_other_serialisations_are_refused(tmp_path):
    with pytest.raises(SourceFormatError, match="outermost element must be rdf:RDF"):
        load(tmp_path / "x.owl", "<Ontology xmlns='http://www.w3.org/2002/07/owl#'/>")
    with pytest.raises(SourceFormatError, match="line 1 is not well-formed XML"):
        load(tmp_path / "x.owl", "Prefix(:=<http://x.org/>)")
