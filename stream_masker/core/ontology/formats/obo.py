"""OBO files (versions 1.2 and 1.4), and the identifiers that OBO files use for IRIs."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import TextIO

from stream_masker.core.ontology.draft import OntologyDraft
from stream_masker.errors import DuplicateConceptError, SourceFormatError


def read_obo(lines: TextIO) -> OntologyDraft:
    """Read the ``[Term]`` stanzas that are not obsolete: id, name, is_a, synonym and alt_id.

    Alternative ids are synonyms. Raises SourceFormatError for a term without an id, DuplicateConceptError.
    """
    draft = OntologyDraft()
    for stanza in _stanzas(lines):
        if stanza.get("is_obsolete", ["false"])[0] != "true":
            _add_term(draft, stanza)
    return draft


def _stanzas(lines: Iterable[str]) -> Iterator[dict[str, list[str]]]:
    """Yield the values by tag of each [Term] stanza."""
    stanza: dict[str, list[str]] | None = None
    for line in map(str.strip, lines):
        if line.startswith("["):
            if stanza:
                yield stanza
            stanza = {} if line == "[Term]" else None
        elif stanza is not None and ":" in line:
            tag, _, value = line.partition(":")
            stanza.setdefault(tag, []).append(value.strip())
    if stanza:
        yield stanza


def _add_term(draft: OntologyDraft, stanza: dict[str, list[str]]) -> None:
    concept = _identifier(stanza.get("id", [""])[0])
    if not concept:
        raise SourceFormatError("a [Term] has no id")
    if concept in draft.parents:
        raise DuplicateConceptError("a [Term] is given twice", culprits=[concept])
    draft.parents[concept] = list(dict.fromkeys(map(_identifier, stanza.get("is_a", []))))
    draft.labels[concept] = stanza.get("name", [""])[0]
    quoted = (re.match(r'"((?:[^"\\]|\\.)*)"', value) for value in stanza.get("synonym", []))
    names = [re.sub(r"\\(.)", r"\1", match.group(1)) for match in quoted if match]
    draft.synonyms[concept] = names + [_identifier(value) for value in stanza.get("alt_id", [])]


def _identifier(value: str) -> str:
    """Return the identifier at the start of a value, without a comment or trailing modifiers."""
    return re.split(r"\s|!|\{", value, maxsplit=1)[0]


def curie(iri: str) -> str:
    """Convert an IRI of an OBO ontology to the identifier in OBO files; return other IRIs as they are.

    ``http://purl.obolibrary.org/obo/HP_0000118`` becomes ``HP:0000118``.
    """
    match = re.fullmatch(r"https?://purl\.obolibrary\.org/obo/([A-Za-z]\w*?)_(\w+)", iri)
    return f"{match[1]}:{match[2]}" if match else iri
