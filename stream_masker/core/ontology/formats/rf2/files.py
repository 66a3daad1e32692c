"""Where the snapshot files of a SNOMED CT release are: in a folder, beside one of them, or in a zip archive."""

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
from stream_masker.core.ontology.formats.rf2.table import File
from stream_masker.errors import MissingFileError, OntologyError, SourceFormatError

SNAPSHOT: Final = re.compile(
    r"x?sct2_(?P<kind>Concept|Description|Relationship)_Snapshot(?:-[A-Za-z]{2}(?:-[A-Za-z]+)?)?(?P<release>.*)\.txt"
)
FILE_KINDS: Final = ("Concept", "Description", "Relationship")
PLACES: Final = (".", "Terminology", "Snapshot/Terminology")
"""Where in a folder the files may be: the first of these that has any."""


def is_snapshot(path: Path) -> bool:
    """Whether a file is one of a release's, by its name."""
    return SNAPSHOT.fullmatch(path.name) is not None


def snapshots(path: Path) -> list[Path]:
    """The snapshot files of the release in a folder, or of that which a file is of (whose names end alike).

    Raises OntologyError for several releases.
    """
    if path.is_dir():
        return _in_folder(path)
    own = SNAPSHOT.sub(r"\g<release>", path.name)
    return [file for file in _directly_in(path.parent) if SNAPSHOT.sub(r"\g<release>", file.name) == own]


def _in_folder(folder: Path) -> list[Path]:
    for place in PLACES:
        if found := _directly_in(folder / place):
            return found
    releases = [found for inner in sorted(folder.glob(f"*/{PLACES[-1]}")) if (found := _directly_in(inner))]
    if len(releases) > 1:
        raise OntologyError(f"{folder} holds several releases", culprits=(str(found[0].parent) for found in releases))
    return releases[0] if releases else []


def _directly_in(folder: Path) -> list[Path]:
    return sorted(filter(is_snapshot, folder.glob("*.txt")))


def release_of(where: Path, paths: Iterable[Path]) -> Release:
    """The release that these files are of. Raises MissingFileError."""
    return _release(where, [File(str(path), partial(_mapped, path)) for path in paths])


def release_in_archive(path: Path) -> Release:
    """The release in a zip archive, in whatever folder. Raises MissingFileError, SourceFormatError."""
    try:
        with zipfile.ZipFile(path) as archive:
            names = [name for name in archive.namelist() if is_snapshot(Path(name))]
    except (OSError, zipfile.BadZipFile) as error:
        raise SourceFormatError(f"{path} cannot be read as a zip archive: {error}") from None
    return _release(path, [File(f"{path}/{name}", partial(_unpacked, path, name)) for name in names])


def _release(where: Path, files: Sequence[File]) -> Release:
    found = {kind: [file for file in files if _kind(file) == kind] for kind in FILE_KINDS}
    missing = [f"sct2_{kind}_Snapshot*.txt" for kind in FILE_KINDS if not found[kind]]
    if missing:
        raise MissingFileError(f"{where} lacks files of a SNOMED CT RF2 snapshot", culprits=missing)
    return Release(*found.values())


def _kind(file: File) -> str:
    return SNAPSHOT.sub(r"\g<kind>", Path(file.name).name)


def _mapped(path: Path) -> memoryview:
    try:
        with path.open("rb") as file:
            empty = not path.stat().st_size
            return memoryview(b"" if empty else mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
    except OSError as error:
        raise OntologyError(f"{path} cannot be opened: {error.strerror}") from None


def _unpacked(path: Path, name: str) -> memoryview:
    try:
        with zipfile.ZipFile(path) as archive:
            return memoryview(archive.read(name))
    except (OSError, zipfile.BadZipFile, zlib.error, RuntimeError) as error:
        raise SourceFormatError(f"{path}/{name} cannot be unpacked: {error}") from None
