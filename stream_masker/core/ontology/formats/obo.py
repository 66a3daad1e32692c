"""OBO ontologies: OBO files (versions 1.2 and 1.4), OBO Graphs in JSON, and OWL in RDF/XML.

OBO files have a reader of their own, because pronto takes about ten times as long for them. pronto reads the others.
"""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Iterable, Iterator
from typing import BinaryIO, Final

from stream_masker.core.ontology.formats import Draft
from stream_masker.errors import OntologyError, SourceFormatError, installation_of

UNREADABLE: Final = (ArithmeticError, AttributeError, LookupError, SyntaxError, TypeError, ValueError)
"""What pronto raises for documents that it cannot read."""


def read_obo(file: BinaryIO) -> Draft:
    """Read the ``[Term]`` stanzas that are not obsolete: id, name, is_a, synonym and alt_id.

    Alternative ids are synonyms. Raises SourceFormatError for a term without an id, DuplicateConceptError.
    """
    draft = Draft()
    for line, stanza in _stanzas(io.TextIOWrapper(file, encoding="utf-8-sig")):
        if stanza.get("is_obsolete", ["false"])[0] != "true":
            _add_term(draft, stanza, line)
    return draft


def _stanzas(lines: Iterable[str]) -> Iterator[tuple[int, dict[str, list[str]]]]:
    """Yield the line and the values by tag of each [Term] stanza."""
    start = 0
    stanza: dict[str, list[str]] | None = None
    for number, line in enumerate(map(str.strip, lines), start=1):
        if line.startswith("["):
            if stanza is not None:
                yield start, stanza
            start, stanza = number, {} if line == "[Term]" else None
        elif stanza is not None and ":" in line:
            tag, _, value = line.partition(":")
            stanza.setdefault(tag, []).append(value.strip())
    if stanza is not None:
        yield start, stanza


def _add_term(draft: Draft, stanza: dict[str, list[str]], line: int) -> None:
    concept = _identifier(stanza.get("id", [""])[0])
    if not concept:
        raise SourceFormatError(f"the [Term] in line {line} has no id")
    quoted = (re.match(r'"((?:[^"\\]|\\.)*)"', value) for value in stanza.get("synonym", []))
    synonyms = [re.sub(r"\\(.)", r"\1", match.group(1)) for match in quoted if match]
    synonyms += map(_identifier, stanza.get("alt_id", []))
    parents = [_identifier(value) for value in stanza.get("is_a", [])]
    draft.add(concept, parents, stanza.get("name", [""])[0], synonyms, f"the [Term] in line {line}")


def _identifier(value: str) -> str:
    """Return the identifier at the start of a value, without a comment or trailing modifiers."""
    return re.split(r"\s|!|\{", value, maxsplit=1)[0]


def read_owl(file: BinaryIO) -> Draft:
    """Read the classes of OWL in RDF/XML, as ``read_terms`` does; several top classes get the root owl:Thing."""
    draft = read_terms(file.read(), "OWL in RDF/XML")
    draft.root = "owl:Thing"
    return draft


def read_terms(content: bytes, kind: str) -> Draft:
    """Read the named classes that are not obsolete, with labels, synonyms of every scope, and their superclasses.

    ``content``: OWL in RDF/XML, or the JSON of an OBO Graph, of which pronto reads the first graph; ``kind``: which of
    them. Alternative ids are synonyms. Identifiers are those of OBO files for OBO ontologies (``HP:0000118``),
    otherwise IRIs. Imports are not followed. Raises OntologyError if pronto is not installed, and SourceFormatError for
    what it cannot read.
    """
    try:
        from pronto.ontology import Ontology
    except ImportError:
        raise OntologyError(f"OBO Graphs and OWL need pronto: {installation_of('ontologies')}") from None
    draft = Draft()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            terms = list(Ontology(io.BytesIO(content), import_depth=0, threads=1).terms())
        for term in terms:
            if not term.obsolete:
                parents = [parent.id for parent in term.superclasses(distance=1, with_self=False)]
                synonyms = [synonym.description for synonym in term.synonyms] + sorted(term.alternate_ids)
                draft.add(term.id, parents, term.name or "", synonyms, "the document")
    except UNREADABLE as error:
        reason = " ".join(str(error).split())
        raise SourceFormatError(f"the document is not {kind}: {type(error).__name__}: {reason}") from None
    return draft
