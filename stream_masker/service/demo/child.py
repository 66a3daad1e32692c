"""A command of stream-masker that ends with the process that started it: ``python -m …demo.child COMMAND ARGUMENTS…``.

Its standard input is a pipe to which nothing is written. The system closes the other end when the parent ends, in any
way, on Linux and macOS.
"""

from __future__ import annotations

import os
import runpy
import signal
import threading

STANDARD_INPUT = 0


def end_with_parent() -> None:
    """Wait for the end of standard input, and kill this process."""
    os.read(STANDARD_INPUT, 1)
    os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    threading.Thread(target=end_with_parent, name="parent", daemon=True).start()
    runpy.run_module("stream_masker", run_name="__main__")
