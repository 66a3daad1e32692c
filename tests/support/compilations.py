"""The kernels that a command compiles because they are not in the cache on disk.

``python tests/support/compilations.py FILE ARGUMENTS…`` runs ``stream-masker ARGUMENTS…`` and writes them to FILE.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from numba.core import event

from stream_masker.cli import main


class Compilations(event.Listener):
    """Records the names of all kernels whose compilation starts."""

    def __init__(self) -> None:
        self.names: list[str] = []

    def on_start(self, event: Any) -> None:
        function = event.data["dispatcher"].py_func
        self.names.append(f"{function.__module__}.{function.__qualname__}{event.data['args']}")

    def on_end(self, event: Any) -> None:
        """Ignore the ends of compilations."""


def run(file: Path, arguments: list[str]) -> None:
    """Run a command to its end."""
    compilations = Compilations()
    event.register("numba:compile", compilations)
    try:
        main(arguments, prog_name="stream-masker")
    finally:
        file.write_text("".join(f"{name}\n" for name in compilations.names))


if __name__ == "__main__":
    run(Path(sys.argv[1]), sys.argv[2:])
