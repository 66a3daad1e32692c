"""What other packages read: OBO and OBO Graphs by fastobo, OWL by pronto, and ICD-10-CM by simple-icd-10-cm."""

from __future__ import annotations

import io
import warnings
from collections import defaultdict
from collections.abc import Iterator
from typing import Any, BinaryIO, Final, TypeAlias

from stream_masker.core.ontology.draft import Draft
from stream_masker.errors import OntologyError, installation_of

UNREADABLE: Final = (ArithmeticError, AttributeError, LookupError, SyntaxError, TypeError, ValueError)
"""What fastobo and pronto raise for documents that they cannot read."""

READ_LINES: Final = (b"[", b"id:", b"name:", b"is_a:", b"synonym:", b"alt_id:", b"is_obsolete:")
"""The starts of the lines of OBO files that are read. Parsing the others would double the time."""

OBO, GRAPH, OWL = "OBO", "an OBO Graph", "OWL in RDF/XML"

Term: TypeAlias = tuple[str, list[str], list[str]]
"""A concept with its superclasses, and with its label, synonyms of every scope and alternative ids."""


def read_obo(file: BinaryIO, kind: str = OBO) -> Draft:
    """Read the terms of an OBO file, or of a document of another ``kind``: the JSON of an OBO Graph, of which the first
    graph is read, or the named classes of OWL in RDF/XML. Obsolete ones are left out.

    Identifiers are those of OBO files for OBO ontologies (``HP:0000118``), otherwise IRIs. Imports are not followed.
    Raises OntologyError if pronto, which brings fastobo, is not installed, and for what they cannot read.
    """
    draft = Draft("owl:Thing" if kind == OWL else "ROOT")
    try:
        for term in _terms_of_owl(file) if kind == OWL else _terms_of_obo(file, kind):
            draft.add(*term)
    except ImportError:
        raise OntologyError(f"{kind} needs pronto: {installation_of('ontologies')}") from None
    except UNREADABLE as error:
        reason = " ".join(str(error).split())
        raise OntologyError(f"the document is not {kind}: {type(error).__name__}: {reason}") from None
    return draft


def _terms_of_obo(file: BinaryIO, kind: str) -> Iterator[Term]:
    import fastobo

    lines = (line if line.startswith(READ_LINES) else b"\n" for line in file)
    frames = fastobo.load_graph(file) if kind == GRAPH else fastobo.iter(io.BytesIO(b"".join(lines)), threads=1)
    for frame in frames:
        if not isinstance(frame, fastobo.term.TermFrame):
            continue
        clauses: dict[str, list[Any]] = defaultdict(list)
        for clause in frame:
            clauses[clause.raw_tag()].append(clause)
        if not any(each.obsolete for each in clauses["is_obsolete"]):
            names = [each.name for each in clauses["name"]] + [each.synonym.desc for each in clauses["synonym"]]
            others = [str(each.alt_id) for each in clauses["alt_id"]]
            yield str(frame.id), [str(each.term) for each in clauses["is_a"]], names + others


def _terms_of_owl(file: BinaryIO) -> Iterator[Term]:
    from pronto.ontology import Ontology

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        terms = list(Ontology(io.BytesIO(file.read()), import_depth=0, threads=1).terms())
    for term in terms:
        if not term.obsolete:
            parents = [parent.id for parent in term.superclasses(distance=1, with_self=False)]
            synonyms = sorted(synonym.description for synonym in term.synonyms) + sorted(term.alternate_ids)
            yield term.id, parents, [term.name or "", *synonyms]


def read_icd10cm() -> Draft:
    """Read 98,493 chapters, blocks and codes, under the root ``ICD10CM``. The leaves are the billable codes.

    The package has 12 headings of several blocks, such as ``M00-M25``, beside the blocks that they comprise. Nothing is
    below them, and they are no codes, so they are left out.

    39 blocks consist of a single category and have the same code in the package. They get the code of a range here:
    block ``B20-B20`` is the parent of category ``B20``.
    """
    import simple_icd_10_cm as icd

    root = "ICD10CM"
    draft = Draft()
    draft.add(root, [], ["ICD-10-CM"])
    for code in icd.get_all_codes(with_dots=True):
        parent = icd.get_parent(code) or root
        concept = code
        if icd.is_leaf(code) and icd.is_block(code) and not icd.is_category(code):
            continue
        if parent == code:
            parent = f"{code}-{code}"
            if parent not in draft.parents:
                concept, parent = parent, icd.get_ancestors(code)[-1]
        draft.add(concept, [parent], [icd.get_description(code)])
    return draft
