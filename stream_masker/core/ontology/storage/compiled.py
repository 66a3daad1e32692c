"""Ontologies compiled to one file of arrays, which every process maps into memory and shares the pages of.

A file is a line that says what it is and its format, the length and the checksum of a JSON header, the header (source,
size and checksum of the data, and each array's type, place and size), then the arrays, each at a multiple of 64 bytes.
The checksums (CRC-32) cover every byte, and every opening compares them: a truncated file, one of another format, or
one with a damaged byte raises CompiledOntologyError and is never used.
"""

from __future__ import annotations

import json
import mmap
import os
import re
import tempfile
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any, BinaryIO, Final, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from stream_masker.core.ontology.lookup import TextIndex
from stream_masker.core.ontology.names import Indexes, Synonyms
from stream_masker.core.ontology.ontology import Ontology
from stream_masker.core.ontology.taxonomy import Closure, Derived, Taxonomy, TreeTable
from stream_masker.core.ontology.texts import Texts
from stream_masker.errors import CompiledOntologyError

FORMAT_VERSION: Final = 2
COMPILED_SUFFIX: Final = ".ontology"
MAGIC: Final = b"stream-masker ontology %d\n" % FORMAT_VERSION
ALIGNMENT: Final = 64
CHECKSUM_BLOCK: Final = 1 << 20

Array: TypeAlias = NDArray[Any]
NamedArrays: TypeAlias = Mapping[str, Array]
ArrayTable = TypeVar("ArrayTable", Closure, TreeTable)


def write_compiled(ontology: Ontology, path: Path, *, source: str) -> None:
    """Writes the compiled form of an ontology; the file appears whole or not at all. Raises OSError."""
    arrays = _arrays(ontology)
    prefix = _prefix(arrays, {"source": source, "fingerprint": ontology.taxonomy().fingerprint})
    with tempfile.NamedTemporaryFile(dir=path.parent, delete=False) as file:
        temporary = Path(file.name)
        try:
            file.writelines([prefix, *_blocks(arrays)])
            file.flush()
            temporary.chmod(0o644)
            temporary.replace(path)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise


def read_compiled(path: Path) -> Ontology:
    """Opens a compiled ontology: checks every byte, computes nothing, and maps its arrays.

    Raises CompiledOntologyError when the file is not what this version wrote, byte for byte.
    """
    try:
        with path.open("rb") as file:
            header, start = _checked(path, file)
            data = np.frombuffer(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ), np.uint8)[start:]
    except OSError as error:
        raise CompiledOntologyError(f"{path} cannot be opened: {error.strerror}") from None
    arrays = {name: data[at : at + size].view(dtype) for name, dtype, at, size in header["arrays"]}
    return _ontology(arrays, header["fingerprint"])


def _checked(path: Path, file: BinaryIO) -> tuple[dict[str, Any], int]:
    """The header, and where the data starts; both are whole and what was written."""
    _check_format(path, file.readline(CHECKSUM_BLOCK))
    length, checksum = (int.from_bytes(file.read(size), "little") for size in (8, 4))
    head = file.read(min(length, os.fstat(file.fileno()).st_size))
    if not head or len(head) < length or zlib.crc32(head) != checksum:
        raise CompiledOntologyError(f"{path} is damaged or truncated: its header is not what was written")
    header: dict[str, Any] = json.loads(head)
    start = file.tell()
    size = os.fstat(file.fileno()).st_size - start
    if size != header["size"]:
        raise CompiledOntologyError(f"{path} is truncated or damaged: {size} bytes of data instead of {header['size']}")
    if _checksum(iter(lambda: file.read(CHECKSUM_BLOCK), b"")) != header["checksum"]:
        raise CompiledOntologyError(f"{path} is damaged: its data is not what was written")
    return header, start


def _check_format(path: Path, line: bytes) -> None:
    match = re.fullmatch(rb"stream-masker ontology(?: (\d+))?\n", line)
    if match is None:
        raise CompiledOntologyError(f"{path} is no compiled ontology")
    if line != MAGIC:
        other = int(match[1] or 1)
        reads = f"but this version of stream-masker reads format {FORMAT_VERSION}: compile its source anew"
        raise CompiledOntologyError(f"{path} has format {other}, {reads}")


