"""Sources of ontologies: a name, a file of a supported format, or a release of SNOMED CT.

Each reader returns a ``Draft`` of what the source says, and checks its syntax; ``core.ontology.draft`` checks that the
links form a hierarchy. To add a format, write a reader and list its suffix in ``READERS``.
"""

from __future__ import annotations

import gzip
import hashlib
import io
from collections.abc import Callable, Iterable
from functools import partial
from importlib.metadata import version
from itertools import chain
from pathlib import Path
from typing import BinaryIO, Final, cast

from stream_masker.core.ontology.draft import Draft
from stream_masker.core.ontology.formats.documents import read_claml, read_json
from stream_masker.core.ontology.formats.packages import OWL, read_icd10cm, read_obo
from stream_masker.core.ontology.formats.tables import File, find_snapshots, read_edges, read_release
from stream_masker.errors import OntologyError

NAMED: Final[dict[str, tuple[str, Callable[[], Draft]]]] = {"icd10cm": ("simple-icd-10-cm", read_icd10cm)}
"""The package and the reader of each source that has a name."""

READERS: Final[dict[str, Callable[[BinaryIO], Draft]]] = {
    ".claml": read_claml,
    ".csv": read_edges,
    ".json": read_json,
    ".obo": read_obo,
    ".owl": partial(read_obo, kind=OWL),
    ".tsv": read_edges,
    ".xml": read_claml,
}
"""The reader of each file name suffix."""


def find_source(source: str | Path) -> tuple[str, Callable[[], Draft]]:
    """Return a key that changes with the content of a source, and what parses it.

    Raises OntologyError or OSError if there is none.
    """
    if str(source) in NAMED:
        package, read = NAMED[str(source)]
        return f"{source}-{version(package)}", read
    path = Path(source)
    suffix = Path(path.name.removesuffix(".gz")).suffix.lower()
    if path.is_dir() or suffix == ".zip":
        files = find_snapshots(path)
        key = _digest(chain.from_iterable(files.values()) if path.is_dir() else [path])
        return f"{key}.rf2", partial(read_release, files)
    if suffix in READERS:
        return f"{_digest([path])}{suffix}", partial(_parse_file, path, READERS[suffix])
    raise OntologyError(
        f"not an ontology: give a name ({', '.join(NAMED)}), a file ending in {', '.join(READERS)} (each with or "
        "without .gz), or the folder or the .zip of a SNOMED CT RF2 release"
    )


def _digest(files: Iterable[File]) -> str:
    """Return a digest of the content of files."""
    digest = hashlib.blake2b(digest_size=16)
    for path in files:
        with path.open("rb") as file:
            digest.update(hashlib.file_digest(cast(io.BufferedReader, file), "blake2b").digest())
    return digest.hexdigest()


def _parse_file(path: Path, reader: Callable[[BinaryIO], Draft]) -> Draft:
    with path.open("rb") as file:
        return reader(cast(BinaryIO, gzip.open(file)) if path.suffix == ".gz" else file)
