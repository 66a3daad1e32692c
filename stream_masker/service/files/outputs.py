"""Output files that appear complete or not at all, and outputs that cannot be written as one message.

A file is written under a temporary name in its folder and renamed when it is complete. After an error or an
interruption the temporary file is removed, and a file that was there before is unchanged. Devices and pipes are written
directly. The suffix ``.gz`` selects compression.

Only the owner can read or write a new file, because outputs hold values of records: masks, kept fields, statistics. A
file that was there before keeps its mode, which is how a user shares an output.
"""

from __future__ import annotations

import fcntl
import gzip
import io
import os
import stat
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from itertools import combinations
from pathlib import Path
from typing import Any, BinaryIO, TextIO, cast

from stream_masker.errors import ClosedOutputError, ServiceError

STANDARD_STREAM = "-"
COMPRESSED_SUFFIX = ".gz"

PRIVATE_MODE = 0o600
"""The mode of a new file with values: read and written by its owner only."""

_GZIP_LEVEL = 6


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
def open_output(name: str, *, private: bool = True) -> Iterator[BinaryIO]:
    """Open a file for writing, or standard output for ``-``; the file appears when the block ends without an error.

    private: whether only the owner can read a new file; False for outputs without values, whose mode the umask sets.
    Raises ServiceError if it cannot be written, also when bytes are written to it.
    """
    if name == STANDARD_STREAM:
        yield from _standard_output()
        return
    with write_errors(name):
        path = Path(name)
        special = path.exists() and not path.is_file()
    opened = _device(path, name) if special else _temporary(path.resolve(), name, private)
    with opened as raw, _compressed(raw, name) as stream:
        yield stream


def _standard_output() -> Iterator[BinaryIO]:
    if _is_read_only(sys.stdout):
        raise ServiceError("standard output is closed: name an output file")
    stream = CheckedStream(sys.stdout.buffer, "standard output")
    yield cast(BinaryIO, stream)
    stream.flush()


def _is_read_only(stream: TextIO) -> bool:
    """Return whether a stream cannot be written, as standard output that was closed."""
    try:
        flags = fcntl.fcntl(stream.fileno(), fcntl.F_GETFL)
    except (OSError, ValueError):
        return False
    return flags & os.O_ACCMODE == os.O_RDONLY


@contextmanager
def _device(path: Path, name: str) -> Iterator[BinaryIO]:
    """Open a device or a pipe, which cannot be replaced."""
    with write_errors(name):
        file = path.open("wb", buffering=0)
    with file:
        yield cast(BinaryIO, _buffered(file, name))


@contextmanager
def _temporary(path: Path, name: str, private: bool) -> Iterator[BinaryIO]:
    """Open a temporary file, which takes the place of ``path`` when the block ends without an error."""
    with write_errors(name):
        new = PRIVATE_MODE if private else 0o666 & ~_umask()
        mode = stat.S_IMODE(path.stat().st_mode) if path.exists() else new
        number, temporary = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".part", dir=path.parent)
    try:
        with os.fdopen(number, "wb", buffering=0) as file:
            stream = _buffered(file, name)
            yield cast(BinaryIO, stream)
            stream.flush()
            with write_errors(name):
                os.fchmod(number, mode)
        with write_errors(name):
            Path(temporary).replace(path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def _buffered(file: io.RawIOBase | Any, name: str) -> _Buffered:
    return _Buffered(CheckedStream(file, name))


class _Buffered(io.BufferedWriter):
    """A buffered writer that forgets its buffer when it is closed; ``flush`` comes first if all went well."""

    def close(self) -> None:
        with suppress(ServiceError):
            super().close()


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


@contextmanager
def _compressed(stream: BinaryIO, name: str) -> Iterator[BinaryIO]:
    """Compress what is written, if the name says so."""
    if name.endswith(COMPRESSED_SUFFIX):
        with gzip.GzipFile(filename="", fileobj=stream, mode="wb", compresslevel=_GZIP_LEVEL, mtime=0) as packed:
            yield cast(BinaryIO, packed)
    else:
        yield stream
    stream.flush()


def write_text(name: str, text: str, *, private: bool = True) -> None:
    """Write a text to the file that ``open_output`` opens; ``private``: as there. Raises ServiceError."""
    with open_output(name, private=private) as stream:
        stream.write(text.encode())


def check_folders(outputs: Mapping[str, str]) -> None:
    """Raise ServiceError if an output is a folder, or its folder does not exist or cannot be written.

    ``outputs``: what a file is, such as ``OUT``, to its name, as for ``refuse_same_file``.
    """
    for what, name in outputs.items():
        folder = Path(name).resolve().parent
        if name and Path(name).is_dir():
            raise ServiceError(f"{what} {name} is a folder: name a file in it")
        if name in ("", STANDARD_STREAM) or Path(name).exists():
            continue
        if not folder.is_dir():
            raise ServiceError(f"{what} {name}: the folder {folder} does not exist")
        if not os.access(folder, os.W_OK | os.X_OK):
            raise ServiceError(f"{what} {name}: the folder {folder} cannot be written")


def refuse_same_file(inputs: Mapping[str, str], outputs: Mapping[str, str]) -> None:
    """Raise ServiceError if an output is the same file as an input or another output, or has no folder.

    Both map what a file is, such as ``IN``, to its name; an empty name is none, ``-`` the standard stream.
    """
    check_folders(outputs)
    files = [(what, name, _identity(name, 0)) for what, name in inputs.items()]
    written = [(what, name, _identity(name, 1)) for what, name in outputs.items()]
    pairs = [(one, other) for one in files for other in written] + list(combinations(written, 2))
    for (first, name, one), (second, _, other) in pairs:
        if one is not None and one == other:
            raise ServiceError(f"{first} and {second} are the same file, {name}: use another name")


def _identity(name: str, standard: int) -> object:
    """Return a value that is equal for two names of the same regular file; None for anything else."""
    if not name:
        return None
    try:
        status = os.fstat(standard) if name == STANDARD_STREAM else os.stat(name)
    except OSError:
        return None if name == STANDARD_STREAM else os.path.realpath(name)
    return (status.st_dev, status.st_ino) if stat.S_ISREG(status.st_mode) else None
