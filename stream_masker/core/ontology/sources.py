"""Where ontologies come from: a name, a file of one of many formats, or a release of SNOMED CT."""

from __future__ import annotations

import csv
import gzip
import hashlib
import io
import zlib
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import BinaryIO, TextIO, cast

from stream_masker.core.ontology.formats import icd10cm
from stream_masker.core.ontology.formats.draft import OntologyDraft
from stream_masker.core.ontology.formats.edge_list import read_csv, read_tsv
from stream_masker.core.ontology.formats.obo import read_obo
from stream_masker.core.ontology.formats.obo_graph import read_graph
from stream_masker.core.ontology.formats.owl import read_owl
from stream_masker.core.ontology.formats.rf2 import files as rf2_files
from stream_masker.core.ontology.formats.rf2 import release as rf2
from stream_masker.core.ontology.ontology import Ontology
from stream_masker.core.ontology.storage import cache, compiled
from stream_masker.errors import OntologyError, SourceFormatError

ARCHIVE = ".zip"


@dataclass(frozen=True, slots=True)
class OntologySourceFile:
    """An ontology to be parsed: what to call it, a key that changes with its content, and how to parse it."""

    name: str
    key: str
    parse: Callable[[], Ontology]


def load_ontology(source: str | Path) -> Ontology:
    """The ontology of a name, a file or a folder. Raises OntologyError when it is neither, or does not hold one."""
    if is_compiled(source):
        return compiled.read_compiled(Path(source))
    found = find_source(source)
    return cache.through_cache(found.key, found.name, found.parse)


def compile_to(source: str | Path, path: Path | None = None) -> tuple[Path, Ontology]:
    """Parses a source, writes its compiled form to a file, by default to its place in the cache, and opens that.

    Raises OntologyError, also where the file cannot be written.
    """
    if is_compiled(source):
        raise OntologyError(f"{source} is compiled already: give the source that it was compiled from")
    found = find_source(source)
    ontology = found.parse()
    try:
        if path is None:
            return cache.cache_path(found.key), cache.cached_or_made(ontology, found.key, found.name)
        compiled.write_compiled(ontology, path, source=found.name)
    except OSError as error:
        raise OntologyError(f"{path or cache.cache_folder()} cannot be written: {error.strerror}") from None
    return path, compiled.read_compiled(path)


def is_compiled(source: str | Path) -> bool:
    """Whether a source is a compiled ontology, by its name."""
    return Path(source).suffix == compiled.COMPILED_SUFFIX


def find_source(source: str | Path) -> OntologySourceFile:
    """What a name, a file or a folder stands for. Raises OntologyError for what is none of these."""
    if str(source) in NAMED:
        return NAMED[str(source)]()
    path = Path(source)
    try:
        return _found(path)
    except OSError as error:
        raise OntologyError(f"{path} cannot be opened: {error.strerror}") from None


def _found(path: Path) -> OntologySourceFile:
    if path.is_dir() or rf2_files.is_snapshot(path):
        files = rf2_files.snapshots(path)
        release = rf2_files.release_of(path, files)
        return OntologySourceFile(path.name, f"{_joint_key(files)}.rf2", lambda: rf2.parse_release(release))
    suffix = _suffix(path)
    if suffix == ARCHIVE:
        return OntologySourceFile(
            path.name, cache.file_key(path) + suffix, lambda: rf2.parse_release(rf2_files.release_in_archive(path))
        )
    if suffix not in READERS:
        raise OntologyError(f"{path} is no ontology: give a name ({', '.join(sorted(NAMED))}) or {ALLOWED}")
    return OntologySourceFile(path.name, cache.file_key(path) + suffix, partial(_read, path, READERS[suffix]))


def _suffix(path: Path) -> str:
    return Path(path.name.removesuffix(".gz")).suffix.lower()


def _joint_key(files: Iterable[Path]) -> str:
    with ThreadPoolExecutor() as pool:
        keys = sorted(pool.map(cache.file_key, files))
    return hashlib.blake2b("".join(keys).encode(), digest_size=16).hexdigest()


def _read(path: Path, reader: Callable[[BinaryIO], OntologyDraft]) -> Ontology:
    try:
        with gzip.open(path, "rb") if path.suffix == ".gz" else path.open("rb") as raw:
            return reader(cast(BinaryIO, raw)).finish()
    except OntologyError as error:
        error.args = (f"{path}: {error}",)
        raise
    except UnicodeDecodeError:
        raise SourceFormatError(f"{path} is not UTF-8 text") from None
    except (OSError, EOFError, zlib.error, csv.Error) as error:
        raise OntologyError(f"{path} cannot be read: {error}") from None


def _text(reader: Callable[[TextIO], OntologyDraft]) -> Callable[[BinaryIO], OntologyDraft]:
    return lambda raw: reader(io.TextIOWrapper(raw, encoding="utf-8-sig", newline=""))


def _icd10cm() -> OntologySourceFile:
    return OntologySourceFile("icd10cm", cache.package_key(icd10cm.ICD10CM_PACKAGE), icd10cm.parse_icd10cm)


NAMED: dict[str, Callable[[], OntologySourceFile]] = {"icd10cm": _icd10cm}
READERS: dict[str, Callable[[BinaryIO], OntologyDraft]] = {
    ".csv": _text(read_csv),
    ".json": _text(read_graph),
    ".obo": _text(read_obo),
    ".owl": read_owl,
    ".tsv": _text(read_tsv),
}
ALLOWED = (
    f"a file ending in {', '.join(sorted(READERS))} (each with or without .gz) or {compiled.COMPILED_SUFFIX}, "
    "or a SNOMED CT RF2 snapshot: its folder, a .zip or one of its files"
)