def _checksum(blocks: Iterator[bytes | memoryview]) -> int:
    checksum = 0
    for block in blocks:
        checksum = zlib.crc32(block, checksum)
    return checksum


def _prefix(arrays: NamedArrays, facts: Mapping[str, str]) -> bytes:
    """All that stands before the data, which thus starts at a multiple of the alignment."""
    table, at = [], 0
    for name, array in arrays.items():
        table.append((name, array.dtype.str, at, array.nbytes))
        at += array.nbytes + _gap(array.nbytes)
    header = json.dumps({**facts, "size": at, "checksum": _checksum(_blocks(arrays)), "arrays": table}).encode()
    header += b" " * _gap(len(MAGIC) + 8 + 4 + len(header))
    return MAGIC + len(header).to_bytes(8, "little") + zlib.crc32(header).to_bytes(4, "little") + header


def _gap(size: int) -> int:
    return -size % ALIGNMENT


def _blocks(arrays: NamedArrays) -> Iterator[bytes | memoryview]:
    for array in arrays.values():
        yield array.data
        yield bytes(_gap(array.nbytes))


def _arrays(ontology: Ontology) -> NamedArrays:
    tau, synonyms, indexes = ontology.taxonomy(), ontology.synonyms, ontology.indexes
    made = tau.derived
    return {
        "parent_offsets": tau.parent_offsets,
        "parents": tau.parents,
        "child_offsets": made.child_offsets,
        "children": made.children,
        "depth": made.depth,
        "slots": made.slots,
        **_table("closure", made.closure),
        **_table("tree", made.tree),
        **_texts("ids", tau.ids),
        **_texts("labels", tau.labels),
        "synonyms.rows": synonyms.offsets,
        **_texts("synonyms", synonyms.texts),
        "codes.hashes": indexes.codes.hashes,
        "codes.owners": indexes.codes.owners,
        "names.hashes": indexes.names.hashes,
        "names.owners": indexes.names.owners,
    }


def _table(name: str, table: Closure | TreeTable | None) -> NamedArrays:
    return {} if table is None else {f"{name}.{field.name}": getattr(table, field.name) for field in fields(table)}


def _texts(name: str, texts: Texts) -> NamedArrays:
    compact = texts.compact()
    return {f"{name}.offsets": np.append(compact.starts, compact.blob.size), f"{name}.utf8": compact.blob}


def _ontology(arrays: NamedArrays, fingerprint: str) -> Ontology:
    derived = Derived(
        child_offsets=arrays["child_offsets"],
        children=arrays["children"],
        depth=arrays["depth"],
        slots=arrays["slots"],
        fingerprint=fingerprint,
        closure=_opened(arrays, "closure", Closure),
        tree=_opened(arrays, "tree", TreeTable),
    )
    ids, labels, texts = (_opened_texts(arrays, name) for name in ("ids", "labels", "synonyms"))
    taxonomy = Taxonomy(ids, labels, arrays["parent_offsets"], arrays["parents"], derived=derived)
    codes, names = (TextIndex(arrays[f"{name}.hashes"], arrays[f"{name}.owners"]) for name in ("codes", "names"))
    synonyms = Synonyms(taxonomy, arrays["synonyms.rows"], texts)
    return Ontology(taxonomy, synonyms, indexes=Indexes(codes, names))


def _opened(arrays: NamedArrays, name: str, kind: type[ArrayTable]) -> ArrayTable | None:
    own = {field.name: f"{name}.{field.name}" for field in fields(kind)}
    there = all(place in arrays for place in own.values())
    return kind(**{field: arrays[place] for field, place in own.items()}) if there else None


def _opened_texts(arrays: NamedArrays, name: str) -> Texts:
    offsets = arrays[f"{name}.offsets"]
    return Texts(arrays[f"{name}.utf8"], offsets[:-1], offsets[1:])
