"""Reports of the kernels that are compiled."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from numba.core import event

from stream_masker.core.kernels.disk_cache import KernelCache


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
