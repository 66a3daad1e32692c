"""SNOMED CT in Release Format 2 (RF2): the snapshots of concepts, relationships and descriptions of a release."""

from __future__ import annotations

import csv
import io
import re
import zipfile
from collections.abc import Iterator, Sequence
from functools import partial
from operator import itemgetter
from pathlib import Path
from typing import Final, TypeAlias

from stream_masker.core.ontology.formats import Draft
from stream_masker.errors import OntologyError, error_location

KINDS: Final = ("Concept", "Relationship", "Description")

SNOMED_ROOT: Final = "138875005"
IS_A: Final = "116680003"
FULLY_SPECIFIED_NAME: Final = "900000000000003001"
SYNONYM: Final = "900000000000013009"

File: TypeAlias = Path | zipfile.Path
"""A tab-separated file in a folder or a ``.zip``."""


def find_snapshots(path: Path) -> dict[str, list[File]]:
    """Return the snapshot files of each kind in a folder or a ``.zip``, at any depth.

    Raises OntologyError if one of the three kinds is missing, or for a damaged archive.
    """
    files: list[File] = [*sorted(path.rglob("*.txt"))]
    if path.is_file():
        try:
            archive = zipfile.ZipFile(path)
        except zipfile.BadZipFile as error:
            raise OntologyError(f"{path} cannot be read as a zip archive: {error}") from None
        files = [zipfile.Path(archive, name) for name in sorted(archive.namelist())]
    names = {kind: re.compile(rf"x?sct2_{kind}_Snapshot[-_].*\.txt") for kind in KINDS}
    found = {kind: [file for file in files if name.fullmatch(file.name)] for kind, name in names.items()}
    if missing := [f"sct2_{kind}_Snapshot*.txt" for kind in KINDS if not found[kind]]:
        raise OntologyError(f"{path} lacks files of a SNOMED CT RF2 snapshot", culprits=missing)
    return found


def read_release(files: dict[str, list[File]]) -> Draft:
    """Read the active concepts of a release, with their active is-a relationships and descriptions.

    The parent of an active is-a relationship must be an active concept, unless the child is inactive: relationships of
    inactive concepts are ignored. If the release contains the SNOMED CT root (138875005), every other concept must have
    a parent. Label: the fully specified name, preferably an English one, otherwise a synonym. (Language reference sets,
    which mark preferred synonyms, are not read.)

    Raises OntologyError, whose message names the file and, where possible, the line.
    """
    draft, inactive = Draft(), set[str]()
    readers = (
        partial(_add_concepts, draft, inactive),
        partial(_add_links, draft, inactive),
        partial(_add_names, draft, {}),
    )
    for kind, read in zip(KINDS, readers, strict=True):
        for file in files[kind]:
            with error_location(file.name):
                read(file)
    others = [concept for concept, parents in draft.parents.items() if not parents and concept != SNOMED_ROOT]
    if others and SNOMED_ROOT in draft.parents:
        message = f"these active concepts have no active is-a row, which only the root {SNOMED_ROOT} may lack"
        raise OntologyError(message, culprits=sorted(others))
    return draft


def _add_concepts(draft: Draft, inactive: set[str], file: File) -> None:
    for line, (active, concept) in _rows(file, "id"):
        if not (concept.isascii() and concept.isdigit()):
            raise OntologyError(f"line {line}: id is not a number")
        if concept in draft.parents or concept in inactive:
            message = f"line {line} gives a concept again: use the snapshot of one release"
            raise OntologyError(message, culprits=[concept])
        if active == "1":
            draft.parents[concept] = []
        else:
            inactive.add(concept)


def _add_links(draft: Draft, inactive: set[str], file: File) -> None:
    parents = draft.parents
    for line, (active, child, parent, kind) in _rows(file, "sourceId", "destinationId", "typeId"):
        if active == "0" or kind != IS_A or child in inactive:
            continue
        if unknown := [one for one in (child, parent) if one not in parents]:
            message = f"line {line}: an active is-a row names a concept that is not active"
            raise OntologyError(message, culprits=unknown)
        if parent not in parents[child]:
            parents[child].append(parent)


def _add_names(draft: Draft, ranks: dict[str, int], file: File) -> None:
    """Add labels and synonyms. ``ranks``: of the label that each concept has; the least is the best."""
    for _, (active, concept, language, kind, term) in _rows(file, "conceptId", "languageCode", "typeId", "term"):
        if active == "0" or kind not in (FULLY_SPECIFIED_NAME, SYNONYM) or concept not in draft.parents:
            continue
        rank = 2 * (kind == SYNONYM) + (language.partition("-")[0].lower() != "en")
        if rank < ranks.get(concept, 4):
            ranks[concept], draft.labels[concept] = rank, term
        if kind == SYNONYM:
            draft.synonyms.setdefault(concept, []).append(term)


def _rows(file: File, *columns: str) -> Iterator[tuple[int, Sequence[str]]]:
    """Yield the line, and ``active`` and the wanted columns of each row.

    Raises OntologyError for an empty file, if it lacks a column, or if a line has too few or too many or is neither
    active nor inactive.
    """
    with file.open("rb") as raw:
        text = io.TextIOWrapper(raw, "utf-8-sig", newline="")
        rows = csv.reader(text, delimiter="\t", quoting=csv.QUOTE_NONE)
        header = next(rows, [])
        if not header:
            raise OntologyError("the file is empty")
        if missing := [column for column in ("active", *columns) if column not in header]:
            raise OntologyError(f"the first line lacks the columns {', '.join(missing)}")
        wanted = itemgetter(*map(header.index, ("active", *columns)))
        for line, row in enumerate(rows, start=2):
            if len(row) != len(header):
                found = f"line {line} has {len(row)} of {len(header)} columns"
                raise OntologyError(f"{found}: the file is truncated or damaged")
            values = wanted(row)
            if values[0] not in ("0", "1"):
                raise OntologyError(f"line {line}: active is not 0 or 1")
            yield line, values
