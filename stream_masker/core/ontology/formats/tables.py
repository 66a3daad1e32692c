"""Tables: edge lists, and SNOMED CT in Release Format 2 (RF2)."""

from __future__ import annotations

import csv
import io
import re
import zipfile
from collections.abc import Iterable, Iterator
from operator import itemgetter
from pathlib import Path
from typing import IO, BinaryIO, Final, Literal, TypeAlias

from stream_masker.core.ontology.draft import Draft, reading
from stream_masker.errors import OntologyError

KINDS: Final = ("Concept", "Relationship", "Description")
"""The files of a release that are read."""

SNOMED_ROOT: Final = "138875005"
DESCRIPTION: Final = ("conceptId", "languageCode", "typeId", "term")
IS_A: Final = "116680003"
FULLY_SPECIFIED_NAME: Final = "900000000000003001"
SYNONYM: Final = "900000000000013009"

File: TypeAlias = Path | zipfile.Path
"""A tab-separated file in a folder or a ``.zip``."""


def read_edges(file: BinaryIO) -> Draft:
    """Read an edge list: a table with the columns ``concept``, ``parent`` and, if wanted, ``label``.

    A concept with several parents has several rows, and a root has a row with an empty parent. If no row has an empty
    parent, the parents without a row of their own are roots. Further labels of a concept are synonyms. Raises
    OntologyError like ``rows_of``.
    """
    draft = Draft()
    for cells in rows_of(file, "concept", "parent", optional="label"):
        concept, parent, label = map(str.strip, cells)
        draft.add(concept, [parent] if parent else [], [label])
    if all(draft.parents.values()):
        for parent in [parent for parents in draft.parents.values() for parent in parents]:
            draft.add(parent)
    return draft


def find_snapshots(path: Path) -> dict[str, list[File]]:
    """Return the snapshot files of each kind in a folder or a ``.zip``, at any depth.

    Raises OntologyError if one of the three kinds is missing, and BadZipFile for a damaged archive.
    """
    files: list[File] = [*sorted(path.rglob("*.txt"))]
    if path.is_file():
        archive = zipfile.ZipFile(path)
        files = [zipfile.Path(archive, name) for name in sorted(archive.namelist())]
    names = {kind: re.compile(rf"x?sct2_{kind}_Snapshot[-_].*\.txt") for kind in KINDS}
    found = {kind: [file for file in files if name.fullmatch(file.name)] for kind, name in names.items()}
    if missing := [f"sct2_{kind}_Snapshot*.txt" for kind in KINDS if not found[kind]]:
        raise OntologyError("files of a SNOMED CT RF2 snapshot are missing", culprits=missing)
    return found


def read_release(files: dict[str, list[File]]) -> Draft:
    """Read the active concepts of a release, with their active is-a relationships and descriptions.

    Rows of concepts that are not active are ignored. If the release contains the SNOMED CT root (138875005), every
    other concept must have a parent. Label: the fully specified name, preferably an English one, otherwise a synonym;
    further names are synonyms. (Language reference sets, which mark preferred synonyms, are not read.)

    Raises OntologyError, whose message names the file and, where possible, the line.
    """
    draft, names = Draft(), dict[str, list[tuple[bool, bool, str]]]()
    for (concept,) in _active_rows(files["Concept"], "id"):
        draft.add(concept)
    for child, parent, kind in _active_rows(files["Relationship"], "sourceId", "destinationId", "typeId"):
        if kind == IS_A and child in draft.parents:
            draft.add(child, [parent])
    for concept, language, kind, term in _active_rows(files["Description"], *DESCRIPTION):
        if kind in (FULLY_SPECIFIED_NAME, SYNONYM) and concept in draft.parents:
            rank = kind == SYNONYM, language.partition("-")[0].lower() != "en"
            names.setdefault(concept, []).append((*rank, term))
    for concept, ranked in names.items():
        draft.add(concept, [], [term for *_, term in sorted(ranked, key=itemgetter(0, 1))])
    others = [concept for concept, parents in draft.parents.items() if not parents and concept != SNOMED_ROOT]
    if others and SNOMED_ROOT in draft.parents:
        message = f"these active concepts have no active is-a row, which only the root {SNOMED_ROOT} may lack"
        raise OntologyError(message, culprits=sorted(others))
    return draft


def _active_rows(files: Iterable[File], *columns: str) -> Iterator[list[str]]:
    for file in files:
        with reading(file.name), file.open("rb") as raw:
            rows = rows_of(raw, "active", *columns, is_quoted=False)
            yield from (cells for active, *cells in rows if active == "1")


def rows_of(file: IO[bytes], *columns: str, optional: str = "", is_quoted: bool = True) -> Iterator[list[str]]:
    """Yield the cells of the named columns, and of an optional one, empty if there is none, in each row that is not
    blank.

    Commas, semicolons or tabs separate cells, whichever the header has most of. Raises OntologyError for a header
    without one of the columns, and for a row with more or fewer cells than the header. Raises csv.Error or
    UnicodeDecodeError.
    """
    quoting: Literal[0, 3] = csv.QUOTE_MINIMAL if is_quoted else csv.QUOTE_NONE
    text = io.TextIOWrapper(file, "utf-8-sig", newline="")
    first = text.readline()
    delimiter = max(",;\t", key=first.count)
    header = [name.strip().lower() for name in next(csv.reader([first], delimiter=delimiter, quoting=quoting), [])]
    if missing := [name for name in columns if name.lower() not in header]:
        raise OntologyError(f"the first line lacks the columns {', '.join(missing)}")
    places = [header.index(name.lower()) for name in columns]
    places += [header.index(optional) if optional in header else len(header)] if optional else []
    for line, row in enumerate(csv.reader(text, delimiter=delimiter, quoting=quoting), start=2):
        if row and len(row) != len(header):
            raise OntologyError(f"line {line} has {len(row)} of {len(header)} columns")
        if row:
            row.append("")
            yield [row[place] for place in places]
