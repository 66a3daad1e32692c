"""Fixtures and settings of all tests."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

if TYPE_CHECKING:
    from support.prepared import Prepared

WORKER = os.environ.get("PYTEST_XDIST_WORKER")
"""The name of this process where several share the tests."""

settings.register_profile("compiled", deadline=None, print_blob=True)
settings.load_profile("compiled")
"""No deadline: the first call of a compiled kernel compiles it."""


def pytest_configure(config: pytest.Config) -> None:
    """Give each process its own numba cache before numba is imported: two processes must not fill one cache."""
    if WORKER is None:
        return
    given = os.environ.get("NUMBA_CACHE_DIR")
    if given is None:
        folder = tempfile.TemporaryDirectory(prefix="kernels-")
        config.add_cleanup(folder.cleanup)
        given = folder.name
    os.environ["NUMBA_CACHE_DIR"] = str(Path(given) / WORKER)


@pytest.fixture(scope="session", autouse=True)
def _true_signatures() -> Iterator[None]:
    """After the last test, check that every kernel that the tests compiled has the types of its signature."""
    yield
    if "numba" in sys.modules:
        from support.signatures import wrong_signatures

        assert wrong_signatures() == []


@pytest.fixture(scope="session")
def ready(tmp_path_factory: pytest.TempPathFactory) -> Prepared:
    """The result of ``prepare``, computed once for all processes that run tests."""
    from support.prepared import prepared

    folder = tmp_path_factory.getbasetemp()
    return prepared((folder.parent if WORKER else folder) / "ready")
