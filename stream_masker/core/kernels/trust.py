"""Which files of machine code may run: those that no other user can write.

Machine code is loaded by unpickling, so whoever can write such a file, or replace it in its folder, can run any code in
this process. A file and its folder must belong to the user of this process, to root, or to the owner of this package,
and must not be writable by others.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Final

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
