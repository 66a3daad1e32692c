"""Tables of concepts: edge lists (``concept,parent,label``), and lists of codes whose parents follow from the codes."""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Final, TextIO, TypeAlias

from stream_masker.core.ontology.draft import OntologyDraft, add_common_root, starts_of
from stream_masker.core.ontology.formats.metadata import UpperLevels, is_metadata, read_metadata
from stream_masker.errors import DuplicateConceptError, EmptyOntologyError, SourceFormatError

_CODE: Final = re.compile(
    r"(?:atc|ops|icd|drg)?[ _-]*(?:code|kode|schl(?:ü|ue)ssel(?:nummer)?|codigo|código)|atc|ops|icd"
)
_OPEN_END: Final = re.compile(r"\.?-$")
"""The mark of a code that has children, as in ``E11.-``."""

_BLOCK: Final = re.compile(r"(\S+?)\s*(?:\.{3}|…)\s*(\S+)|([A-Z]\d[0-9A-Z])\s*[-–]\s*([A-Z]\d[0-9A-Z])")
"""A range of codes as OPS and ICD write it: ``1-10...1-10``, ``I10-I15``."""

_LABEL: Final = re.compile(
    r"(?:.*[ _-])?(?:label|name|title|titel|text|bezeichnung|bedeutung|description|beschreibung|libell(?:é|e))"
)


def read_csv(lines: TextIO, levels: Callable[[], UpperLevels] = UpperLevels) -> OntologyDraft:
    """Read a table with commas or semicolons. ``levels``: those above the codes of a metadata file.

    An edge list has the columns ``concept``, ``parent`` and, if wanted, ``label``. A concept with several parents has
    several rows; the root has a row with an empty parent. If no row has an empty parent, the parents without a row of
    their own are roots. A list of codes, such as ATC or OPS, has a column of codes and perhaps one of labels; the
    parent of a code is the longest one that it starts with, or the block around it (``1-10...1-10``, ``I10-I15``) if
    that is narrower. A root is added above several of them. The metadata files
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
    blocks = {one: ends for one in draft.labels if (ends := _block_ends(one)) is not None}
    draft.parents = {concept: _parents_of(concept, draft.labels, blocks) for concept in draft.labels}
    add_common_root(draft)
    return draft


_Ends: TypeAlias = tuple[str, str]
"""The first and the last code of a block; of a code, twice the code."""


def _block_ends(code: str) -> _Ends | None:
    match = _BLOCK.fullmatch(code)
    return None if match is None else (match[1] or match[3], match[2] or match[4])


def _parents_of(code: str, codes: Collection[str], blocks: Mapping[str, _Ends]) -> list[str]:
    """Return the parent of a code or a block, as a list; an empty one without any."""
    ends = blocks.get(code, (code, code))
    starts = (one for one in starts_of(ends[0], codes) if ends[1].startswith(one) and not _holds(ends, (one, one)))
    start = next(starts, None)
    around = [block for block, other in blocks.items() if _holds(other, ends) and (code not in blocks or other != ends)]
    if around:
        first = max(blocks[one][0] for one in around)
        narrowest = min((one for one in around if blocks[one][0] == first), key=lambda one: blocks[one][1])
        if start is None or not _holds(blocks[narrowest], (start, start)):
            start = narrowest
    return [] if start is None else [start]


def _holds(outer: _Ends, inner: _Ends) -> bool:
    return outer[0] <= inner[0][: len(outer[0])] and inner[1][: len(outer[1])] <= outer[1]


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
