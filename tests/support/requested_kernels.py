"""The kernels that a command calls, and whether their signatures are true.

``python tests/support/requested_kernels.py FILE ARGUMENTS…`` runs ``stream-masker ARGUMENTS…``. It writes the names and
argument types of the kernels to FILE, whether they were compiled or loaded from disk, and the differences that
``signatures.wrong_signatures`` finds to FILE.signatures. FILE is written every second, because a calibrator that is
stopped while it computes ends at once.
"""

from __future__ import annotations

import sys
import threading
import time
from pathlib import Path

from signatures import kernels, wrong_signatures

from stream_masker.cli import main


def requested() -> list[str]:
    """The name and the argument types of each kernel that this process has compiled or loaded."""
    return [
        f"{kernel.py_func.__module__}.{kernel.py_func.__qualname__}{types}"
        for kernel in kernels()
        for types in list(kernel.overloads)
    ]


def write_names(file: Path) -> None:
    """Write the names to a file, as a whole."""
    new = file.with_suffix(f".{threading.get_ident()}")
    new.write_text("".join(f"{name}\n" for name in requested()))
    new.replace(file)


def write_every_second(file: Path) -> None:
    """Write the names until the process ends."""
    while True:
        write_names(file)
        time.sleep(1.0)


def run(file: Path, arguments: list[str]) -> None:
    """Run a command to its end."""
    threading.Thread(target=write_every_second, args=[file], daemon=True).start()
    try:
        main(arguments, prog_name="stream-masker")
    finally:
        write_names(file)
        file.with_suffix(".signatures").write_text("".join(f"{line}\n" for line in wrong_signatures()))


if __name__ == "__main__":
    run(Path(sys.argv[1]), sys.argv[2:])
