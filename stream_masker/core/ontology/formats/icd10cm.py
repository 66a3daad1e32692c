"""ICD-10-CM, from the package simple-icd-10-cm."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

from stream_masker.core.ontology.draft import OntologyDraft

ICD10CM_PACKAGE = "simple-icd-10-cm"
ICD10CM_ROOT = "ICD10CM"


def data_files() -> list[Path]:
    """Return the files that the package reads, without importing it, because its import parses them."""
    package = find_spec("simple_icd_10_cm")
    assert package is not None
    assert package.origin is not None
    return [file for file in (Path(package.origin).parent / "data").iterdir() if file.suffix in (".txt", ".xml")]


def read_icd10cm() -> OntologyDraft:
    """Read 98,493 chapters, blocks and codes, under the root ``ICD10CM``. The leaves are the billable codes.

    The package has 12 headings of several blocks, such as ``M00-M25``, beside the blocks that they comprise. Nothing is
    below them, and they are no codes, so they are left out.

    39 blocks consist of a single category and have the same code in the package. They get the code of a range here:
    block ``B20-B20`` is the parent of category ``B20``.
    """
    import simple_icd_10_cm as icd

    draft = OntologyDraft({ICD10CM_ROOT: []}, {ICD10CM_ROOT: "ICD-10-CM"})
    for code in icd.get_all_codes(with_dots=True):
        parent = icd.get_parent(code) or ICD10CM_ROOT
        concept = code
        if icd.is_leaf(code) and icd.is_block(code) and not icd.is_category(code):
            continue
        if parent == code:
            parent = f"{code}-{code}"
            if parent not in draft.parents:
                concept, parent = parent, icd.get_ancestors(code)[-1]
        draft.parents[concept] = [parent]
        draft.labels[concept] = icd.get_description(code)
    return draft
