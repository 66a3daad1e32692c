"""The store of parsed ontologies: a folder of ``.npy`` files each, which all processes map and share."""

from __future__ import annotations

import hashlib
import logging
import os
import shutil
import tempfile
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

log = logging.getLogger(__name__)

Arrays = Mapping[str, NDArray[Any]]

SUFFIX: Final = ".ontology"
"""The end of the names of the folders of the store."""


def load(key: str) -> Arrays | None:
    """Map the arrays that were saved under a key; None if there are none, or if a file is damaged."""
    folder = _folder(key)
    try:
        return _mapped(folder)
    except (OSError, ValueError) as error:
        log.debug("no stored ontology in %s (%s)", folder, type(error).__name__)
        return None


def save(key: str, arrays: Arrays) -> Arrays:
    """Save arrays under a key and return them, mapped; if the cache folder is not writable, as they are.

    The folder appears complete or not at all. It replaces one that exists.
    """
    folder = _folder(key)
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder.parent, ignore_cleanup_errors=True) as temporary:
            new = Path(temporary, "new")
            new.mkdir()
            for name, array in arrays.items():
                np.save(new / f"{name}.npy", array)
            shutil.rmtree(folder, ignore_errors=True)
            new.rename(folder)
        return _mapped(folder)
    except (OSError, ValueError) as error:
        log.debug("an ontology is not stored in %s (%s)", folder, type(error).__name__)
        return arrays


def cache_folder() -> Path:
    """Return ``$STREAM_MASKER_CACHE`` if set; otherwise ``stream-masker`` in ``$XDG_CACHE_HOME`` or ``~/.cache``."""
    configured = os.environ.get("STREAM_MASKER_CACHE")
    if configured:
        return Path(configured)
    return Path(os.environ.get("XDG_CACHE_HOME") or _home() / ".cache") / "stream-masker"


def _home() -> Path:
    """Return the home of the user; ``/`` for a user without one, such as an arbitrary one of OpenShift."""
    try:
        return Path.home()
    except RuntimeError:
        return Path("/")


def _folder(key: str) -> Path:
    return cache_folder() / f"{key}-{_code_digest()}{SUFFIX}"


@cache
def _code_digest() -> str:
    """Return a digest of the code that reads and orders ontologies: another build parses them again."""
    digest = hashlib.blake2b(digest_size=8)
    here = Path(__file__).parent
    for file in sorted(here.rglob("*.py")):
        digest.update(str(file.relative_to(here)).encode() + b"\0" + file.read_bytes())
    return digest.hexdigest()


def _mapped(folder: Path) -> Arrays:
    """Map the arrays of a folder. Raises OSError or ValueError if there is none, or if a file is no array."""
    arrays = {path.stem: np.asarray(np.load(path, mmap_mode="r")) for path in sorted(folder.glob("*.npy"))}
    if not arrays:
        raise ValueError("there is no array")
    return arrays
