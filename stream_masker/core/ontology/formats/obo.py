"""OBO ontologies, read by pronto: OBO files, OBO Graphs in JSON, and OWL in RDF/XML."""

from __future__ import annotations

import io
import warnings
from typing import BinaryIO, Final

from stream_masker.core.ontology.formats import Draft
from stream_masker.errors import OntologyError, installation_of

UNREADABLE: Final = (ArithmeticError, AttributeError, LookupError, SyntaxError, TypeError, ValueError)
"""What pronto raises for documents that it cannot read."""


def read_obo(file: BinaryIO, kind: str = "OBO", root: str = "ROOT") -> Draft:
    """Read the named classes that are not obsolete, with labels, synonyms of every scope, and their superclasses.

    ``file``: an OBO file, OWL in RDF/XML, or the JSON of an OBO Graph, of which pronto reads the first graph;
    ``kind``: which of them. ``root``: the name of the root of several top classes. Alternative ids are synonyms.
    Identifiers are those of OBO files for OBO ontologies (``HP:0000118``), otherwise IRIs. Imports are not followed.
    Raises OntologyError if pronto is not installed, and for what it cannot read.
    """
    try:
        from pronto.ontology import Ontology
    except ImportError:
        raise OntologyError(f"{kind} needs pronto: {installation_of('ontologies')}") from None
    draft = Draft(root=root)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            terms = list(Ontology(io.BytesIO(file.read()), import_depth=0, threads=1).terms())
        for term in terms:
            if not term.obsolete:
                parents = [parent.id for parent in term.superclasses(distance=1, with_self=False)]
                synonyms = [synonym.description for synonym in term.synonyms] + sorted(term.alternate_ids)
                draft.add(term.id, parents, term.name or "", synonyms)
    except UNREADABLE as error:
        reason = " ".join(str(error).split())
        raise OntologyError(f"the document is not {kind}: {type(error).__name__}: {reason}") from None
    return draft
