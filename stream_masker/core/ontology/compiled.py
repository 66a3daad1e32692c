"""Ontologies compiled to one file of arrays, which every process maps into memory and shares the pages of.

A file is the magic, the length of a JSON header, the header (format version, source, digest of the data, and each
array's type, place and size), then the arrays. What does not fit together raises OntologyError: a truncated file, one
of another version, or one whose data was damaged is never opened.
"""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stream_masker.core.ontology.ontology import Ontology
from stream_masker.core.ontology.taxonomy import Taxonomy
from stream_masker.errors import OntologyError

MAGIC = b"stream-masker ontology\n"
FORMAT = 1
ALIGNMENT = 64

Arrays = dict[str, NDArray[Any]]


def write(ontology: Ontology, path: Path, *, source: str) -> None:
    """Writes the compiled form of an ontology; the file appears whole or not at all."""
    arrays = _arrays(ontology)
    blob = b"".join(_padded(array.tobytes()) for array in arrays.values())
    header = json.dumps(_header(arrays, blob, source)).encode()
    with tempfile.NamedTemporaryFile(dir=path.parent, delete=False) as file:
        file.write(_padded(MAGIC + len(header).to_bytes(8, "little") + header))
        file.write(blob)
    os.chmod(file.name, 0o644)
    os.replace(file.name, path)


def read(path: Path) -> Ontology:
    """Opens a compiled ontology. Raises OntologyError when the file is not what this version wrote, byte for byte."""
    try:
        data = np.memmap(path, dtype=np.uint8, mode="r")
    except (OSError, ValueError):
        raise OntologyError(f"{path} cannot be opened as a compiled ontology") from None
    header, start = _read_header(path, data)
    arrays = {name: data[start + at : start + at + size].view(dtype) for name, dtype, at, size in header["arrays"]}
    ids, labels, synonyms, owners = (_strings(arrays, name) for name in ("ids", "labels", "synonyms", "owners"))
    named: dict[str, list[str]] = {}
    for owner, name in zip(owners, synonyms, strict=True):
        named.setdefault(owner, []).append(name)
    return Ontology(Taxonomy(ids, labels, arrays["parent_offsets"], arrays["parents"]), named)


def _read_header(path: Path, data: NDArray[np.uint8]) -> tuple[Mapping[str, Any], int]:
    prefix = len(MAGIC) + 8
    if data[: len(MAGIC)].tobytes() != MAGIC or data.size < prefix:
        raise OntologyError(f"{path} is no compiled ontology")
    length = int.from_bytes(data[len(MAGIC) : prefix].tobytes(), "little")
    start = -(-(prefix + length) // ALIGNMENT) * ALIGNMENT
    try:
        header: Mapping[str, Any] = json.loads(data[prefix : prefix + length].tobytes())
    except ValueError:
        raise OntologyError(f"{path} is a damaged or truncated compiled ontology") from None
    if header.get("format") != FORMAT:
        raise OntologyError(f"{path} has format {header.get('format')}, this version reads format {FORMAT}")
    if header["digest"] != hashlib.blake2b(data.data[start:], digest_size=16).hexdigest():
        raise OntologyError(f"{path} is a damaged or truncated compiled ontology")
    return header, start


def _header(arrays: Arrays, blob: bytes, source: str) -> dict[str, Any]:
    table, at = [], 0
    for name, array in arrays.items():
        table.append((name, array.dtype.str, at, array.nbytes))
        at += len(_padded(array.tobytes()))
    digest = hashlib.blake2b(blob, digest_size=16).hexdigest()
    return {"format": FORMAT, "source": source, "digest": digest, "arrays": table}


def _arrays(ontology: Ontology) -> Arrays:
    tau = ontology.taxonomy()
    owned = [(concept, name) for concept, names in ontology.synonyms.items() for name in names]
    arrays: Arrays = {"parent_offsets": tau.parent_offsets, "parents": tau.parents}
    for name, texts in {
        "ids": tau.ids,
        "labels": tau.labels,
        "owners": [concept for concept, _ in owned],
        "synonyms": [name for _, name in owned],
    }.items():
        arrays |= _encoded(name, texts)
    return arrays


def _encoded(name: str, texts: Sequence[str]) -> Arrays:
    parts = [text.encode() for text in texts]
    ends = np.cumsum([len(part) for part in parts], dtype=np.int64)
    return {f"{name}.ends": ends, f"{name}.utf8": np.frombuffer(b"".join(parts), dtype=np.uint8)}


def _strings(arrays: Arrays, name: str) -> list[str]:
    blob = arrays[f"{name}.utf8"].tobytes()
    ends = arrays[f"{name}.ends"].tolist()
    return [blob[start:end].decode() for start, end in zip([0, *ends], ends, strict=False)]


def _padded(data: bytes) -> bytes:
    return data + bytes(-len(data) % ALIGNMENT)
