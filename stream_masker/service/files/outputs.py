"""Output files that appear complete or not at all; a failure to write is one error message.

A file is written under a temporary name in its folder and renamed when it is complete. After an error or an
interruption the temporary file is removed, and a file that was there before is unchanged. Devices and pipes are written
directly. The suffix ``.gz`` selects compression.

Only the owner can read or write a new file, because outputs hold values of records: masks, kept fields, statistics. A
file that was there before keeps its mode, which is how a user shares an output. No command writes to its own input.
"""

from __future__ import annotations

import gzip
import io
import os
import stat
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from itertools import combinations, product
from pathlib import Path
from typing import Any, BinaryIO, Final, TypeAlias, cast

from stream_masker.errors import ClosedOutputError, ServiceError

STANDARD_STREAM: Final = "-"
COMPRESSED_SUFFIX: Final = ".gz"

PRIVATE_MODE: Final = 0o600
"""The mode of a new file with values: read and written by its owner only."""

_GZIP_LEVEL: Final = 6

WriteLine: TypeAlias = Callable[[bytes], object]


class CheckedStream(io.RawIOBase):
    """A writable stream whose failures are ServiceErrors that name the output. It does not own the inner stream."""

    def __init__(self, inner: Any, name: str) -> None:
        self._inner = inner
        self._name = name

    def writable(self) -> bool:
        return True

    def write(self, data: Any, /) -> int:
        with write_errors(self._name):
            self._inner.write(data)
        return len(data)

    def flush(self) -> None:
        if not self.closed:
            with write_errors(self._name):
                self._inner.flush()


@contextmanager
def write_errors(name: str) -> Iterator[None]:
    """Raise ServiceError for an OSError, with the name of the output."""
    try:
        yield
    except BrokenPipeError:
        raise ClosedOutputError(f"{name} cannot be written: its reader has closed it") from None
    except OSError as error:
        raise ServiceError(f"{name} cannot be written: {error.strerror or type(error).__name__}") from None


@contextmanager
def open_output(name: str) -> Iterator[BinaryIO]:
    """Open a file for writing, or standard output for ``-``; the file appears when the block ends without an error.

    Raises ServiceError if it cannot be written, also when bytes are written to it.
    """
    if name == STANDARD_STREAM:
        stream = CheckedStream(sys.stdout.buffer, "standard output")
        yield cast(BinaryIO, stream)
        stream.flush()
        return
    with write_errors(name):
        path = Path(name)
        special = path.exists() and not path.is_file()
    with _device(path, name) if special else _temporary(path.resolve(), name) as raw:
        checked = CheckedStream(raw, name)
        with _compressed(checked, name) as packed:
            yield packed
        checked.flush()


@contextmanager
def _device(path: Path, name: str) -> Iterator[BinaryIO]:
    """Open a device or a pipe, which cannot be replaced."""
    with write_errors(name):
        file = path.open("wb")
    try:
        yield file
    finally:
        with suppress(OSError):
            file.close()


@contextmanager
def _temporary(path: Path, name: str) -> Iterator[BinaryIO]:
    """Open a temporary file, which takes the place of ``path`` when the block ends without an error."""
    with write_errors(name):
        mode = stat.S_IMODE(path.stat().st_mode) if path.exists() else PRIVATE_MODE
        number, temporary = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".part", dir=path.parent)
    file = os.fdopen(number, "wb")
    try:
        yield file
        with write_errors(name):
            os.fchmod(number, mode)
            file.close()
            Path(temporary).replace(path)
    except BaseException:
        with suppress(OSError):
            file.close()
        Path(temporary).unlink(missing_ok=True)
        raise


@contextmanager
def _compressed(stream: CheckedStream, name: str) -> Iterator[BinaryIO]:
    """Compress what is written, if the name says so."""
    if not name.endswith(COMPRESSED_SUFFIX):
        yield cast(BinaryIO, stream)
        return
    out = cast(BinaryIO, stream)
    with gzip.GzipFile(filename="", fileobj=out, mode="wb", compresslevel=_GZIP_LEVEL, mtime=0) as packed:
        yield cast(BinaryIO, packed)


def write_text(name: str, text: str) -> None:
    """Write a text to the file that ``open_output`` opens. Raises ServiceError."""
    with open_output(name) as stream:
        stream.write(text.encode())


def refuse_same_file(inputs: Mapping[str, str], outputs: Mapping[str, str]) -> None:
    """Raise ServiceError if an output is the same file as an input or another output, or cannot be created.

    Both map what a file is, such as ``IN``, to its name; an empty name is none, ``-`` a standard stream.
    """
    for what, name in outputs.items():
        folder = Path(name).resolve().parent
        if Path(name).is_dir() and name:
            raise ServiceError(f"{what} {name} is a folder: name a file in it")
        if not os.access(folder, os.W_OK | os.X_OK) and not Path(name).exists():
            raise ServiceError(f"{what} {name}: the folder {folder} does not exist, or cannot be written")
    files, written = [[(what, name, _identity(name)) for what, name in each.items()] for each in (inputs, outputs)]
    for (first, name, one), (second, _, other) in (*product(files, written), *combinations(written, 2)):
        if one is not None and one == other:
            raise ServiceError(f"{first} and {second} are the same file, {name}: use another name")


def _identity(name: str) -> object:
    """Return a value that is equal for two names of the same regular file; None for anything else."""
    if name in ("", STANDARD_STREAM):
        return None
    try:
        status = os.stat(name)
    except OSError:
        return os.path.realpath(name)
    return (status.st_dev, status.st_ino) if stat.S_ISREG(status.st_mode) else None
