"""The store of parsed ontologies: a folder of ``.npy`` files each, which all processes map and share."""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

Parts: TypeAlias = Mapping[str, Sequence[NDArray[Any]]]
"""The arrays of each part of an ontology. Array k of the part ``ids`` is in the file ``ids.k.npy``."""

SUFFIX: Final = ".ontology"
"""The end of the names of the folders of the store."""


def stored(key: str, compute: Callable[[], Parts]) -> Parts:
    """Map the parts that are stored under a key.

    If there are none, or if a file is damaged, they are computed and stored; if the cache folder is not writable, they
    are returned as they are.
    """
    folder = cache_folder() / f"{key}-{_code_digest()}{SUFFIX}"
    with suppress(OSError, ValueError):
        return _mapped(folder)
    parts = compute()
    with suppress(OSError, ValueError):
        _save(folder, parts)
        return _mapped(folder)
    return parts


def cache_folder() -> Path:
    """Return ``$STREAM_MASKER_CACHE`` if set; otherwise ``stream-masker`` in ``$XDG_CACHE_HOME`` or ``~/.cache``."""
    configured = os.environ.get("STREAM_MASKER_CACHE")
    if configured:
        return Path(configured)
    above = os.environ.get("XDG_CACHE_HOME") or Path(os.environ.get("HOME", "/"), ".cache")
    return Path(above, "stream-masker")


@cache
def _code_digest() -> str:
    """Return a digest of the code that reads and orders ontologies: another build parses them again."""
    digest = hashlib.blake2b(digest_size=8)
    here = Path(__file__).parent
    for file in sorted(here.rglob("*.py")):
        digest.update(str(file.relative_to(here)).encode() + b"\0" + file.read_bytes())
    return digest.hexdigest()


def _save(folder: Path, parts: Parts) -> None:
    """Write parts to a folder, which appears complete or not at all and replaces one that exists."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent, ignore_cleanup_errors=True) as temporary:
        new = Path(temporary, "new")
        new.mkdir()
        for name, arrays in parts.items():
            for k, array in enumerate(arrays):
                np.save(new / f"{name}.{k}.npy", array)
        shutil.rmtree(folder, ignore_errors=True)
        new.rename(folder)


def _mapped(folder: Path) -> Parts:
    """Map the parts in a folder. Raises OSError or ValueError if there is none, or if a file is no array."""
    parts: dict[str, list[NDArray[Any]]] = {}
    for path in sorted(folder.glob("*.npy")):
        parts.setdefault(path.name.partition(".")[0], []).append(np.asarray(np.load(path, mmap_mode="r")))
    if not parts:
        raise ValueError("there is no array")
    return parts
