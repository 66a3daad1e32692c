"""Compiled ontologies: one file of arrays, which every process maps into memory, so that all share its pages.

Layout:

* a line with the name and the version of the format;
* the length of the JSON header (8 bytes, little-endian) and its CRC-32 (4 bytes, little-endian);
* the JSON header: the source, the fingerprint of the taxonomy, the size and the CRC-32 of the data, and the name, type,
  offset and size of each array, padded with spaces;
* the data: the arrays, each at a multiple of 64 bytes.

The checksums cover every byte of header and data, and are verified each time a file is opened. A file that is truncated
or damaged, or has another format, raises CompiledOntologyError.
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

from stream_masker.core.ontology.data import OntologyData
from stream_masker.core.ontology.lookup import FoldedIndex
from stream_masker.core.ontology.names import NameIndexes, Synonyms
from stream_masker.core.ontology.taxonomy import Closure, DerivedArrays, Taxonomy, TreeTable
from stream_masker.core.ontology.text_table import TextTable
from stream_masker.errors import CompiledOntologyError

FORMAT_VERSION: Final = 2
COMPILED_SUFFIX: Final = ".ontology"
MAGIC: Final = b"stream-masker ontology %d\n" % FORMAT_VERSION
ALIGNMENT: Final = 64
CHECKSUM_CHUNK: Final = 1 << 20

NamedArrays: TypeAlias = Mapping[str, NDArray[Any]]
ArrayTable = TypeVar("ArrayTable", Closure, TreeTable)


def write_compiled(data: OntologyData, path: Path, *, source: str) -> None:
    """Write the compiled form of an ontology. The file appears complete or not at all. Raises OSError."""
    arrays = _arrays(data)
    prefix = _prefix(arrays, {"source": source, "fingerprint": data.taxonomy.fingerprint})
    with tempfile.NamedTemporaryFile(dir=path.parent, delete=False) as file:
        temporary = Path(file.name)
        try:
            file.writelines([prefix, *_padded(arrays)])
            file.flush()
            temporary.chmod(0o644)
            temporary.replace(path)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise


def read_compiled(path: Path) -> OntologyData:
    """Open a compiled ontology: verify its checksums and map its arrays. Nothing is computed.

    Raises CompiledOntologyError if the file cannot be opened, or is not exactly what ``write_compiled`` wrote.
    """
    try:
        with path.open("rb") as file:
            header, start = _verified(path, file)
            data = np.frombuffer(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ), np.uint8)[start:]
    except OSError as error:
        raise CompiledOntologyError(f"{path} cannot be opened: {error.strerror}") from None
    arrays = {name: data[offset : offset + size].view(dtype) for name, dtype, offset, size in header["arrays"]}
    return _data(arrays, header["fingerprint"])


def _verified(path: Path, file: BinaryIO) -> tuple[dict[str, Any], int]:
    """Return the header, and the offset of the data. Raises CompiledOntologyError if a checksum or a size is wrong."""
    _check_format(path, file.readline(CHECKSUM_CHUNK))
    length, checksum = (int.from_bytes(file.read(size), "little") for size in (8, 4))
    head = file.read(min(length, os.fstat(file.fileno()).st_size))
    if not head or len(head) < length or zlib.crc32(head) != checksum:
        raise CompiledOntologyError(f"{path} is damaged or truncated: its header does not match its checksum")
    header: dict[str, Any] = json.loads(head)
    start = file.tell()
    size = os.fstat(file.fileno()).st_size - start
    if size != header["size"]:
        raise CompiledOntologyError(f"{path} is truncated or damaged: {size} bytes of data instead of {header['size']}")
    if _checksum(iter(lambda: file.read(CHECKSUM_CHUNK), b"")) != header["checksum"]:
        raise CompiledOntologyError(f"{path} is damaged: its data does not match its checksum")
    return header, start


def _check_format(path: Path, line: bytes) -> None:
    match = re.fullmatch(rb"stream-masker ontology(?: (\d+))?\n", line)
    if match is None:
        raise CompiledOntologyError(f"{path} is not a compiled ontology")
    if line != MAGIC:
        version = int(match[1] or 1)
        advice = f"but this version of stream-masker reads format {FORMAT_VERSION}: compile the source again"
        raise CompiledOntologyError(f"{path} has format {version}, {advice}")


def _checksum(chunks: Iterator[bytes | memoryview]) -> int:
    checksum = 0
    for chunk in chunks:
        checksum = zlib.crc32(chunk, checksum)
    return checksum


def _prefix(arrays: NamedArrays, facts: Mapping[str, str]) -> bytes:
    """Return the bytes before the data. Their number is a multiple of the alignment."""
    table, offset = [], 0
    for name, array in arrays.items():
        table.append((name, array.dtype.str, offset, array.nbytes))
        offset += array.nbytes + _padding(array.nbytes)
    header = json.dumps({**facts, "size": offset, "checksum": _checksum(_padded(arrays)), "arrays": table}).encode()
    header += b" " * _padding(len(MAGIC) + 8 + 4 + len(header))
    return MAGIC + len(header).to_bytes(8, "little") + zlib.crc32(header).to_bytes(4, "little") + header


def _padding(size: int) -> int:
    return -size % ALIGNMENT


def _padded(arrays: NamedArrays) -> Iterator[bytes | memoryview]:
    for array in arrays.values():
        yield array.data
        yield bytes(_padding(array.nbytes))


def _arrays(data: OntologyData) -> NamedArrays:
    tau, synonyms, indexes = data.taxonomy, data.synonyms, data.indexes
    derived = tau.derived
    return {
        "parent_offsets": tau.parent_offsets,
        "parents": tau.parents,
        "child_offsets": derived.child_offsets,
        "children": derived.children,
        "depth": derived.depth,
        "slots": derived.slots,
        **_table_arrays("closure", derived.closure),
        **_table_arrays("tree", derived.tree),
        **_text_arrays("ids", tau.ids),
        **_text_arrays("labels", tau.labels),
        "synonyms.rows": synonyms.offsets,
        **_text_arrays("synonyms", synonyms.texts),
        "codes.hashes": indexes.codes.hashes,
        "codes.owners": indexes.codes.owners,
        "names.hashes": indexes.names.hashes,
        "names.owners": indexes.names.owners,
    }


def _table_arrays(name: str, table: Closure | TreeTable | None) -> NamedArrays:
    return {} if table is None else {f"{name}.{field.name}": getattr(table, field.name) for field in fields(table)}


def _text_arrays(name: str, texts: TextTable) -> NamedArrays:
    compact = texts.compact()
    return {f"{name}.offsets": np.append(compact.starts, compact.blob.size), f"{name}.utf8": compact.blob}


def _data(arrays: NamedArrays, fingerprint: str) -> OntologyData:
    derived = DerivedArrays(
        child_offsets=arrays["child_offsets"],
        children=arrays["children"],
        depth=arrays["depth"],
        slots=arrays["slots"],
        fingerprint=fingerprint,
        closure=_table(arrays, "closure", Closure),
        tree=_table(arrays, "tree", TreeTable),
    )
    ids, labels, texts = (_texts(arrays, name) for name in ("ids", "labels", "synonyms"))
    taxonomy = Taxonomy(ids, labels, arrays["parent_offsets"], arrays["parents"], derived=derived)
    codes, names = (FoldedIndex(arrays[f"{name}.hashes"], arrays[f"{name}.owners"]) for name in ("codes", "names"))
    return OntologyData(taxonomy, Synonyms(taxonomy, arrays["synonyms.rows"], texts), NameIndexes(codes, names))


def _table(arrays: NamedArrays, name: str, kind: type[ArrayTable]) -> ArrayTable | None:
    keys = {field.name: f"{name}.{field.name}" for field in fields(kind)}
    if not arrays.keys() >= set(keys.values()):
        return None
    return kind(**{field: arrays[key] for field, key in keys.items()})


def _texts(arrays: NamedArrays, name: str) -> TextTable:
    offsets = arrays[f"{name}.offsets"]
    return TextTable(arrays[f"{name}.utf8"], offsets[:-1], offsets[1:])
