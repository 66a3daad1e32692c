"""The files that a configuration names. No command writes to any of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from stream_masker.core.ontology.sources import NAMED
from stream_masker.service.configuration.model import Configuration

FILE_KEYS: Final = ("file", "source", "mapping", "descriptors", "ca", "certificate", "certificate_key")
"""The keys whose texts are names of files, in any section."""


def named_files(configuration: Configuration) -> dict[str, str]:
    """Return the path of each file that the configuration names, by its place, such as ``secret.file``.

    Kafka's clients resolve the files of ``kafka.properties`` against the working directory, all other names are
    relative to the folder of the configuration.
    """
    content = configuration.model_dump(mode="json", exclude_none=True)
    properties = {key: value for key, value in content["kafka"]["properties"].items() if isinstance(value, str)}
    return {
        **{place: str(configuration.resolve(name)) for place, name in _files(content, "")},
        **{f"kafka.properties.{key}": value for key, value in properties.items() if Path(value).is_file()},
    }


def _files(content: Any, place: str) -> Iterator[tuple[str, str]]:
    """Yield the place and the name of each file below a place."""
    if isinstance(content, Mapping):
        for key, value in content.items():
            if isinstance(value, str) and _names_file(key, value, content):
                yield f"{place}{key}", value
            yield from _files(value, f"{place}{key}.")
    elif isinstance(content, list):
        for number, value in enumerate(content):
            yield from _files(value, f"{place}{number}.")


def _names_file(key: str, value: str, section: Mapping[str, Any]) -> bool:
    """Return whether a text names a file. A section with a certificate may have its key beside it."""
    return value not in NAMED and (key in FILE_KEYS or (key == "key" and "certificate" in section))
