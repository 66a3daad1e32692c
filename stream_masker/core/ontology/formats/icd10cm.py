"""ICD-10-CM, from the package simple-icd-10-cm."""

from __future__ import annotations

from typing import Final

from stream_masker.core.ontology.formats import Draft

PACKAGE: Final = "simple-icd-10-cm"
ROOT: Final = "ICD10CM"


def read_icd10cm() -> Draft:
    """Read 98,493 chapters, blocks and codes, under the root ``ICD10CM``. The leaves are the billable codes.

    The package has 12 headings of several blocks, such as ``M00-M25``, beside the blocks that they comprise. Nothing is
    below them, and they are no codes, so they are left out.

    39 blocks consist of a single category and have the same code in the package. They get the code of a range here:
    block ``B20-B20`` is the parent of category ``B20``.
    """
    import simple_icd_10_cm as icd

    draft = Draft({ROOT: []}, {ROOT: "ICD-10-CM"})
    for code in icd.get_all_codes(with_dots=True):
        parent = icd.get_parent(code) or ROOT
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
