"""OWL ontologies in RDF/XML, read as a stream."""

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
    """What a document says of one IRI, which may turn out to be no class."""

    is_class: bool = False
    deprecated: bool = False
    parents: list[str] = field(default_factory=list)
    labels: dict[str, str] = field(default_factory=dict)
    names: list[str] = field(default_factory=list)

    @property
    def label(self) -> str:
        """That without a language or in English, if there is one."""
        return min(self.labels.items(), key=lambda item: (item[0] != "", item[0][:2] != "en"), default=("", ""))[1]


@dataclass(slots=True)
class _Element:
    """An open element: a node (of ``subject``, empty for an anonymous one), or a property of the node around it."""

    tag: str
    base: str
    is_node: bool
    subject: str = ""
    language: str = ""
    text: list[str] = field(default_factory=list)


def read_owl(file: BinaryIO) -> OntologyDraft:
    """The named classes of an OWL document in RDF/XML that are not deprecated, and ``subClassOf`` between them.

    Labels: rdfs:label, that in English where there are several; the others and oboInOwl's synonyms (of any scope) and
    alternative ids are synonyms. Identifiers of OBO ontologies are written as in OBO files, others are the IRIs.
    owl:Thing is the root where several classes stand directly below it, and else left out. Restrictions and other
    class expressions are no is-a links. A document that declares entities is refused.
    """
    reader = _Reader()
    try:
        reader.parser.ParseFile(file)
    except expat.ExpatError as error:
        message = expat.ErrorString(error.code)
        raise SourceFormatError(f"line {error.lineno} is no well-formed XML: {message}") from None
    return _draft(reader.classes)


class _Reader:
    """Follows RDF/XML's alternation of nodes and their properties; keeps only what is open and what classes say."""

    def __init__(self) -> None:
        self.classes: dict[str, _Class] = {}
        self._open: list[_Element] = []
        self.parser = expat.ParserCreate(namespace_separator="")
        self.parser.buffer_text = True
        self.parser.StartElementHandler = self._start
        self.parser.EndElementHandler = self._end
        self.parser.CharacterDataHandler = self._text
        self.parser.EntityDeclHandler = self._entity

    def _entity(self, *_: object) -> NoReturn:
        line = self.parser.CurrentLineNumber
        raise SourceFormatError(f"line {line} declares an entity: expand the document's entities before loading it")

    def _start(self, tag: str, attributes: dict[str, str]) -> None:
        if not self._open:
            self._open.append(self._document(tag, attributes))
            return
        around = self._open[-1]
        base = attributes.get(XML + "base", around.base)
        if around.is_node and around.tag != RDF + "RDF":
            self._open.append(self._property(tag, base, attributes))
        else:
            self._open.append(self._node(tag, base, attributes))

    def _document(self, tag: str, attributes: dict[str, str]) -> _Element:
        if tag != RDF + "RDF":
            raise SourceFormatError("the document is no RDF/XML: its outermost element must be rdf:RDF")
        return _Element(tag, attributes.get(XML + "base", ""), is_node=True)

    def _node(self, tag: str, base: str, attributes: dict[str, str]) -> _Element:
        subject = _iri(base, attributes, "about")
        if subject:
            self._of(subject).is_class |= tag == CLASS
            if self._open[-1].tag == SUBCLASS:
                self._link(subject)
        return _Element(tag, base, is_node=True, subject=subject)

    def _property(self, tag: str, base: str, attributes: dict[str, str]) -> _Element:
        subject, target = self._open[-1].subject, _iri(base, attributes, "resource")
        if attributes.get(RDF + "parseType") == "Resource":
            return _Element(tag, base, is_node=True)
        element = _Element(tag, base, is_node=False, subject=subject, language=attributes.get(XML + "lang", ""))
        if subject and tag == TYPE and target == CLASS:
            self._of(subject).is_class = True
        if subject and tag == SUBCLASS and target:
            self._of(subject).parents.append(target)
        return element

    def _link(self, parent: str) -> None:
        if self._open[-1].subject:
            self._of(self._open[-1].subject).parents.append(parent)

    def _text(self, text: str) -> None:
        if self._open[-1].tag in TEXTS:
            self._open[-1].text.append(text)

    def _end(self, _: str) -> None:
        element = self._open.pop()
        if element.subject and not element.is_node and element.tag in TEXTS:
            self._say(element, "".join(element.text))

    def _say(self, element: _Element, text: str) -> None:
        own = self._of(element.subject)
        if element.tag == RDFS_LABEL:
            own.labels.setdefault(element.language, text)
        elif element.tag == DEPRECATED:
            own.deprecated = text.strip() in ("true", "1")
        else:
            own.names.append(text)

    def _of(self, iri: str) -> _Class:
        return self.classes.setdefault(iri, _Class())


def _iri(base: str, attributes: dict[str, str], name: str) -> str:
    """The IRI in rdf:about or rdf:resource, or of rdf:ID; empty where there is none."""
    given = attributes.get(RDF + name)
    if given is not None:
        return given if ABSOLUTE.match(given) else urljoin(base, given)
    fragment = attributes.get(RDF + "ID") if name == "about" else None
    return f"{base.partition('#')[0]}#{fragment}" if fragment else ""


def _draft(found: dict[str, _Class]) -> OntologyDraft:
    classes = {iri: own for iri, own in found.items() if own.is_class and not own.deprecated and iri != THING}
    tops = [own for own in classes.values() if set(own.parents) <= {THING}]
    below_thing = len(tops) > 1 and all(own.parents for own in tops)
    draft = OntologyDraft({TOP: []} if below_thing else {})
    for iri, own in classes.items():
        parents = [curie(parent) for parent in own.parents if parent != THING]
        _add(draft, curie(iri), own, parents or ([TOP] if below_thing else []))
    return draft


def _add(draft: OntologyDraft, concept: str, own: _Class, parents: list[str]) -> None:
    if concept in draft.parents:
        raise DuplicateConceptError("two IRIs stand for the same class", culprits=[concept])
    draft.parents[concept] = list(dict.fromkeys(parents))
    draft.labels[concept] = own.label
    other = (label for label in own.labels.values() if label != own.label)
    draft.synonyms[concept] = list(dict.fromkeys([*own.names, *other]))
