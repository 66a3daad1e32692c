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

from stream_masker.core.ontology import cache, compiled, icd10cm, rf2, rf2_files
from stream_masker.core.ontology.draft import Draft
from stream_masker.core.ontology.edge_list import read_csv, read_tsv
from stream_masker.core.ontology.obo import read_obo
from stream_masker.core.ontology.obo_graph import read_graph
from stream_masker.core.ontology.ontology import Ontology
from stream_masker.core.ontology.owl import read_owl
from stream_masker.errors import OntologyError, SourceFormatError

ARCHIVE = ".zip"


@dataclass(frozen=True, slots=True)
class Source:
    """An ontology to be parsed: what to call it, a key that changes with its content, and how to parse it."""

    name: str
    key: str
    parse: Callable[[], Ontology]


def load(source: str | Path) -> Ontology:
    """The ontology of a name, a file or a folder. Raises OntologyError when it is neither, or does not hold one."""
    if is_compiled(source):
        return compiled.read(Path(source))
    found = find(source)
    return cache.through_cache(found.key, found.name, found.parse)


def compile_to(source: str | Path, path: Path | None = None) -> tuple[Path, Ontology]:
    """Parses a source, writes its compiled form to a file, by default to its place in the cache, and opens that.

    Raises OntologyError, also where the file cannot be written.
    """
    if is_compiled(source):
        raise OntologyError(f"{source} is compiled already: give the source that it was compiled from")
    found = find(source)
    ontology = found.parse()
    try:
        if path is None:
            return cache.place(found.key), cache.kept(ontology, found.key, found.name)
        compiled.write(ontology, path, source=found.name)
    except OSError as error:
        raise OntologyError(f"{path or cache.folder()} cannot be written: {error.strerror}") from None
    return path, compiled.read(path)


def is_compiled(source: str | Path) -> bool:
    """Whether a source is a compiled ontology, by its name."""
    return Path(source).suffix == compiled.SUFFIX


def find(source: str | Path) -> Source:
    """What a name, a file or a folder stands for. Raises OntologyError for what is none of these."""
    if str(source) in NAMED:
        return NAMED[str(source)]()
    path = Path(source)
    try:
        return _found(path)
    except OSError as error:
        raise OntologyError(f"{path} cannot be opened: {error.strerror}") from None


def _found(path: Path) -> Source:
    if path.is_dir() or rf2_files.is_snapshot(path):
        files = rf2_files.snapshots(path)
        release = rf2_files.release_of(path, files)
        return Source(path.name, f"{_joint_key(files)}.rf2", lambda: rf2.parse(release))
    suffix = _suffix(path)
    if suffix == ARCHIVE:
        return Source(path.name, cache.file_key(path) + suffix, lambda: rf2.parse(rf2_files.release_in_archive(path)))
    if suffix not in READERS:
        raise OntologyError(f"{path} is no ontology: give a name ({', '.join(sorted(NAMED))}) or {ALLOWED}")
    return Source(path.name, cache.file_key(path) + suffix, partial(_read, path, READERS[suffix]))


def _suffix(path: Path) -> str:
    return Path(path.name.removesuffix(".gz")).suffix.lower()


def _joint_key(files: Iterable[Path]) -> str:
    with ThreadPoolExecutor() as pool:
        keys = sorted(pool.map(cache.file_key, files))
    return hashlib.blake2b("".join(keys).encode(), digest_size=16).hexdigest()


def _read(path: Path, reader: Callable[[BinaryIO], Draft]) -> Ontology:
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


def _text(reader: Callable[[TextIO], Draft]) -> Callable[[BinaryIO], Draft]:
    return lambda raw: reader(io.TextIOWrapper(raw, encoding="utf-8-sig", newline=""))


def _icd10cm() -> Source:
    return Source("icd10cm", cache.package_key(icd10cm.PACKAGE), icd10cm.parse)


NAMED: dict[str, Callable[[], Source]] = {"icd10cm": _icd10cm}
READERS: dict[str, Callable[[BinaryIO], Draft]] = {
    ".csv": _text(read_csv),
    ".json": _text(read_graph),
    ".obo": _text(read_obo),
    ".owl": read_owl,
    ".tsv": _text(read_tsv),
}
ALLOWED = (
    f"a file ending in {', '.join(sorted(READERS))} (each with or without .gz) or {compiled.SUFFIX}, "
    "or a SNOMED CT RF2 snapshot: its folder, a .zip or one of its files"
)
