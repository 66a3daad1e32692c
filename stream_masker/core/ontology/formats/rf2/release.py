"""A SNOMED CT release in Release Format 2: active concepts, active is-a relationships and active descriptions.

A file is UTF-8 text with one row per line and tab-separated columns, whose names are in the first line.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import BinaryIO, Final

from stream_masker.core.ontology.draft import OntologyDraft
from stream_masker.errors import (
    DuplicateConceptError,
    EmptyOntologyError,
    InactiveParentError,
    OntologyError,
    SeveralRootsError,
    SourceFormatError,
    UnknownParentError,
    error_location,
)

SNOMED_ROOT: Final = "138875005"
IS_A_TYPE: Final = "116680003"
FULLY_SPECIFIED_NAME: Final = "900000000000003001"
SYNONYM: Final = "900000000000013009"

CONCEPT_HEADER: Final = "id effectiveTime active moduleId definitionStatusId"
DESCRIPTION_HEADER: Final = "id effectiveTime active moduleId conceptId languageCode typeId term caseSignificanceId"
RELATIONSHIP_HEADER: Final = (
    "id effectiveTime active moduleId sourceId destinationId relationshipGroup typeId characteristicTypeId modifierId"
)

NUMBER: Final = "[0-9]{1,18}", "a number of at most 18 digits"
COLUMN_FORMATS: Final = {
    "active": ("[01]", "0 or 1"),
    "languageCode": ("[ -~]{2,8}", "a language code of two to eight letters"),
    "term": ("[^\t]*", "a text"),
}
"""The values of columns, and what they are in messages. The other columns that are read have a ``NUMBER``."""


@dataclass(frozen=True, slots=True)
class ReleaseFile:
    """A file of a release: its name for messages, and a function that opens it."""

    name: str
    open: Callable[[], BinaryIO]


@dataclass(frozen=True, slots=True)
class Release:
    """The files of a release, at least one of each kind."""

    concepts: Sequence[ReleaseFile]
    descriptions: Sequence[ReleaseFile]
    relationships: Sequence[ReleaseFile]


def read_release(release: Release) -> OntologyDraft:
    """Read the active concepts of a release, with their active is-a relationships and descriptions.

    * The parent of an active is-a relationship must be an active concept, unless the child is inactive: relationships
      of inactive concepts are ignored. A relationship that occurs several times counts once. If the release contains
      the SNOMED CT root (138875005), every other concept must have a parent.
    * Label: the fully specified name, the English one if there are several languages; otherwise the first synonym;
      otherwise empty. (Language reference sets, which mark preferred synonyms, are not read.)
    * Synonyms: every other synonym, English first, then by language and id.

    Raises OntologyError or one of its subclasses; messages name the file and, where possible, the line.
    """
    concepts = _read_concepts(release.concepts)
    draft = OntologyDraft({concept: [] for concept, active in concepts.items() if active})
    for file in release.relationships:
        _add_links(draft, concepts, file)
    with error_location(file_names(release.relationships)):
        _check_roots(draft)
    _add_names(draft, release.descriptions)
    return draft


def file_names(files: Sequence[ReleaseFile]) -> str:
    """Return the names of files, for messages."""
    return ", ".join(file.name for file in files)


def _read_concepts(files: Sequence[ReleaseFile]) -> dict[str, bool]:
    """Return whether each concept is active."""
    concepts: dict[str, bool] = {}
    repeated = set()
    for file in files:
        for _, (concept, active) in _rows(file, CONCEPT_HEADER, "id active"):
            repeated |= {concept} & concepts.keys()
            concepts[concept] = active == "1"
    with error_location(file_names(files)):
        if repeated:
            message = "these concepts have several rows: the files are not snapshots, or belong to several releases"
            raise DuplicateConceptError(message, culprits=sorted(repeated, key=int))
        if not any(concepts.values()):
            raise EmptyOntologyError("there is no active concept")
    return concepts


def _add_links(draft: OntologyDraft, concepts: dict[str, bool], file: ReleaseFile) -> None:
    absent, inactive = [], []
    for line, (active, child, parent, kind) in _rows(file, RELATIONSHIP_HEADER, "active sourceId destinationId typeId"):
        if active == "1" and kind == IS_A_TYPE:
            absent += [(line, concept) for concept in (child, parent) if concept not in concepts]
            if child in draft.parents and not concepts.get(parent, True):
                inactive.append((line, parent))
            if child in draft.parents and parent not in draft.parents[child]:
                draft.parents[child].append(parent)
    _refuse(UnknownParentError, file, absent, "an active is-a row names a concept that no concept file holds")
    _refuse(InactiveParentError, file, inactive, "an active is-a row leads to an inactive concept")


def _refuse(error: type[OntologyError], file: ReleaseFile, rows: Sequence[tuple[int, str]], message: str) -> None:
    """Raise the error if there are such rows. The message names the first line; the culprits are the concepts of
    all."""
    if rows:
        culprits = sorted({concept for _, concept in rows}, key=int)
        raise error(f"{file.name}: line {rows[0][0]}: {message}", culprits=culprits)


def _check_roots(draft: OntologyDraft) -> None:
    roots = {concept for concept, parents in draft.parents.items() if not parents}
    if len(roots) > 1 and SNOMED_ROOT in roots:
        message = f"these active concepts have no active is-a row, which only the root {SNOMED_ROOT} may lack"
        raise SeveralRootsError(message, culprits=sorted(roots - {SNOMED_ROOT}, key=int))


def _add_names(draft: OntologyDraft, files: Iterable[ReleaseFile]) -> None:
    names = defaultdict(list)
    for file in files:
        columns = "id active conceptId languageCode typeId term"
        for _, (own, active, concept, language, kind, term) in _rows(file, DESCRIPTION_HEADER, columns):
            if active == "1" and concept in draft.parents and kind in (FULLY_SPECIFIED_NAME, SYNONYM):
                code = language.lower()
                order = "" if code == "en" or code.startswith("en-") else code
                names[concept].append(f"{kind == SYNONYM:d}{order}\t{own.zfill(18)}\t{term}")
    while names:
        concept, lines = names.popitem()
        label, *others = sorted(lines)
        draft.labels[concept] = label.split("\t")[2]
        draft.synonyms[concept] = [name.split("\t")[2] for name in others if name.startswith("1")]


def _rows(file: ReleaseFile, header: str, wanted: str) -> Iterator[tuple[int, tuple[str, ...]]]:
    """Yield the number of each line, and its values of the wanted columns, in the order of the header.

    ``header``, ``wanted``: names with spaces.

    Raises EmptyOntologyError for an empty file, and SourceFormatError with the name of the file and the line: the file
    is not UTF-8, it has another header, a line has too few or too many columns, or a value does not match its column.
    A last line without an end, whose last column is shorter than that of the line before, was cut off.
    """
    columns, last = header.split(), ""
    formats = [COLUMN_FORMATS.get(name, NUMBER) if name in wanted.split() else None for name in columns]
    row = re.compile("\t".join(f"({known[0]})" if known else "[^\t]*" for known in formats))
    with file.open() as lines:
        _check_header(file, next(lines, b""), columns)
        for number, line in enumerate(lines, start=2):
            text = _decoded(file, number, line)
            values = row.fullmatch(text)
            if values is None:
                raise SourceFormatError(f"{file.name}: line {number}{_problem(text, columns, formats)}")
            if not line.endswith(b"\n") and len(text) - text.rindex("\t") < len(last) - last.rfind("\t"):
                raise SourceFormatError(f"{file.name}: its last line has no end: the file is truncated")
            last = text
            yield number, values.groups()


def _problem(text: str, columns: Sequence[str], formats: Sequence[tuple[str, str] | None]) -> str:
    cells = text.split("\t")
    if len(cells) != len(columns):
        size = f"only {len(cells)}" if len(cells) < len(columns) else f"more than {len(columns)}"
        return f" has {size} of {len(columns)} columns: the file is truncated or damaged"
    checks = zip(cells, columns, formats, strict=True)
    return next(f": {a} is not {known[1]}" for cell, a, known in checks if known and not re.fullmatch(known[0], cell))


def _check_header(file: ReleaseFile, line: bytes, columns: Sequence[str]) -> None:
    text = _decoded(file, 1, line).removeprefix("\ufeff")
    if not text:
        raise EmptyOntologyError(f"{file.name} is empty")
    if text.split("\t") != columns:
        raise SourceFormatError(f"{file.name}: the first line must be the {len(columns)} columns {', '.join(columns)}")


def _decoded(file: ReleaseFile, number: int, line: bytes) -> str:
    try:
        return line.decode().removesuffix("\n").removesuffix("\r")
    except UnicodeDecodeError:
        raise SourceFormatError(f"{file.name}: line {number} is not UTF-8 text") from None
