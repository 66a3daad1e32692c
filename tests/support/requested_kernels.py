"""The kernels that a command calls, and whether their signatures are true.

``python tests/support/requested_kernels.py FILE ARGUMENTS…`` runs ``stream-masker ARGUMENTS…``. It writes the names and
argument types of the kernels to FILE, whether they were compiled or loaded from disk, and the differences that
``signatures.wrong_signatures`` finds to FILE.signatures.
"""

from __future__ import annotations

import sys
from pathlib import Path

from signatures import kernels, wrong_signatures

from stream_masker.cli import main


def requested() -> list[str]:
    """The name and the argument types of each kernel that this process has compiled or loaded."""
    return [
        f"{kernel.py_func.__module__}.{kernel.py_func.__qualname__}{types}"
        for kernel in kernels()
        for types in kernel.overloads
    ]


def run(file: Path, arguments: list[str]) -> None:
    """Run a command to its end."""
    try:
        main(arguments, prog_name="stream-masker")
    finally:
        file.write_text("".join(f"{name}\n" for name in requested()))
        file.with_suffix(".signatures").write_text("".join(f"{line}\n" for line in wrong_signatures()))


if __name__ == "__main__":
    run(Path(sys.argv[1]), sys.argv[2:])
