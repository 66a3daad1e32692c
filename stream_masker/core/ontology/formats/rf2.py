"""SNOMED CT in Release Format 2 (RF2): the snapshots of concepts, relationships and descriptions of a release."""

from __future__ import annotations

import re
import zipfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from operator import itemgetter
from pathlib import Path
from typing import IO, Final

from stream_masker.core.ontology.formats import Draft
from stream_masker.errors import (
    DuplicateConceptError,
    EmptyOntologyError,
    MissingFileError,
    OntologyError,
    SeveralRootsError,
    SourceFormatError,
    UnknownParentError,
    error_location,
)

KINDS: Final = ("Concept", "Relationship", "Description")
SNAPSHOT: Final = re.compile(r"x?sct2_(Concept|Relationship|Description)_Snapshot[-_].*\.txt")

SNOMED_ROOT: Final = "138875005"
IS_A: Final = "116680003"
FULLY_SPECIFIED_NAME: Final = "900000000000003001"
SYNONYM: Final = "900000000000013009"


@dataclass(frozen=True, slots=True)
class SnapshotFile:
    """A tab-separated file of a release: its path in a folder or a ``.zip``, its kind, and a function that opens it."""

    path: Path
    kind: str
    open: Callable[[], IO[bytes]]

    def rows(self, *columns: str) -> Iterator[tuple[int, tuple[str, ...]]]:
        """Yield the line, and ``active`` and the wanted columns of each row.

        Raises EmptyOntologyError for an empty file, and SourceFormatError if it is not UTF-8 or lacks a column, or if a
        line has too few or too many or is neither active nor inactive.
        """
        line = 1
        try:
            with error_location(self.path.name), self.open() as file:
                header = next(file, b"").decode("utf-8-sig").rstrip("\r\n").split("\t")
                if header == [""]:
                    raise EmptyOntologyError("the file is empty")
                if missing := [column for column in ("active", *columns) if column not in header]:
                    raise SourceFormatError(f"the first line lacks the columns {', '.join(missing)}")
                wanted = itemgetter(*map(header.index, ("active", *columns)))
                for line, row in enumerate(file, start=2):
                    cells = row.decode().rstrip("\r\n").split("\t")
                    if len(cells) != len(header):
                        found = f"line {line} has {len(cells)} of {len(header)} columns"
                        raise SourceFormatError(f"{found}: the file is truncated or damaged")
                    values = wanted(cells)
                    if values[0] not in ("0", "1"):
                        raise SourceFormatError(f"line {line}: active is not 0 or 1")
                    yield line, values
        except UnicodeDecodeError:
            raise SourceFormatError(f"{self.path.name}: line {line} is not UTF-8 text") from None
        except (OSError, EOFError, zipfile.BadZipFile, zlib.error, RuntimeError) as error:
            raise OntologyError(f"{self.path.name} cannot be read: {error}") from None


def find_snapshots(path: Path) -> list[SnapshotFile]:
    """Find the snapshot files in a folder or a ``.zip``, at any depth.

    Raises MissingFileError if one of the three kinds is missing, and SourceFormatError for a damaged archive.
    """
    if path.is_dir():
        opened: dict[Path, Callable[[], IO[bytes]]] = {file: partial(_open, file) for file in path.rglob("*.txt")}
    else:
        try:
            archive = zipfile.ZipFile(path)
        except zipfile.BadZipFile as error:
            raise SourceFormatError(f"{path} cannot be read as a zip archive: {error}") from None
        opened = {path / name: partial(archive.open, name) for name in archive.namelist()}
    matches = ((file, SNAPSHOT.fullmatch(file.name)) for file in sorted(opened))
    files = [SnapshotFile(file, match[1], opened[file]) for file, match in matches if match]
    if missing := [f"sct2_{kind}_Snapshot*.txt" for kind in KINDS if kind not in {file.kind for file in files}]:
        raise MissingFileError(f"{path} lacks files of a SNOMED CT RF2 snapshot", culprits=missing)
    return files


def _open(file: Path) -> IO[bytes]:
    return file.open("rb")


def read_release(files: Sequence[SnapshotFile]) -> Draft:
    """Read the active concepts of a release, with their active is-a relationships and descriptions.

    The parent of an active is-a relationship must be an active concept, unless the child is inactive: relationships of
    inactive concepts are ignored. If the release contains the SNOMED CT root (138875005), every other concept must have
    a parent. Label: the fully specified name, preferably an English one, otherwise a synonym. (Language reference sets,
    which mark preferred synonyms, are not read.)

    Raises OntologyError or one of its subclasses; messages name the file and, where possible, the line.
    """
    draft, inactive, ranks = Draft(), set[str](), dict[str, int]()
    for file in sorted(files, key=lambda file: KINDS.index(file.kind)):
        if file.kind == "Concept":
            _add_concepts(draft, inactive, file)
        elif file.kind == "Relationship":
            _add_links(draft, inactive, file)
        else:
            _add_names(draft, ranks, file)
    roots = {concept for concept, parents in draft.parents.items() if not parents}
    if len(roots) > 1 and SNOMED_ROOT in roots:
        message = f"these active concepts have no active is-a row, which only the root {SNOMED_ROOT} may lack"
        raise SeveralRootsError(message, culprits=sorted(roots - {SNOMED_ROOT}))
    return draft


def _add_concepts(draft: Draft, inactive: set[str], file: SnapshotFile) -> None:
    for line, (active, concept) in file.rows("id"):
        if not (concept.isascii() and concept.isdigit()):
            raise SourceFormatError(f"{file.path.name}: line {line}: id is not a number")
        if concept in draft.parents or concept in inactive:
            message = f"{file.path.name}: line {line} gives a concept again: use the snapshot of one release"
            raise DuplicateConceptError(message, culprits=[concept])
        if active == "1":
            draft.parents[concept] = []
        else:
            inactive.add(concept)


def _add_links(draft: Draft, inactive: set[str], file: SnapshotFile) -> None:
    parents = draft.parents
    for line, (active, child, parent, kind) in file.rows("sourceId", "destinationId", "typeId"):
        if active == "0" or kind != IS_A or child in inactive:
            continue
        if unknown := [one for one in (child, parent) if one not in parents]:
            message = f"{file.path.name}: line {line}: an active is-a row names a concept that is not active"
            raise UnknownParentError(message, culprits=unknown)
        if parent not in parents[child]:
            parents[child].append(parent)


def _add_names(draft: Draft, ranks: dict[str, int], file: SnapshotFile) -> None:
    """Add labels and synonyms. ``ranks``: of the label that each concept has; the least is the best."""
    for _, (active, concept, language, kind, term) in file.rows("conceptId", "languageCode", "typeId", "term"):
        if active == "0" or kind not in (FULLY_SPECIFIED_NAME, SYNONYM) or concept not in draft.parents:
            continue
        rank = 2 * (kind == SYNONYM) + (language.partition("-")[0].lower() != "en")
        if rank < ranks.get(concept, 4):
            ranks[concept], draft.labels[concept] = rank, term
        if kind == SYNONYM:
            draft.synonyms.setdefault(concept, []).append(term)
