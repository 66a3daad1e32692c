"""Sources of ontologies: a name, a file of a supported format, or a release of SNOMED CT; compiled files are cached."""

from __future__ import annotations

import csv
import fcntl
import gzip
import hashlib
import importlib.metadata
import io
import logging
import zlib
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import BinaryIO, Final, TextIO, cast

from stream_masker.core.cache_folder import cache_folder
from stream_masker.core.ontology import compiled
from stream_masker.core.ontology.data import OntologyData
from stream_masker.core.ontology.draft import OntologyDraft
from stream_masker.core.ontology.formats import icd10cm
from stream_masker.core.ontology.formats.claml import read_claml
from stream_masker.core.ontology.formats.edge_list import read_csv, read_tsv
from stream_masker.core.ontology.formats.json_documents import read_graph
from stream_masker.core.ontology.formats.metadata import read_levels, table_text, upper_files
from stream_masker.core.ontology.formats.obo import read_obo
from stream_masker.core.ontology.formats.owl import read_owl
from stream_masker.core.ontology.formats.rf2.files import find_snapshots, is_snapshot, open_archive, open_release
from stream_masker.core.ontology.formats.rf2.release import Release, read_release
from stream_masker.errors import OntologyError, SourceFormatError, error_location

log = logging.getLogger(__name__)

ARCHIVE = ".zip"

READERS_FOLDER: Final = Path(__file__).parent
"""The folder of the code that reads sources and orders their concepts."""


@dataclass(frozen=True, slots=True)
class ResolvedSource:
    """An ontology to parse.

    name: for messages and for the header of the compiled form. key: the name of the compiled form in the cache folder;
    it changes with the content of the source. parse: reads the source; raises OntologyError.
    """

    name: str
    key: str
    parse: Callable[[], OntologyData]


def load_data(source: str | Path) -> OntologyData:
    """Load the ontology of a name, a file or a folder, from the cache folder if it is there. Raises OntologyError."""
    if is_compiled(source):
        return compiled.read_compiled(Path(source))
    resolved = resolve_source(source)
    return load_cached(resolved.key, resolved.name, resolved.parse)


def compile_ontology(source: str | Path, path: Path | None = None) -> tuple[Path, OntologyData]:
    """Parse a source, write its compiled form to a file, by default in the cache folder, and open that file.

    Return the path and the opened ontology. Raises OntologyError, also if the file cannot be written.
    """
    if is_compiled(source):
        raise OntologyError(f"{source} is compiled already: give the source that it was compiled from")
    resolved = resolve_source(source)
    data = resolved.parse()
    try:
        if path is None:
            return cache_path(resolved.key), store(data, resolved.key, resolved.name)
        compiled.write_compiled(data, path, source=resolved.name)
    except OSError as error:
        raise OntologyError(f"{path or cache_folder()} cannot be written: {error.strerror}") from None
    return path, compiled.read_compiled(path)


def is_compiled(source: str | Path) -> bool:
    """Return whether the name of a source is that of a compiled ontology."""
    return Path(source).suffix == compiled.COMPILED_SUFFIX


def resolve_source(source: str | Path) -> ResolvedSource:
    """Return the source that a name, a file or a folder stands for. Raises OntologyError if there is none."""
    if str(source) in NAMED:
        return NAMED[str(source)]()
    path = Path(source)
    try:
        return _source_at(path)
    except OSError as error:
        raise OntologyError(f"{path} cannot be opened: {error.strerror}") from None


def _source_at(path: Path) -> ResolvedSource:
    if path.is_dir() or is_snapshot(path):
        files = find_snapshots(path)
        release = open_release(path, files)
        return ResolvedSource(path.name, f"{_joint_key(files)}.rf2", partial(_parse_release, release))
    suffix = _suffix(path)
    if suffix == ARCHIVE:
        return ResolvedSource(path.name, file_key(path) + suffix, lambda: _parse_release(open_archive(path)))
    if suffix not in READERS:
        raise OntologyError(f"{path} is not an ontology: give a name ({', '.join(sorted(NAMED))}) or {ALLOWED}")
    upper = upper_files(path)
    reader = _table(partial(read_csv, levels=partial(read_levels, upper))) if upper else READERS[suffix]
    key = _joint_key([path, *upper]) if upper else file_key(path)
    return ResolvedSource(path.name, key + suffix, partial(_parse_file, path, reader))


def _suffix(path: Path) -> str:
    return Path(path.name.removesuffix(".gz")).suffix.lower()


def _joint_key(files: Iterable[Path]) -> str:
    with ThreadPoolExecutor() as pool:
        keys = sorted(pool.map(file_key, files))
    return hashlib.blake2b("".join(keys).encode(), digest_size=16).hexdigest()


def _parse_release(release: Release) -> OntologyData:
    draft = read_release(release)
    with error_location(", ".join(file.name for file in release.relationships)):
        return OntologyData.from_draft(draft)


def _parse_file(path: Path, reader: Callable[[BinaryIO], OntologyDraft]) -> OntologyData:
    try:
        with error_location(str(path)), _open(path) as file:
            return OntologyData.from_draft(reader(file).indexed())
    except UnicodeDecodeError:
        raise SourceFormatError(f"{path} is not UTF-8 text") from None
    except (OSError, EOFError, zlib.error, csv.Error) as error:
        raise OntologyError(f"{path} cannot be read: {error}") from None


def _open(path: Path) -> BinaryIO:
    return cast(BinaryIO, gzip.open(path, "rb")) if path.suffix == ".gz" else path.open("rb")


def _text(reader: Callable[[TextIO], OntologyDraft]) -> Callable[[BinaryIO], OntologyDraft]:
    return lambda raw: reader(io.TextIOWrapper(raw, encoding="utf-8-sig", newline=""))


def _table(reader: Callable[[TextIO], OntologyDraft]) -> Callable[[BinaryIO], OntologyDraft]:
    return lambda raw: reader(io.StringIO(table_text(raw.read()), newline=""))


def _icd10cm() -> ResolvedSource:
    package = package_key(icd10cm.ICD10CM_PACKAGE)
    key = f"{package}-{_joint_key(icd10cm.data_files())}"
    return ResolvedSource("icd10cm", key, lambda: OntologyData.from_draft(icd10cm.read_icd10cm().indexed()))


NAMED: dict[str, Callable[[], ResolvedSource]] = {"icd10cm": _icd10cm}
"""The sources that have a name."""

READERS: dict[str, Callable[[BinaryIO], OntologyDraft]] = {
    ".claml": read_claml,
    ".csv": _table(read_csv),
    ".json": _text(read_graph),
    ".obo": _text(read_obo),
    ".owl": read_owl,
    ".tsv": _table(read_tsv),
    ".txt": _table(read_csv),
    ".xml": read_claml,
}
"""The reader of each file name suffix."""

ALLOWED = (
    f"a file ending in {', '.join(sorted(READERS))} (each with or without .gz) or {compiled.COMPILED_SUFFIX}, "
    "or a SNOMED CT RF2 snapshot: its folder, a .zip or one of its files"
)
"""The sources without a name, for messages."""


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
    data = _stored(key, source)
    if data is not None:
        return data
    with _locked(key):
        return _stored(key, source) or _parse(key, source, parse)


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


def _stored(key: str, source: str) -> OntologyData | None:
    try:
        return compiled.read_compiled(cache_path(key))
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
