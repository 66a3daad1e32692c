"""Edge lists: one is-a link per row, with the header ``concept,parent,label``."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from typing import TextIO

from stream_masker.core.ontology.draft import OntologyDraft, add_common_root
from stream_masker.errors import DuplicateConceptError, EmptyOntologyError, SourceFormatError


def read_csv(lines: TextIO) -> OntologyDraft:
    """Read a comma-separated edge list.

    A concept with several parents has several rows; the root has a row with an empty parent. If no row has an empty
    parent, the parents without a row of their own are roots. A root is added above several of them. The column
    ``label`` is optional.

    Raises EmptyOntologyError, SourceFormatError (the header, or a row without a concept or a parent column),
    DuplicateConceptError (a repeated link, or two labels of one concept).
    """
    return _read_edges(csv.reader(lines))


def read_tsv(lines: TextIO) -> OntologyDraft:
    """Read a tab-separated edge list; otherwise like ``read_csv``."""
    return _read_edges(csv.reader(lines, delimiter="\t"))


def _read_edges(rows: Iterator[list[str]]) -> OntologyDraft:
    header = [name.strip().lower() for name in next(rows, [])]
    if not header:
        raise EmptyOntologyError("the file is empty")
    if header[:2] != ["concept", "parent"]:
        raise SourceFormatError("the first line must be concept,parent or concept,parent,label")
    draft = OntologyDraft()
    for number, row in enumerate(rows, start=2):
        if row:
            _add_edge(draft, row, number)
    _add_implicit_root(draft)
    add_common_root(draft)
    return draft


def _add_edge(draft: OntologyDraft, row: list[str], number: int) -> None:
    if len(row) < 2 or not row[0].strip():
        raise SourceFormatError(f"line {number} does not name a concept and its parent")
    concept, parent, label = (*(cell.strip() for cell in row[:3]), "")[:3]
    parents = draft.parents.setdefault(concept, [])
    if parent in parents or (not parent and concept in draft.labels):
        raise DuplicateConceptError(f"line {number} repeats a concept with the same parent", culprits=[concept])
    if draft.labels.get(concept, label) != label and label:
        raise DuplicateConceptError(f"line {number} gives a concept another label", culprits=[concept])
    if parent:
        parents.append(parent)
    draft.labels[concept] = label or draft.labels.get(concept, "")


def _add_implicit_root(draft: OntologyDraft) -> None:
    """If every concept has a parent, add the parents that have no row as roots, in the order of the file."""
    undeclared = dict.fromkeys(p for above in draft.parents.values() for p in above if p not in draft.parents)
    if all(draft.parents.values()):
        draft.parents.update((root, []) for root in undeclared)
