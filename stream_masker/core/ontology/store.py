"""What an ontology consists of, texts and other arrays, and the files from which all processes map them."""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import NamedTuple
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from stream_masker.core.arrays import Int32Array, Int64Array, UInt8Array, frozen_array, offsets_from_lengths


class Arrays(NamedTuple):
    """The arrays of m concepts in position order (``Taxonomy``); each has a file of its name.

    ids, names: what ``encoded_texts`` returns; ``name_rows``: the offsets of each concept's names,
    the label first. parents: compressed rows of positions. ancestors, paths: ``Closure``. checksums, owners:
    ``text_index``.
    """

    ids: UInt8Array
    id_offsets: Int64Array
    names: UInt8Array
    name_offsets: Int64Array
    name_rows: Int64Array
    parent_offsets: Int64Array
    parents: Int32Array
    depth: Int32Array
    closure_offsets: Int64Array
    ancestors: Int32Array
    paths: Int32Array
    checksums: NDArray[np.uint32]
    owners: Int32Array


def encoded_texts(texts: Sequence[str]) -> tuple[UInt8Array, Int64Array]:
    """Return n texts in UTF-8, one after the other, and (n + 1,) int64 their offsets."""
    parts = list(map(_encoded, texts))
    offsets = offsets_from_lengths(np.fromiter(map(len, parts), np.int64, len(parts)))
    return np.frombuffer(b"".join(parts), np.uint8), offsets


def fold(text: str) -> str:
    """Return a text without case, dots and surrounding space, so that all spellings of a code become equal."""
    return text.strip().casefold().replace(".", "")


def text_index(texts: Sequence[str], owners: NDArray[np.integer]) -> tuple[NDArray[np.uint32], Int32Array]:
    """Index e texts, each with (e,) its owner, a position; empty ones are left out.

    Return the CRC-32 of each folded text, ascending, beside its owner.
    """
    checksums = np.fromiter(map(_checksum, texts), np.uint32, len(texts))
    kept = np.flatnonzero(np.fromiter(map(len, texts), np.int64, len(texts)))
    order = kept[np.argsort(checksums[kept], kind="stable")]
    return checksums[order], owners[order].astype(np.int32)


def owners_of(text: str, checksums: NDArray[np.uint32], owners: Int32Array) -> list[int]:
    """Return the owners, ascending, of the texts with the checksum of a text.

    Different texts may have the same checksum, so callers compare the texts of the owners that are found.
    """
    wanted, data = _checksum(text), checksums.data
    first = bisect_left(data, wanted)
    found: list[int] = owners[first : bisect_right(data, wanted, first)].tolist()
    return sorted(set(found))


def _checksum(text: str) -> int:
    return crc32(_encoded(fold(text)))


def _encoded(text: str) -> bytes:
    """Return a text in UTF-8; lone surrogates, which Python's texts may contain, are encoded too."""
    return text.encode("utf-8", "surrogatepass")


def stored(key: str, compute: Callable[[], Arrays]) -> Arrays:
    """Map the arrays that are stored under a key.

    If there are none, or if a file is damaged, they are computed and stored; if the cache folder is not writable, they
    are returned as they are.
    """
    folder = _cache_folder() / f"{key}-{_code_digest()}.ontology"
    with suppress(OSError, ValueError):
        return _mapped(folder)
    arrays = compute()
    with suppress(OSError, ValueError):
        _save(folder, arrays)
        return _mapped(folder)
    return arrays


def _cache_folder() -> Path:
    """Return ``$STREAM_MASKER_CACHE`` if set; otherwise ``stream-masker`` in ``$XDG_CACHE_HOME`` or ``~/.cache``."""
    if configured := os.environ.get("STREAM_MASKER_CACHE"):
        return Path(configured)
    above = os.environ.get("XDG_CACHE_HOME") or Path(os.environ.get("HOME", "/"), ".cache")
    return Path(above, "stream-masker")


@cache
def _code_digest() -> str:
    """Return a digest of the code that reads and orders ontologies: another build parses them again."""
    here = Path(__file__).parent
    code = b"\0".join(file.read_bytes() for file in sorted(here.rglob("*.py")))
    return hashlib.blake2b(code, digest_size=8).hexdigest()


def _save(folder: Path, arrays: Arrays) -> None:
    """Write arrays to a folder, which appears complete or not at all and replaces one that exists."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent, ignore_cleanup_errors=True) as temporary:
        new = Path(temporary, "new")
        new.mkdir()
        for name, array in arrays._asdict().items():
            np.save(new / f"{name}.npy", array)
        shutil.rmtree(folder, ignore_errors=True)
        new.rename(folder)


def _mapped(folder: Path) -> Arrays:
    """Map the arrays in a folder. Raises OSError or ValueError if one is missing, or is no array."""
    return Arrays(*(frozen_array(np.load(folder / f"{name}.npy", mmap_mode="r")) for name in Arrays._fields))
