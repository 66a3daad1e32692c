"""Each source is parsed once: later processes map its compiled form from the cache folder."""

from __future__ import annotations

import fcntl
import hashlib
import importlib.metadata
import logging
import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from stream_masker.core.ontology.ontology import Ontology
from stream_masker.core.ontology.storage import compiled
from stream_masker.errors import OntologyError

log = logging.getLogger(__name__)


def cache_folder() -> Path:
    """``$STREAM_MASKER_CACHE``, else ``stream-masker`` in ``$XDG_CACHE_HOME`` or ``~/.cache``."""
    given = os.environ.get("STREAM_MASKER_CACHE")
    if given:
        return Path(given)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "stream-masker"


def cache_path(key: str) -> Path:
    """Where the compiled form of a source with this key is kept."""
    return cache_folder() / f"{key}-{compiled.FORMAT_VERSION}{compiled.COMPILED_SUFFIX}"


def through_cache(key: str, source: str, parse: Callable[[], Ontology]) -> Ontology:
    """The compiled ontology of this key, parsed and written first where there is none (or no readable one).

    Of processes that start at once one parses, and the others wait for what it writes.
    """
    found = _opened(key, source)
    if found is not None:
        return found
    with _alone(key):
        return _opened(key, source) or _made(key, source, parse)


def _opened(key: str, source: str) -> Ontology | None:
    try:
        return compiled.read_compiled(cache_path(key))
    except OntologyError as error:
        log.debug("%s has to be parsed: %s", source, error)
        return None


def _made(key: str, source: str, parse: Callable[[], Ontology]) -> Ontology:
    ontology = parse()
    try:
        return cached_or_made(ontology, key, source)
    except OSError as error:
        log.debug("the compiled form of %s is not kept: %s", source, error)
        return ontology


@contextmanager
def _alone(key: str) -> Iterator[None]:
    """Waits until no other process parses the source of this key, and keeps others waiting meanwhile.

    The lock is the system's, which lets go of it when its holder dies. Where there can be none, nobody waits.
    """
    with ExitStack() as stack:
        try:
            cache_folder().mkdir(parents=True, exist_ok=True)
            file = stack.enter_context(cache_path(key).with_suffix(".lock").open("ab"))
            fcntl.flock(file, fcntl.LOCK_EX)
        except OSError as error:
            log.debug("nothing keeps others from parsing the same: %s", error)
        yield


def cached_or_made(ontology: Ontology, key: str, source: str) -> Ontology:
    """The ontology as its compiled form in the cache folder, which is written first. Raises OSError."""
    path = cache_path(key)
    path.parent.mkdir(parents=True, exist_ok=True)
    compiled.write_compiled(ontology, path, source=source)
    return compiled.read_compiled(path)


def file_key(path: Path) -> str:
    """A key that changes with the file's content."""
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, lambda: hashlib.blake2b(digest_size=16))
    return digest.hexdigest()


def package_key(package: str) -> str:
    """A key that changes with the installed version of the package that holds the data."""
    return f"{package}-{importlib.metadata.version(package)}"
