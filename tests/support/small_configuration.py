"""Configurations of tests: the required sections, and the files that they name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml


def small_configuration(*names: str, source: str = "icd10cm", **sections: Any) -> dict[str, Any]:
    """Return the required sections for attributes of one ontology whose paths are their names.

    ``sections``: further ones, and other ones than these.
    """
    required = {
        "ontologies": {"small": {"source": source}},
        "attributes": {name: {"path": name, "ontology": "small"} for name in names},
        "fields": {"unlisted": "drop"},
        "noise_key": "position",
    }
    return required | sections


def merged(base: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    """Return a mapping with the values of another one, at every depth."""
    result = dict(base)
    for key, value in changes.items():
        both = isinstance(value, dict) and isinstance(result.get(key), dict)
        result[key] = merged(result[key], value) if both else value
    return result


def write_small(
    folder: Path, *names: str, rows: str, secret: bytes | None = None, file: str = "stream-masker.yaml", **sections: Any
) -> Path:
    """Write a ``small_configuration``, its ontology of these ``rows`` and its secret, if given; return its path."""
    (folder / "ontology.csv").write_text(rows)
    if secret is not None:
        write_secret(folder, content=secret)
        sections = {"secret": {"file": "secret"}} | sections
    path = folder / file
    path.write_text(yaml.safe_dump(small_configuration(*names, source="ontology.csv", **sections), sort_keys=False))
    return path


def write_secret(folder: Path, name: str = "secret", content: bytes = b"0123456789abcdef") -> None:
    (folder / name).write_bytes(content)
    (folder / name).chmod(0o600)
