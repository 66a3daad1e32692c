"""What the processes of a test run share: their folder, resources such as a broker, and locks."""

from __future__ import annotations

import fcntl
import os
import pickle
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import TypeVar

import pytest

T = TypeVar("T")


def run_folder(folders: pytest.TempPathFactory) -> Path:
    """Return the folder of the test run, which is the same in all its processes."""
    folder = folders.getbasetemp()
    return folder.parent if "PYTEST_XDIST_WORKER" in os.environ else folder


@contextmanager
def alone(folder: Path, name: str) -> Iterator[None]:
    """Wait until no other process of the test run is in a block of this name."""
    with (folder / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@contextmanager
def shared(folder: Path, make: Callable[[Path], AbstractContextManager[T]]) -> Iterator[T]:
    """Yield what ``make`` yields in the first process, and a pickled copy of it in the others.

    Each process holds a shared lock while it uses the resource. The first one waits for the exclusive lock.
    """
    folder.mkdir(exist_ok=True)
    description = folder / "description"
    with (folder / "lock").open("w") as lock, (folder / "users").open("w") as users:
        fcntl.flock(lock, fcntl.LOCK_EX)
        fcntl.flock(users, fcntl.LOCK_SH)
        if description.exists():
            fcntl.flock(lock, fcntl.LOCK_UN)
            yield pickle.loads(description.read_bytes())
            return
        with make(Path(tempfile.mkdtemp(dir=folder))) as resource:
            description.write_bytes(pickle.dumps(resource))
            fcntl.flock(lock, fcntl.LOCK_UN)
            try:
                yield resource
            finally:
                fcntl.flock(lock, fcntl.LOCK_EX)
                description.unlink()
                fcntl.flock(lock, fcntl.LOCK_UN)
                fcntl.flock(users, fcntl.LOCK_EX)
