"""The files of an input: a file, or the files of a folder in the order of their names."""

from __future__ import annotations

from pathlib import Path

from stream_masker.errors import ServiceError
from stream_masker.service.files.outputs import STANDARD_STREAM, uncompressed_name

HL7_SUFFIXES = (".hl7", ".mllp")
FOLDER_SUFFIXES = (".json", ".jsonl", ".ndjson", *HL7_SUFFIXES)


def input_files(name: str) -> list[str]:
    """Return the name of a file, or those of a folder's files of JSON and HL7 v2.

    Raises ServiceError if the folder has none, or cannot be read.
    """
    if name == STANDARD_STREAM or not Path(name).is_dir():
        return [name]
    try:
        paths = sorted(path for path in Path(name).iterdir() if path.is_file())
    except OSError as error:
        raise ServiceError(f"{name} cannot be read: {error.strerror}") from None
    found = [str(path) for path in paths if Path(uncompressed_name(path.name)).suffix.lower() in FOLDER_SUFFIXES]
    if not found:
        raise ServiceError(
            f"the folder {name} has no file that ends in {', '.join(FOLDER_SUFFIXES)}: name a table itself"
        )
    return found
