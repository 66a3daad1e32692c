"""Claims of processes on kernels, so that no two of them compile the same kernel at the same time.

All processes lock byte ranges of one file in the folder of the compiled kernels: the byte at the position that a
kernel's name determines. The system releases the locks of a process that ends, however it ends.
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
"""The longest wait for another process, which may be stopped; longer than any kernel takes."""

POSITION_BYTES = 7


@contextmanager
def claimed(kernel: Path) -> Iterator[None]:
    """Claim a kernel until the block ends, unless its file exists.

    Waits while another process holds the claim: the file exists when that process is done. No claim is made if the
    folder cannot be written, or if the wait ends.
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
    """The open file; closing it would release all claims of this process."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        return (folder / CLAIMS_FILE).open("ab")
    except OSError:
        return None


def _position(kernel: Path) -> int:
    return int.from_bytes(hashlib.sha256(kernel.name.encode()).digest()[:POSITION_BYTES])


def _wait(claims: BinaryIO, position: int) -> bool:
    """Whether the byte was locked before the wait ended."""
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
