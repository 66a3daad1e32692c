"""What other packages read: OBO, OBO Graphs and OWL by pronto, and ICD-10-CM by simple-icd-10-cm."""

from __future__ import annotations

import io
import warnings
from typing import BinaryIO, Final

from stream_masker.core.ontology.draft import Draft
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
    draft = Draft(root)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            terms = list(Ontology(io.BytesIO(file.read()), import_depth=0, threads=1).terms())
        for term in terms:
            if not term.obsolete:
                parents = [parent.id for parent in term.superclasses(distance=1, with_self=False)]
                synonyms = [synonym.description for synonym in term.synonyms] + sorted(term.alternate_ids)
                draft.add(term.id, parents, [term.name or "", *synonyms])
    except UNREADABLE as error:
        reason = " ".join(str(error).split())
        raise OntologyError(f"the document is not {kind}: {type(error).__name__}: {reason}") from None
    return draft


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
