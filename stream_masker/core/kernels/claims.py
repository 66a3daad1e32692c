"""Locks that keep two processes from compiling the same kernel at the same time.

All processes lock byte ranges of one file in the folder of the compiled kernels: the byte at a position derived from
the kernel's name. The system releases the locks of a process when it ends, even if it is killed.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import BinaryIO

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
