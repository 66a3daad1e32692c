"""Edge lists: tables with the columns ``concept``, ``parent`` and, if wanted, ``label``."""

from __future__ import annotations

import csv
import io
from typing import BinaryIO

from stream_masker.core.ontology.formats import Draft
from stream_masker.errors import OntologyError


def read_table(file: BinaryIO) -> Draft:
    """Read a table with commas, semicolons or tabs, whichever the header has most of.

    A concept with several parents has several rows; a root has a row with an empty parent. If no row has an empty
    parent, the parents without a row of their own are roots. Raises OntologyError for another header, a row without a
    concept or a parent column, a repeated link, or two labels of one concept.
    """
    text = file.read().decode("utf-8-sig")
    rows = csv.reader(io.StringIO(text, newline=""), delimiter=max(",;\t", key=text.partition("\n")[0].count))
    header = [name.strip().lower() for name in next(rows, [])]
    if header[:2] != ["concept", "parent"]:
        raise OntologyError("the first line must be concept,parent or concept,parent,label")
    draft = Draft()
    for number, row in enumerate(rows, start=2):
        if row:
            _add_edge(draft, row, number)
    if all(draft.parents.values()):
        named = (parent for parents in draft.parents.values() for parent in parents)
        draft.parents.update((root, []) for root in dict.fromkeys(named) if root not in draft.parents)
    return draft


def _add_edge(draft: Draft, row: list[str], number: int) -> None:
    if len(row) < 2 or not row[0].strip():
        raise OntologyError(f"line {number} does not name a concept and its parent")
    concept, parent, label = (*(cell.strip() for cell in row[:3]), "")[:3]
    parents = draft.parents.setdefault(concept, [])
    if parent in parents or (not parent and concept in draft.labels):
        raise OntologyError(f"line {number} repeats a concept with the same parent", culprits=[concept])
    known = draft.labels.setdefault(concept, label)
    if label and known not in ("", label):
        raise OntologyError(f"line {number} gives a concept another label", culprits=[concept])
    if parent:
        parents.append(parent)
    draft.labels[concept] = known or label
