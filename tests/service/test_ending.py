"""The end of a process in time."""

from __future__ import annotations

import subprocess
import sys

from stream_masker.service.ending import LATE, end_within

HANGS = """
import threading
from stream_masker.service.ending import end_within
from stream_masker.service.logs import configure_logs

configure_logs()
end_within(0.1)
threading.Thread(target=threading.Event().wait).start()
"""
"""A process whose exit waits for a thread that never ends."""


def test_a_process_that_hangs_is_ended_and_says_so() -> None:
    done = subprocess.run([sys.executable, "-c", HANGS], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == LATE
    assert "not ended in order within 0 s: ending at once" in done.stderr


def test_a_process_that_ends_does_not_wait_for_its_timer() -> None:
    timer = end_within(3600)
    assert timer.daemon
    timer.cancel()
