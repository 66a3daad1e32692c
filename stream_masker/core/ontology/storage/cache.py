"""The cache folder of compiled ontologies.

The first process that loads a source parses it and writes its compiled form here. Later processes map that file. An
installation contains the compiled forms of named sources, in the folder ``SHIPPED``, in the same format and under the
same names. They are read where the cache has none. The name of a file has a digest of the code that parses: another
build, which may read the same source as other concepts, parses it again.
"""

from __future__ import annotations

import fcntl
import hashlib
import importlib.metadata
import logging
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import cache
from pathlib import Path
from typing import Final

from stream_masker.core.cache_folder import SHIPPED, cache_folder
from stream_masker.core.ontology.data import OntologyData
from stream_masker.core.ontology.storage import compiled
from stream_masker.errors import OntologyError

log = logging.getLogger(__name__)

READERS_FOLDER: Final = Path(__file__).parents[1]
"""The folder of the code that reads sources and orders their concepts."""


def cache_path(key: str) -> Path:
    """Return the path of the compiled form of the source with this key."""
    return cache_folder() / _file_name(key)


def load_cached(key: str, source: str, parse: Callable[[], OntologyData]) -> OntologyData:
    """Open the compiled form of a source, or parse the source and write its compiled form if there is none.

    The compiled form is in the cache folder or in the installation. One that cannot be read counts as none. If several
    processes start at once, one parses and the others wait for the file that it writes. If the cache folder is not
    writable, the parsed ontology is returned as it is.

    ``source``: the name of the source, for log lines and the header of the file. Raises what ``parse`` raises.
    """
    data = _open(key, source)
    if data is not None:
        return data
    with _locked(key):
        return _open(key, source) or _parse(key, source, parse)


def store(data: OntologyData, key: str, source: str) -> OntologyData:
    """Write the compiled form of an ontology to the cache folder and open it. Raises OSError."""
    path = cache_path(key)
    path.parent.mkdir(parents=True, exist_ok=True)
    compiled.write_compiled(data, path, source=source)
    return compiled.read_compiled(path)


def file_key(path: Path) -> str:
    """Return a key that depends on the content of a file alone. Raises OSError."""
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, lambda: hashlib.blake2b(digest_size=16))
    return digest.hexdigest()


def package_key(package: str) -> str:
    """Return a key that depends on the installed version of the package that contains the data."""
    return f"{package}-{importlib.metadata.version(package)}"


def _file_name(key: str) -> str:
    return f"{key}-{_readers_digest(READERS_FOLDER)}-{compiled.FORMAT_VERSION}{compiled.COMPILED_SUFFIX}"


@cache
def _readers_digest(folder: Path) -> str:
    """Return a digest of the Python files in a folder."""
    digest = hashlib.blake2b(digest_size=8)
    for file in sorted(folder.rglob("*.py")):
        digest.update(str(file.relative_to(folder)).encode() + b"\0" + file.read_bytes())
    return digest.hexdigest()


def _open(key: str, source: str) -> OntologyData | None:
    for path in (cache_path(key), SHIPPED / _file_name(key)):
        try:
            return compiled.read_compiled(path)
        except OntologyError as error:
            log.debug("no usable compiled form of %s: %s", source, error)
    return None


def _parse(key: str, source: str, parse: Callable[[], OntologyData]) -> OntologyData:
    data = parse()
    try:
        return store(data, key, source)
    except OSError as error:
        log.debug("the compiled form of %s cannot be written: %s", source, error)
        return data


@contextmanager
def _locked(key: str) -> Iterator[None]:
    """Hold the lock of a key, so that no other process parses the same source at the same time.

    The operating system releases the lock if the process dies. If the lock file cannot be created, processes do not
    wait for each other.
    """
    with ExitStack() as stack:
        try:
            cache_folder().mkdir(parents=True, exist_ok=True)
            file = stack.enter_context(cache_path(key).with_suffix(".lock").open("ab"))
            fcntl.flock(file, fcntl.LOCK_EX)
        except OSError as error:
            log.debug("parsing without a lock: %s", error)
        yield
