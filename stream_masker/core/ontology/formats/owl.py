"""OWL ontologies in RDF/XML, parsed as a stream."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import BinaryIO, Final, NoReturn
from urllib.parse import urljoin
from xml.parsers import expat

from stream_masker.core.ontology.draft import OntologyDraft
from stream_masker.core.ontology.formats.obo import curie
from stream_masker.errors import DuplicateConceptError, SourceFormatError

RDF: Final = "http://www.w3.org/1999/02/22-rdf-syntax-ns#"
RDFS: Final = "http://www.w3.org/2000/01/rdf-schema#"
OWL: Final = "http://www.w3.org/2002/07/owl#"
OBO_IN_OWL: Final = "http://www.geneontology.org/formats/oboInOwl#"
XML: Final = "http://www.w3.org/XML/1998/namespace"

CLASS: Final = OWL + "Class"
THING: Final = OWL + "Thing"
TOP: Final = "owl:Thing"
RDFS_LABEL: Final = RDFS + "label"
SUBCLASS: Final = RDFS + "subClassOf"
TYPE: Final = RDF + "type"
DEPRECATED: Final = OWL + "deprecated"
SYNONYMS: Final = {f"{OBO_IN_OWL}has{scope}Synonym" for scope in ("Exact", "Narrow", "Broad", "Related")}
NAME_ELEMENTS: Final = {*SYNONYMS, OBO_IN_OWL + "hasAlternativeId"}
TEXTS: Final = {RDFS_LABEL, DEPRECATED, *NAME_ELEMENTS}

ABSOLUTE: Final = re.compile(r"[A-Za-z][\w+.-]*:")


@dataclass(slots=True)
class _Class:
    """The statements of a document about one IRI. It need not be a class."""

    is_class: bool = False
    deprecated: bool = False
    parents: list[str] = field(default_factory=list)
    labels: dict[str, str] = field(default_factory=dict)
    names: list[str] = field(default_factory=list)

    @property
    def label(self) -> str:
        """The label without a language, otherwise an English one, otherwise any; empty if there is none."""
        return min(self.labels.items(), key=lambda item: (item[0] != "", item[0][:2] != "en"), default=("", ""))[1]


@dataclass(slots=True)
class _Element:
    """An open element: a node, or a property of the node that encloses it.

    subject: the IRI of that node, empty for an anonymous one.
    """

    tag: str
    base: str
    is_node: bool
    subject: str = ""
    language: str = ""
    text: list[str] = field(default_factory=list)


def read_owl(file: BinaryIO) -> OntologyDraft:
    """Read the named classes that are not deprecated, and the ``subClassOf`` links between them.

    * Label: rdfs:label; if there are several, the one without a language, then the English one.
    * Synonyms: the other labels, and the synonyms of every scope and the alternative ids of oboInOwl.
    * Identifiers: those of OBO files (``curie``) for OBO ontologies, otherwise the IRIs.
    * Root: owl:Thing if several classes are directly below it; otherwise owl:Thing is left out.

    Restrictions and other class expressions are not is-a links. Raises SourceFormatError, also for a document that
    declares entities, and DuplicateConceptError.
    """
    reader = _Reader()
    try:
        reader.parser.ParseFile(file)
    except expat.ExpatError as error:
        message = expat.ErrorString(error.code)
        raise SourceFormatError(f"line {error.lineno} is not well-formed XML: {message}") from None
    return _draft_of(reader.classes)


class _Reader:
    """An event handler for RDF/XML, in which nodes and their properties alternate.

    It holds the open elements and the statements about each IRI, but not the document.
    """

    def __init__(self) -> None:
        self.classes: dict[str, _Class] = {}
        self._open: list[_Element] = []
        self.parser = expat.ParserCreate(namespace_separator="")
        self.parser.buffer_text = True
        self.parser.StartElementHandler = self._on_start
        self.parser.EndElementHandler = self._on_end
        self.parser.CharacterDataHandler = self._on_text
        self.parser.EntityDeclHandler = self._on_entity

    def _on_entity(self, *_: object) -> NoReturn:
        line = self.parser.CurrentLineNumber
        raise SourceFormatError(f"line {line} declares an entity: expand the document's entities before loading it")

    def _on_start(self, tag: str, attributes: dict[str, str]) -> None:
        if not self._open:
            self._open.append(self._document(tag, attributes))
            return
        enclosing = self._open[-1]
        base = attributes.get(XML + "base", enclosing.base)
        if enclosing.is_node and enclosing.tag != RDF + "RDF":
            self._open.append(self._property(tag, base, attributes))
        else:
            self._open.append(self._node(tag, base, attributes))

    def _document(self, tag: str, attributes: dict[str, str]) -> _Element:
        if tag != RDF + "RDF":
            raise SourceFormatError("the document is not RDF/XML: its outermost element must be rdf:RDF")
        return _Element(tag, attributes.get(XML + "base", ""), is_node=True)

    def _node(self, tag: str, base: str, attributes: dict[str, str]) -> _Element:
        subject = _iri(base, attributes, "about")
        if subject:
            self._class(subject).is_class |= tag == CLASS
            if self._open[-1].tag == SUBCLASS:
                self._link(subject)
        return _Element(tag, base, is_node=True, subject=subject)

    def _property(self, tag: str, base: str, attributes: dict[str, str]) -> _Element:
        subject, target = self._open[-1].subject, _iri(base, attributes, "resource")
        if attributes.get(RDF + "parseType") == "Resource":
            return _Element(tag, base, is_node=True)
        element = _Element(tag, base, is_node=False, subject=subject, language=attributes.get(XML + "lang", ""))
        if subject and tag == TYPE and target == CLASS:
            self._class(subject).is_class = True
        if subject and tag == SUBCLASS and target:
            self._class(subject).parents.append(target)
        return element

    def _link(self, parent: str) -> None:
        if self._open[-1].subject:
            self._class(self._open[-1].subject).parents.append(parent)

    def _on_text(self, text: str) -> None:
        if self._open[-1].tag in TEXTS:
            self._open[-1].text.append(text)

    def _on_end(self, _: str) -> None:
        element = self._open.pop()
        if element.subject and not element.is_node and element.tag in TEXTS:
            self._add_statement(element, "".join(element.text))

    def _add_statement(self, element: _Element, text: str) -> None:
        statement = self._class(element.subject)
        if element.tag == RDFS_LABEL:
            statement.labels.setdefault(element.language, text)
        elif element.tag == DEPRECATED:
            statement.deprecated = text.strip() in ("true", "1")
        else:
            statement.names.append(text)

    def _class(self, iri: str) -> _Class:
        return self.classes.setdefault(iri, _Class())


def _iri(base: str, attributes: dict[str, str], name: str) -> str:
    """Return the IRI in rdf:about or rdf:resource, or that of rdf:ID; empty if there is none."""
    given = attributes.get(RDF + name)
    if given is not None:
        return given if ABSOLUTE.match(given) else urljoin(base, given)
    fragment = attributes.get(RDF + "ID") if name == "about" else None
    return f"{base.partition('#')[0]}#{fragment}" if fragment else ""


def _draft_of(statements: dict[str, _Class]) -> OntologyDraft:
    classes = {
        iri: statement
        for iri, statement in statements.items()
        if statement.is_class and not statement.deprecated and iri != THING
    }
    tops = [statement for statement in classes.values() if set(statement.parents) <= {THING}]
    below_thing = len(tops) > 1 and all(statement.parents for statement in tops)
    draft = OntologyDraft({TOP: []} if below_thing else {})
    for iri, statement in classes.items():
        parents = [curie(parent) for parent in statement.parents if parent != THING]
        _add(draft, curie(iri), statement, parents or ([TOP] if below_thing else []))
    return draft


def _add(draft: OntologyDraft, concept: str, statement: _Class, parents: list[str]) -> None:
    if concept in draft.parents:
        raise DuplicateConceptError("two IRIs stand for the same class", culprits=[concept])
    draft.parents[concept] = list(dict.fromkeys(parents))
    draft.labels[concept] = statement.label
    other = (label for label in statement.labels.values() if label != statement.label)
    draft.synonyms[concept] = list(dict.fromkeys([*statement.names, *other]))
