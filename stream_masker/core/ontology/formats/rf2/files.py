"""The snapshot files of a SNOMED CT release: in a folder, beside one of them, or in a zip archive."""

from __future__ import annotations

import mmap
import re
import zipfile
import zlib
from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Final

from stream_masker.core.ontology.formats.rf2.release import Release
from stream_masker.core.ontology.formats.rf2.table import ReleaseFile
from stream_masker.errors import MissingFileError, OntologyError, SourceFormatError

SNAPSHOT: Final = re.compile(
    r"x?sct2_(?P<kind>Concept|Description|Relationship)_Snapshot(?:-[A-Za-z]{2}(?:-[A-Za-z]+)?)?(?P<release>.*)\.txt"
)
FILE_KINDS: Final = ("Concept", "Description", "Relationship")
SUBFOLDERS: Final = (".", "Terminology", "Snapshot/Terminology")
"""Where the files may be in a folder. The first of these that contains any is used."""


def is_snapshot(path: Path) -> bool:
    """Return whether a path has the name of a snapshot file."""
    return SNAPSHOT.fullmatch(path.name) is not None


def find_snapshots(path: Path) -> list[Path]:
    """Find the snapshot files of the release in a folder, or of the release that a snapshot file belongs to.

    The files of one release have the same end of their names. Raises OntologyError if the folder contains several
    releases.
    """
    if path.is_dir():
        return _in_folder(path)
    release = SNAPSHOT.sub(r"\g<release>", path.name)
    return [file for file in _directly_in(path.parent) if SNAPSHOT.sub(r"\g<release>", file.name) == release]


def open_release(path: Path, files: Iterable[Path]) -> Release:
    """Return the release that consists of the given files; they are mapped when they are read.

    ``path``: where the files were searched, for messages. Raises MissingFileError if one of the three kinds is missing.
    """
    return _release(path, [ReleaseFile(str(file), partial(_map, file)) for file in files])


def open_archive(path: Path) -> Release:
    """Return the release in a zip archive, in any folder of it; files are unpacked into memory when they are read.

    Raises MissingFileError, SourceFormatError.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            names = [name for name in archive.namelist() if is_snapshot(Path(name))]
    except (OSError, zipfile.BadZipFile) as error:
        raise SourceFormatError(f"{path} cannot be read as a zip archive: {error}") from None
    return _release(path, [ReleaseFile(f"{path}/{name}", partial(_unpack, path, name)) for name in names])


def _in_folder(folder: Path) -> list[Path]:
    for subfolder in SUBFOLDERS:
        if files := _directly_in(folder / subfolder):
            return files
    releases = [files for inner in sorted(folder.glob(f"*/{SUBFOLDERS[-1]}")) if (files := _directly_in(inner))]
    if len(releases) > 1:
        raise OntologyError(f"{folder} holds several releases", culprits=(str(files[0].parent) for files in releases))
    return releases[0] if releases else []


def _directly_in(folder: Path) -> list[Path]:
    return sorted(filter(is_snapshot, folder.glob("*.txt")))


def _release(path: Path, files: Sequence[ReleaseFile]) -> Release:
    by_kind = {kind: [file for file in files if _kind(file) == kind] for kind in FILE_KINDS}
    missing = [f"sct2_{kind}_Snapshot*.txt" for kind in FILE_KINDS if not by_kind[kind]]
    if missing:
        advice = "" if files else " (of another ontology, name its file, unpacked)"
        raise MissingFileError(f"{path} lacks files of a SNOMED CT RF2 snapshot{advice}", culprits=missing)
    return Release(*by_kind.values())


def _kind(file: ReleaseFile) -> str:
    return SNAPSHOT.sub(r"\g<kind>", Path(file.name).name)


def _map(path: Path) -> memoryview:
    try:
        with path.open("rb") as file:
            empty = not path.stat().st_size
            return memoryview(b"" if empty else mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
    except OSError as error:
        raise OntologyError(f"{path} cannot be opened: {error.strerror}") from None


def _unpack(path: Path, name: str) -> memoryview:
    try:
        with zipfile.ZipFile(path) as archive:
            return memoryview(archive.read(name))
    except (OSError, zipfile.BadZipFile, zlib.error, RuntimeError) as error:
        raise SourceFormatError(f"{path}/{name} cannot be unpacked: {error}") from None
