"""Files and standard streams, opened for reading and for writing; what fails is one error message.

A file is written under a temporary name in its folder and renamed when it is complete. After an error or an
interruption the temporary file is removed, and a file that was there before is unchanged. Devices and pipes are written
directly. Only the owner can read or write a new file, because outputs hold values of records: masks, kept fields,
statistics. A file that was there before keeps its mode, which is how a user shares an output.

What is compressed with gzip is read whatever its name is, and the suffix ``.gz`` of an output selects compression. No
command writes to its own input.
"""

from __future__ import annotations

import gzip
import io
import os
import stat
import sys
import tempfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Any, BinaryIO, Final, TypeAlias, cast

from stream_masker.errors import ClosedOutputError, ServiceError

STANDARD_STREAM: Final = "-"
COMPRESSED_SUFFIX: Final = ".gz"
HEAD_BYTES: Final = 1 << 16
"""The number of bytes that can be looked at before an input is read."""

WriteLine: TypeAlias = Callable[[bytes], object]


@contextmanager
def file_errors(name: str, done: str) -> Iterator[None]:
    """Raise ServiceError, with the name of the file, for what cannot be ``done``: ``read`` or ``written``."""
    try:
        yield
    except BrokenPipeError:
        raise ClosedOutputError(f"{name} cannot be written: its reader has closed it") from None
    except (EOFError, gzip.BadGzipFile, zlib.error):
        raise ServiceError(f"{name} cannot be read to its end: it is not a complete gzip file") from None
    except OSError as error:
        raise ServiceError(f"{name} cannot be {done}: {error.strerror or type(error).__name__}") from None


@contextmanager
def open_input(name: str) -> Iterator[io.BufferedReader]:
    """Open a file without its compression, or standard input for ``-``. Raises OSError."""
    with nullcontext(sys.stdin.buffer) if name == STANDARD_STREAM else Path(name).open("rb", HEAD_BYTES) as file:
        stream: Any = file if hasattr(file, "peek") else io.BufferedReader(cast(Any, file))
        if stream.peek(2).startswith(b"\x1f\x8b"):
            stream = io.BufferedReader(cast(Any, gzip.GzipFile(fileobj=stream)), HEAD_BYTES)
        yield stream


class CheckedStream(io.RawIOBase):
    """A writable stream whose failures are ServiceErrors that name the output. It does not own the inner stream."""

    def __init__(self, inner: Any, name: str) -> None:
        self._inner, self._name = inner, name

    def writable(self) -> bool:
        return True

    def write(self, data: Any, /) -> int:
        with file_errors(self._name, "written"):
            self._inner.write(data)
        return len(data)

    def flush(self) -> None:
        if not self.closed:
            with file_errors(self._name, "written"):
                self._inner.flush()


@contextmanager
def open_output(name: str) -> Iterator[BinaryIO]:
    """Open a file for writing, or standard output for ``-``, or standard error for an empty name.

    The file appears when the block ends without an error. Raises ServiceError if it cannot be written, also when bytes
    are written to it.
    """
    with ExitStack() as stack:
        if name in ("", STANDARD_STREAM):
            shown, text = ("standard output", sys.stdout) if name else ("standard error", sys.stderr)
            stream = CheckedStream(text.buffer, shown)
        else:
            stream = CheckedStream(stack.enter_context(_opened(name)), name)
        out: Any = stream
        if name.endswith(COMPRESSED_SUFFIX):
            out = stack.enter_context(gzip.GzipFile("", "wb", compresslevel=6, fileobj=out, mtime=0))
        yield cast(BinaryIO, out)
        stream.flush()


@contextmanager
def _opened(name: str) -> Iterator[BinaryIO]:
    """Open a device or a pipe, or a temporary file that becomes the named one when the block ends without an error."""
    with file_errors(name, "written"):
        path, part = Path(name).resolve(), ""
        if path.exists() and not path.is_file():
            file = path.open("wb")
        else:
            number, part = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".part", dir=path.parent)
            file = os.fdopen(number, "wb")
            if path.exists():
                os.fchmod(number, stat.S_IMODE(path.stat().st_mode))
    try:
        yield file
        with file_errors(name, "written"):
            file.close()
            if part:
                Path(part).replace(path)
    finally:
        with suppress(OSError):
            file.close()
        if part:
            Path(part).unlink(missing_ok=True)


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
