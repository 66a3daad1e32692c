"""Sources of ontologies: a name, a file of a supported format, or a release of SNOMED CT."""

from __future__ import annotations

import codecs
import csv
import gzip
import hashlib
import io
import zipfile
import zlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version
from itertools import chain
from pathlib import Path
from typing import BinaryIO, Final, cast

import orjson

from stream_masker.core.ontology.formats import Draft, fhir, icd10cm, rf2
from stream_masker.core.ontology.formats.claml import read_claml
from stream_masker.core.ontology.formats.edges import read_table
from stream_masker.core.ontology.formats.obo import read_obo
from stream_masker.errors import OntologyError


@dataclass(frozen=True, slots=True)
class Source:
    """An ontology to read: its name for messages, a key that changes with its content, and what parses it."""

    name: str
    key: str
    parse: Callable[[], Draft]

    def read(self) -> Draft:
        """Parse the source. Raises OntologyError, also if it is damaged."""
        try:
            return self.parse()
        except UnicodeDecodeError:
            raise OntologyError("the file is not UTF-8 text") from None
        except (OSError, EOFError, RuntimeError, csv.Error, zipfile.BadZipFile, zlib.error) as error:
            raise OntologyError(f"the file cannot be read: {error}") from None


def find_source(source: str | Path) -> Source:
    """Return the source that a name, a file or a folder stands for. Raises OntologyError if there is none."""
    if str(source) in NAMED:
        return NAMED[str(source)]()
    path = Path(source)
    suffix = Path(path.name.removesuffix(".gz")).suffix.lower()
    try:
        if path.is_dir() or suffix == ".zip":
            files = rf2.find_snapshots(path)
            key = _digest(chain.from_iterable(files.values()) if path.is_dir() else [path])
            return Source(str(path), f"{key}.rf2", partial(rf2.read_release, files))
        if suffix in READERS:
            return Source(str(path), f"{_digest([path])}{suffix}", partial(_parse_file, path, READERS[suffix]))
    except OSError as error:
        raise OntologyError(f"{path} cannot be opened: {error.strerror}") from None
    raise OntologyError(
        f"{path} is not an ontology: give a name ({', '.join(sorted(NAMED))}), a file ending in "
        f"{', '.join(sorted(READERS))} (each with or without .gz), or the folder or the .zip of a SNOMED CT RF2 release"
    )


def _digest(files: Iterable[rf2.File]) -> str:
    """Return a digest of the content of files. Raises OSError."""
    digest = hashlib.blake2b(digest_size=16)
    for path in files:
        with path.open("rb") as file:
            digest.update(hashlib.file_digest(cast(io.BufferedReader, file), "blake2b").digest())
    return digest.hexdigest()


def _parse_file(path: Path, reader: Callable[[BinaryIO], Draft]) -> Draft:
    with path.open("rb") as file:
        return reader(cast(BinaryIO, gzip.open(file)) if path.suffix == ".gz" else file)


def _read_json(file: BinaryIO) -> Draft:
    """Read a CodeSystem of FHIR, or an OBO Graph."""
    content = file.read().removeprefix(codecs.BOM_UTF8)
    try:
        document = orjson.loads(content)
    except orjson.JSONDecodeError as error:
        raise OntologyError(f"line {error.lineno} is not valid JSON: {error.msg}") from None
    if isinstance(document, dict) and document.get("resourceType") == "CodeSystem":
        return fhir.read_code_system(document)
    if isinstance(document, dict) and document.get("graphs") and isinstance(document["graphs"], list):
        return read_obo(io.BytesIO(content), "an OBO Graph")
    raise OntologyError("the JSON is no OBO Graph, and no CodeSystem of FHIR")


NAMED: Final[dict[str, Callable[[], Source]]] = {
    "icd10cm": lambda: Source("icd10cm", f"icd10cm-{version(icd10cm.PACKAGE)}", icd10cm.read_icd10cm)
}
"""The sources that have a name."""

READERS: Final[dict[str, Callable[[BinaryIO], Draft]]] = {
    ".claml": read_claml,
    ".csv": read_table,
    ".json": _read_json,
    ".obo": read_obo,
    ".owl": partial(read_obo, kind="OWL in RDF/XML", root="owl:Thing"),
    ".tsv": read_table,
    ".xml": read_claml,
}
"""The reader of each file name suffix."""
