"""Tables of concepts: edge lists (``concept,parent,label``), and lists of codes whose parents follow from the codes."""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Iterator
from typing import Final, TextIO

from stream_masker.core.ontology.draft import OntologyDraft, add_common_root, longest_start
from stream_masker.core.ontology.formats.metadata import UpperLevels, is_metadata, read_metadata
from stream_masker.errors import DuplicateConceptError, EmptyOntologyError, SourceFormatError

_CODE: Final = re.compile(
    r"(?:atc|ops|icd|drg)?[ _-]*(?:code|kode|schl(?:ü|ue)ssel(?:nummer)?|codigo|código)|atc|ops|icd"
)
_OPEN_END: Final = re.compile(r"\.?-$")
"""The mark of a code that has children, as in ``E11.-``."""

_LABEL: Final = re.compile(
    r"(?:.*[ _-])?(?:label|name|title|titel|text|bezeichnung|bedeutung|description|beschreibung|libell(?:é|e))"
)


def read_csv(lines: TextIO, levels: Callable[[], UpperLevels] = UpperLevels) -> OntologyDraft:
    """Read a table with commas or semicolons. ``levels``: those above the codes of a metadata file.

    An edge list has the columns ``concept``, ``parent`` and, if wanted, ``label``. A concept with several parents has
    several rows; the root has a row with an empty parent. If no row has an empty parent, the parents without a row of
    their own are roots. A list of codes, such as ATC or OPS, has a column of codes and perhaps one of labels; the
    parent of a code is the longest one that it starts with. A root is added above several of them. The metadata files
    of ICD-10 and OPS have no header: see ``read_metadata``.

    Raises EmptyOntologyError, SourceFormatError (the header, or a row without a concept or a parent column),
    DuplicateConceptError (a repeated link, or two labels of one concept).
    """
    first = lines.readline()
    delimiter = ";" if first.count(";") > first.count(",") else ","
    rows = csv.reader(_again(first, lines), delimiter=delimiter)
    if is_metadata(first.split(delimiter)):
        return read_metadata(rows, levels())
    return _read_table(rows)


def read_tsv(lines: TextIO) -> OntologyDraft:
    """Read a table with tabs; otherwise like ``read_csv``."""
    return _read_table(csv.reader(lines, delimiter="\t"))


def _again(first: str, lines: TextIO) -> Iterator[str]:
    yield first
    yield from lines


def _read_table(rows: Iterator[list[str]]) -> OntologyDraft:
    header = [name.strip().lower() for name in next(rows, [])]
    if not header:
        raise EmptyOntologyError("the file is empty")
    if header[:2] == ["concept", "parent"]:
        return _read_edges(rows)
    code = next((k for k, name in enumerate(header) if _CODE.fullmatch(name)), None)
    if code is None:
        raise SourceFormatError(
            "the first line must be concept,parent or concept,parent,label, or have a column of codes, such as "
            "code,label"
        )
    label = next((k for k, name in enumerate(header) if k != code and _LABEL.fullmatch(name)), None)
    return _read_codes(rows, code, label)


def _read_edges(rows: Iterator[list[str]]) -> OntologyDraft:
    draft = OntologyDraft()
    for number, row in enumerate(rows, start=2):
        if row:
            _add_edge(draft, row, number)
    _add_implicit_root(draft)
    add_common_root(draft)
    return draft


def _read_codes(rows: Iterator[list[str]], code: int, label: int | None) -> OntologyDraft:
    """Read a list of codes. A code may have several rows, such as the doses of a substance; the first one labels it."""
    draft = OntologyDraft()
    for number, row in enumerate(rows, start=2):
        if not any(row):
            continue
        concept = _OPEN_END.sub("", row[code].strip()) if len(row) > code else ""
        if not concept:
            raise SourceFormatError(f"line {number} has no code")
        draft.labels.setdefault(concept, row[label].strip() if label is not None and len(row) > label else "")
    draft.parents = {concept: longest_start(concept, draft.labels) for concept in draft.labels}
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
