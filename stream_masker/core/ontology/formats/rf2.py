"""SNOMED CT in Release Format 2 (RF2): the snapshots of concepts, relationships and descriptions of a release."""

from __future__ import annotations

import csv
import io
import re
import zipfile
from collections.abc import Iterator, Sequence
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

    Rows of concepts that are not active are ignored. If the release contains the SNOMED CT root (138875005), every
    other concept must have a parent. Label: the fully specified name, preferably an English one, otherwise a synonym.
    (Language reference sets, which mark preferred synonyms, are not read.)

    Raises OntologyError, whose message names the file and, where possible, the line.
    """
    draft, ranks = Draft(), dict[str, int]()
    for file in files["Concept"]:
        for (concept,) in _active_rows(file, "id"):
            draft.add(concept, [], "", [])
    for file in files["Relationship"]:
        for child, parent, kind in _active_rows(file, "sourceId", "destinationId", "typeId"):
            if kind == IS_A and child in draft.parents and parent not in draft.parents[child]:
                draft.parents[child].append(parent)
    for file in files["Description"]:
        for concept, language, kind, term in _active_rows(file, "conceptId", "languageCode", "typeId", "term"):
            if kind not in (FULLY_SPECIFIED_NAME, SYNONYM) or concept not in draft.parents:
                continue
            rank = 2 * (kind == SYNONYM) + (language.partition("-")[0].lower() != "en")
            if rank < ranks.get(concept, 4):
                ranks[concept], draft.labels[concept] = rank, term
            if kind == SYNONYM:
                draft.synonyms[concept].append(term)
    others = [concept for concept, parents in draft.parents.items() if not parents and concept != SNOMED_ROOT]
    if others and SNOMED_ROOT in draft.parents:
        message = f"these active concepts have no active is-a row, which only the root {SNOMED_ROOT} may lack"
        raise OntologyError(message, culprits=sorted(others))
    return draft


def _active_rows(file: File, *columns: str) -> Iterator[Sequence[str]]:
    """Yield the wanted columns of each row that is active.

    Raises OntologyError for a file that lacks a column, and for a line that has too few or too many.
    """
    with error_location(file.name), file.open("rb") as raw:
        text = io.TextIOWrapper(raw, "utf-8-sig", newline="")
        rows = csv.reader(text, delimiter="\t", quoting=csv.QUOTE_NONE)
        header = next(rows, [])
        if missing := [column for column in ("active", *columns) if column not in header]:
            raise OntologyError(f"the first line lacks the columns {', '.join(missing)}")
        wanted = itemgetter(*map(header.index, ("active", *columns)))
        for line, row in enumerate(rows, start=2):
            if len(row) != len(header):
                found = f"line {line} has {len(row)} of {len(header)} columns"
                raise OntologyError(f"{found}: the file is truncated or damaged")
            active, *values = wanted(row)
            if active not in ("0", "1"):
                raise OntologyError(f"line {line}: the column active is neither 0 nor 1")
            if active == "1":
                yield values
