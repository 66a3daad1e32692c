"""What an ontology consists of, texts, indices and other arrays, and the files from which all processes map them."""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cache, lru_cache
from itertools import pairwise
from pathlib import Path
from typing import Any, Final, NamedTuple, Self, SupportsIndex, TypeAlias, overload
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from stream_masker.core.arrays import frozen_array, offsets_from_lengths
from stream_masker.core.dtypes import Int32Array, Int64Array, UInt8Array

Parts: TypeAlias = Mapping[str, Sequence[NDArray[Any]]]
"""The arrays of each part of an ontology. Array k of the part ``ids`` is in the file ``ids.k.npy``."""

KEPT_TEXTS: Final = 1 << 16
"""The most decoded texts that a sequence of texts keeps."""


class Texts(Sequence[str]):
    """n texts, decoded on access: text k is the UTF-8 ``utf8[offsets[k]:offsets[k + 1]]``."""

    def __init__(self, utf8: UInt8Array, offsets: Int64Array) -> None:
        """utf8: (b,) uint8; offsets: (n + 1,) int64."""
        self.utf8, self.offsets = frozen_array(utf8), frozen_array(offsets)
        data, bounds = self.utf8.data, self.offsets.data

        def decoded(index: int) -> str:
            return str(data[bounds[index] : bounds[index + 1]], "utf-8", "surrogatepass")

        self._text: Callable[..., str] = lru_cache(KEPT_TEXTS)(decoded)

    @classmethod
    def of(cls, texts: Iterable[str]) -> Texts:
        parts = list(map(_encoded, texts))
        offsets = offsets_from_lengths(np.fromiter(map(len, parts), np.int64, len(parts)))
        return cls(np.frombuffer(b"".join(parts), np.uint8), offsets)

    def decode(self, indices: Iterable[int]) -> list[str]:
        """Return the texts at the given indices, 0 … n - 1. Raises IndexError."""
        return list(map(self._text, indices))

    def __len__(self) -> int:
        return self.offsets.size - 1

    @overload
    def __getitem__(self, index: SupportsIndex) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[str, ...]: ...
    def __getitem__(self, index: SupportsIndex | slice) -> str | tuple[str, ...]:
        found = range(len(self))[index]
        return tuple(self.decode(found)) if isinstance(found, range) else self._text(found)

    def __iter__(self) -> Iterator[str]:
        for start, end in pairwise(self.offsets.tolist()):
            yield str(self.utf8.data[start:end], "utf-8", "surrogatepass")

    def __reduce__(self) -> tuple[Any, ...]:
        return Texts, (self.utf8, self.offsets)


class TextIndex(NamedTuple):
    """Finds the owners (positions of concepts) of keys: the CRC-32 of each key, sorted, beside its owner.

    checksums: (e,) uint32, ascending. owners: (e,) int32. Two keys may have the same checksum, so callers compare the
    texts of the owners that are found.
    """

    checksums: NDArray[np.uint32]
    owners: Int32Array

    @classmethod
    def of(cls, keys: Sequence[str], owners: NDArray[np.integer]) -> Self:
        """Index e keys, each with (e,) its owner."""
        checksums = np.fromiter((crc32(_encoded(key)) for key in keys), np.uint32, len(keys))
        order = np.argsort(checksums, kind="stable")
        return cls(checksums[order], owners[order].astype(np.int32))

    def candidates(self, key: str) -> list[int]:
        """Return the owners of the keys with the checksum of a key, ascending where they were indexed so."""
        wanted, checksums = crc32(_encoded(key)), self.checksums.data
        first = bisect_left(checksums, wanted)
        owners: list[int] = self.owners[first : bisect_right(checksums, wanted, first)].tolist()
        return owners


def _encoded(text: str) -> bytes:
    """Return a text in UTF-8; lone surrogates, which Python's texts may contain, are encoded too."""
    return text.encode("utf-8", "surrogatepass")


def stored(key: str, compute: Callable[[], Parts]) -> Parts:
    """Map the parts that are stored under a key.

    If there are none, or if a file is damaged, they are computed and stored; if the cache folder is not writable, they
    are returned as they are.
    """
    folder = _cache_folder() / f"{key}-{_code_digest()}.ontology"
    with suppress(OSError, ValueError):
        return _mapped(folder)
    parts = compute()
    with suppress(OSError, ValueError):
        _save(folder, parts)
        return _mapped(folder)
    return parts


def _cache_folder() -> Path:
    """Return ``$STREAM_MASKER_CACHE`` if set; otherwise ``stream-masker`` in ``$XDG_CACHE_HOME`` or ``~/.cache``."""
    configured = os.environ.get("STREAM_MASKER_CACHE")
    if configured:
        return Path(configured)
    above = os.environ.get("XDG_CACHE_HOME") or Path(os.environ.get("HOME", "/"), ".cache")
    return Path(above, "stream-masker")


@cache
def _code_digest() -> str:
    """Return a digest of the code that reads and orders ontologies: another build parses them again."""
    here = Path(__file__).parent
    code = b"\0".join(file.read_bytes() for file in sorted(here.rglob("*.py")))
    return hashlib.blake2b(code, digest_size=8).hexdigest()


def _save(folder: Path, parts: Parts) -> None:
    """Write parts to a folder, which appears complete or not at all and replaces one that exists."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent, ignore_cleanup_errors=True) as temporary:
        new = Path(temporary, "new")
        new.mkdir()
        for name, arrays in parts.items():
            for k, array in enumerate(arrays):
                np.save(new / f"{name}.{k}.npy", array)
        shutil.rmtree(folder, ignore_errors=True)
        new.rename(folder)


def _mapped(folder: Path) -> Parts:
    """Map the parts in a folder. Raises OSError or ValueError if there is none, or if a file is no array."""
    parts: dict[str, list[NDArray[Any]]] = {}
    for path in sorted(folder.glob("*.npy")):
        parts.setdefault(path.name.partition(".")[0], []).append(np.asarray(np.load(path, mmap_mode="r")))
    if not parts:
        raise ValueError("there is no array")
    return parts
