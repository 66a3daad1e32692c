"""The kernels that a command compiles instead of loading them from disk, and whether their signatures are true.

``python tests/support/compilations.py FILE ARGUMENTS…`` runs ``stream-masker ARGUMENTS…``. It writes the names of the
kernels to FILE and the differences that ``signatures.wrong_signatures`` finds to FILE.signatures.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from numba.core import event
from signatures import wrong_signatures

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
        file.with_suffix(".signatures").write_text("".join(f"{line}\n" for line in wrong_signatures()))


if __name__ == "__main__":
    run(Path(sys.argv[1]), sys.argv[2:])
