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
        self._inner, self._name = inner, name

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
    """Open a file for writing, or standard output for ``-``, or standard error for an empty name.

    The file appears when the block ends without an error. Raises ServiceError if it cannot be written, also when bytes
    are written to it.
    """
    if name in ("", STANDARD_STREAM):
        shown, text = ("standard output", sys.stdout) if name else ("standard error", sys.stderr)
        if text is None:
            raise ServiceError(f"{shown} is closed: name a file")
        stream = CheckedStream(text.buffer, shown)
        yield cast(BinaryIO, stream)
        stream.flush()
        return
    with _opened(name) as raw:
        checked = CheckedStream(raw, name)
        out = cast(BinaryIO, checked)
        if name.endswith(COMPRESSED_SUFFIX):
            with gzip.GzipFile(filename="", fileobj=out, mode="wb", compresslevel=_GZIP_LEVEL, mtime=0) as packed:
                yield cast(BinaryIO, packed)
        else:
            yield out
        checked.flush()


@contextmanager
def _opened(name: str) -> Iterator[BinaryIO]:
    """Open a device or a pipe, or a temporary file that becomes the named one when the block ends without an error."""
    with write_errors(name):
        path, mode, temporary = Path(name).resolve(), PRIVATE_MODE, ""
        if path.exists() and not path.is_file():
            file = path.open("wb")
        else:
            mode = stat.S_IMODE(path.stat().st_mode) if path.exists() else mode
            number, temporary = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".part", dir=path.parent)
            file = os.fdopen(number, "wb")
    try:
        yield file
        with write_errors(name):
            if temporary:
                os.fchmod(file.fileno(), mode)
            file.close()
            if temporary:
                Path(temporary).replace(path)
    except BaseException:
        if temporary:
            Path(temporary).unlink(missing_ok=True)
        raise
    finally:
        with suppress(OSError):
            file.close()


def refuse_same_file(inputs: Mapping[str, str], outputs: Mapping[str, str]) -> None:
    """Raise ServiceError if an output is the same file as an input or another output.

    Both map what a file is, such as ``IN``, to its name; an empty name is none, ``-`` a standard stream.
    """
    known: dict[Path, str] = {}
    for what, name in [*inputs.items(), *outputs.items()]:
        path = Path(name).resolve()
        if name in ("", STANDARD_STREAM) or (path.exists() and not path.is_file()):
            continue
        if what in outputs and path in known:
            raise ServiceError(f"{known[path]} and {what} are the same file, {path.name}: use another name")
        known.setdefault(path, what)
