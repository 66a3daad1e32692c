"""The disk cache of compiled kernels.

The machine code of a kernel is one file, named after the kernel and the SHA-256 of its key: the kernel's fingerprint
(``core.kernels.fingerprint``), the argument types, the processor, and the versions and options of the compiler. Machine
code from other sources is never loaded. Any number of processes, environments and checkouts share one folder:
``$NUMBA_CACHE_DIR`` if set, else ``kernels`` in the cache folder. Where the folder cannot be written, kernels that it
does not contain are compiled at every start, and so where other users can write to it.

To compile no kernel twice, a process claims it: all processes lock byte ranges of one file in the folder, the byte at a
position derived from the kernel's name. The system releases the locks of a process when it ends, even if it is killed.

An installation contains the kernels of a first use, in the folder ``SHIPPED``. They are read where the cache has none.

numba's own cache keys the code of a kernel by the kernel's source file alone, although other files define the functions
and constants that the code contains. It also numbers its files, so that two processes cannot fill one folder.

Machine code is loaded by unpickling, so whoever can write such a file, or replace it in its folder, can run any code in
this process. A file and its folder must belong to the user of this process, to root, or to the owner of this package,
and must not be writable by others.
"""

from __future__ import annotations

import fcntl
import hashlib
import logging
import os
import pickle
import stat
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any, BinaryIO, Final

import llvmlite
import numba
from numba import config, types
from numba.core import event
from numba.core.compiler import CompileResult
from numba.core.serialize import dumps

from stream_masker.core.cache_folder import SHIPPED, cache_folder
from stream_masker.core.kernels.fingerprint import fingerprint

ROOT: Final = 0


class UntrustedCodeError(OSError):
    """A file of machine code that other users can write."""


def read_trusted(file: Path) -> bytes:
    """Return the content of a file. Raises OSError; UntrustedCodeError if other users can write or replace it."""
    with file.open("rb") as opened:
        for status in (file.parent.stat(), os.fstat(opened.fileno())):
            if status.st_uid not in trusted_users() or status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
                raise UntrustedCodeError(f"other users can write to {file.parent}")
        return opened.read()


def trusted_users() -> frozenset[int]:
    """Return the users whose code this process runs anyway."""
    return frozenset({ROOT, os.geteuid(), Path(__file__).stat().st_uid})


def write_private(file: Path, content: bytes) -> None:
    """Create a file that only its owner can write, whatever the umask allows. Raises OSError, also if it exists."""
    with os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644), "wb") as opened:
        opened.write(content)


log = logging.getLogger(__name__)

FOLDER_MODE = 0o755
"""Whatever the umask allows, only the owner can write to the folder."""

COMPILER = (
    numba.__version__,
    llvmlite.__version__,
    sys.implementation.cache_tag,
    config.OPT,
    config.LOOP_VECTORIZE,
    config.SLP_VECTORIZE,
    config.USING_SVML,
    config.BOUNDSCHECK,
)


class KernelCache:
    """The compiled forms of one kernel on the disk, in the form in which numba's dispatcher uses a cache."""

    def __init__(self, kernel: Any) -> None:
        self._kernel = kernel

    @property
    def cache_path(self) -> str:
        """The folder of the compiled forms."""
        return str(kernels_folder())

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """Return the compiled form for these argument types, or None if the disk has none that can be read."""
        target_context.refresh()
        try:
            content = pickle.loads(_machine_code(self.path(sig, target_context.codegen())))  # noqa: S301 - as trusted as code
        except UntrustedCodeError as error:
            _refuse(str(error))
            return None
        except (OSError, EOFError, pickle.UnpicklingError, ImportError, AttributeError):
            return None  # the latter two: a class of its arguments has another name since
        return CompileResult._rebuild(target_context, *content)

    def save_overload(self, sig: Any, data: Any) -> None:
        """Write a compiled form to the disk, unless it contains addresses of this process.

        A folder that cannot be written is reported once, in a log line.
        """
        if data.library.has_dynamic_globals:
            return
        path = self.path(sig, data.codegen)
        partial = path.with_name(f"{uuid.uuid4().hex}.partial")
        try:
            path.parent.mkdir(FOLDER_MODE, parents=True, exist_ok=True)
            write_private(partial, dumps(data._reduce()))
            partial.replace(path)
        except OSError as error:
            with suppress(OSError):
                partial.unlink()
            _report(path.parent, error.strerror)

    def path(self, sig: Any, codegen: Any) -> Path:
        """Return the file of the compiled form for these argument types."""
        key = repr((COMPILER, codegen.magic_tuple(), str(sig), _field_names(sig), fingerprint(self._kernel)))
        digest = hashlib.sha256(key.encode()).hexdigest()
        return kernels_folder() / f"{self._kernel.py_func.__name__}-{digest}{self._kernel.suffix}"


