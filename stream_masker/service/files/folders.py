"""The files of an input: a file, or the files of a folder in the order of their names."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path

from stream_masker.errors import ServiceError
from stream_masker.service.files.outputs import STANDARD_STREAM, uncompressed_name

log = logging.getLogger(__name__)

NAMED_FOLDERS = 5
HL7_SUFFIXES = (".hl7", ".mllp")
FOLDER_SUFFIXES = (".json", ".jsonl", ".ndjson", *HL7_SUFFIXES)


def input_files(name: str) -> list[str]:
    """Return the name of a file, or those of a folder's files of JSON and HL7 v2.

    Raises ServiceError if the folder has none, or cannot be read.
    """
    if name == STANDARD_STREAM or not Path(name).is_dir():
        return [name]
    try:
        paths = sorted(Path(name).iterdir())
    except OSError as error:
        raise ServiceError(f"{name} cannot be read: {error.strerror}") from None
    files = [path for path in paths if path.is_file()]
    names = [str(path) for path in files if Path(uncompressed_name(path.name)).suffix.lower() in FOLDER_SUFFIXES]
    folders = [path.name for path in paths if path.is_dir()]
    if not names:
        raise ServiceError(f"the folder {name} {_unusable(bool(files), folders)}")
    if folders:
        log.warning("the folders in %s are not read: %s", name, _some(folders))
    return names


def _unusable(has_files: bool, folders: Sequence[str]) -> str:
    """Return what a folder has instead of files of events, and what to do."""
    if has_files:
        return f"has no file that ends in {', '.join(FOLDER_SUFFIXES)}: name a table itself"
    return f"has only other folders: name one of {_some(folders)}" if folders else "is empty"


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:NAMED_FOLDERS]) + (", ..." if len(names) > NAMED_FOLDERS else "")
