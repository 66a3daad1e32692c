"""Edge lists: one row a link, the header ``concept,parent,label``."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from typing import TextIO

from stream_masker.core.ontology.formats.draft import OntologyDraft
from stream_masker.errors import DuplicateConceptError, EmptyOntologyError, SourceFormatError


def read_csv(lines: TextIO) -> OntologyDraft:
    """An edge list with the header ``concept,parent,label``, separated by commas."""
    return _read_edges(csv.reader(lines))


def read_tsv(lines: TextIO) -> OntologyDraft:
    """An edge list with the header ``concept	parent	label``, separated by tabs."""
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
    _root_of_edges(draft)
    return draft


def _add_edge(draft: OntologyDraft, row: list[str], number: int) -> None:
    if len(row) < 2 or not row[0].strip():
        raise SourceFormatError(f"line {number} does not name a concept and its parent")
    concept, parent, label = (*(cell.strip() for cell in row[:3]), "")[:3]
    known = draft.parents.setdefault(concept, [])
    if parent in known or (not parent and concept in draft.labels):
        raise DuplicateConceptError(f"line {number} repeats a concept with the same parent", culprits=[concept])
    if draft.labels.get(concept, label) != label and label:
        raise DuplicateConceptError(f"line {number} gives a concept another label", culprits=[concept])
    if parent:
        known.append(parent)
    draft.labels[concept] = label or draft.labels.get(concept, "")


def _root_of_edges(draft: OntologyDraft) -> None:
    """Where no row has an empty parent, the one parent that has no row of its own is the root."""
    undeclared = {p for above in draft.parents.values() for p in above if p not in draft.parents}
    if len(undeclared) == 1 and all(draft.parents.values()):
        draft.parents[undeclared.pop()] = []