def kernels_folder() -> Path:
    """Return ``$NUMBA_CACHE_DIR`` if set, else ``kernels`` in the cache folder."""
    configured = os.environ.get("NUMBA_CACHE_DIR")
    return Path(configured) if configured else cache_folder() / "kernels"


def readable_file(file: Path) -> Path:
    """Return the file of this name among those that the installation contains, if the cache has none."""
    shipped = SHIPPED / file.name
    return shipped if shipped.exists() and not file.exists() else file


def _machine_code(file: Path) -> bytes:
    """Return the content of a file of the cache or of the installation. Raises OSError, and UntrustedCodeError."""
    readable = readable_file(file)
    return read_trusted(file) if readable is file else readable.read_bytes()


@cache
def _refuse(reason: str) -> None:
    log.warning(
        "compiled kernels are not loaded, because %s; each start compiles them again. Use a folder that only one user "
        "can write: STREAM_MASKER_CACHE or NUMBA_CACHE_DIR",
        reason,
    )


@cache
def _report(folder: Path, reason: str) -> None:
    log.warning("compiled kernels cannot be kept in %s: %s; each start compiles them again", folder, reason)


def _field_names(kinds: Any) -> tuple[Any, ...]:
    """Return the field names of the named tuples among argument types. The text of a type does not contain them."""
    return tuple(
        (getattr(kind, "fields", ()), _field_names(kind.types)) for kind in kinds if isinstance(kind, types.BaseTuple)
    )


class _Listener(event.Listener):  # type: ignore[misc]
    """Calls ``report`` when the compilation of a kernel starts, but not for functions of numba that kernels call."""

    def __init__(self, report: Callable[[str], None]) -> None:
        self._report = report

    def on_start(self, event: Any) -> None:
        kernel = event.data["dispatcher"]
        if isinstance(kernel._cache, KernelCache):
            module = kernel.py_func.__module__.partition(".")[2]
            self._report(f"{module}.{kernel.py_func.__name__}")

    def on_end(self, event: Any) -> None:
        """Ignore the end."""


@contextmanager
def compilations_reported(report: Callable[[str], None]) -> Iterator[None]:
    """Call ``report`` with the name of each kernel and part when its compilation starts, until the block ends."""
    listener = _Listener(report)
    event.register("numba:compile", listener)
    try:
        yield
    finally:
        event.unregister("numba:compile", listener)


CLAIMS_FILE = "claims"
CLAIM_POLL_SECONDS = 0.02
MAX_CLAIM_WAIT_SECONDS = 120.0
"""The longest wait for another process. It exceeds the compile time of any kernel; the other process may be stopped."""

POSITION_BYTES = 7


@contextmanager
def claimed(kernel: Path) -> Iterator[None]:
    """Claim a kernel until the block ends, unless its file exists.

    While another process holds the claim, wait until it is done; the file then exists. No claim is made if the folder
    cannot be written or the wait times out.
    """
    claims = None if kernel.exists() else _claims_file(kernel.parent)
    if claims is None:
        yield
        return
    position = _position(kernel)
    held = _wait(claims, position)
    try:
        yield
    finally:
        if held:
            fcntl.lockf(claims, fcntl.LOCK_UN, 1, position, os.SEEK_SET)


@cache
def _claims_file(folder: Path) -> BinaryIO | None:
    """Return the open file; closing it would release all claims of this process."""
    try:
        folder.mkdir(0o755, parents=True, exist_ok=True)
        return (folder / CLAIMS_FILE).open("ab")
    except OSError:
        return None


def _position(kernel: Path) -> int:
    return int.from_bytes(hashlib.sha256(kernel.name.encode()).digest()[:POSITION_BYTES])


def _wait(claims: BinaryIO, position: int) -> bool:
    """Return whether the byte was locked before the wait timed out."""
    end = time.monotonic() + MAX_CLAIM_WAIT_SECONDS
    while time.monotonic() < end:
        try:
            fcntl.lockf(claims, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, position, os.SEEK_SET)
        except BlockingIOError:
            time.sleep(CLAIM_POLL_SECONDS)
        except OSError:
            return False
        else:
            return True
    return False
