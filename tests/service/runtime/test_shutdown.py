"""The end of a process within a time limit."""

from __future__ import annotations

import subprocess
import sys

import pytest

from stream_masker.service.runtime.process import LATE_EXIT_CODE

HANGS = {
    "a thread that never ends": "threading.Thread(target=threading.Event().wait).start()",
    "the interpreter's own end": "class Hangs:\n  __del__ = lambda self: time.sleep(600)\nhangs = Hangs()",
}
"""What may keep a process that has done its work."""


def ended(seconds: float, then: str) -> subprocess.CompletedProcess[str]:
    program = f"""
import threading, time
from stream_masker.service.runtime.process import exit_within
exit_within({seconds})
{then}
"""
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=False)


@pytest.mark.parametrize("hangs", HANGS)
def test_a_process_that_hangs_is_ended_with_a_traceback(hangs: str) -> None:
    done = ended(0.1, HANGS[hangs])
    assert done.returncode == LATE_EXIT_CODE
    assert "Timeout" in done.stderr
    assert "most recent call first" in done.stderr


def test_a_process_that_ends_does_not_wait() -> None:
    done = ended(3600, "")
    assert (done.returncode, done.stderr) == (0, "")


BUSY = """
def busy():
    while True:
        numba.njit(lambda x: x + 1)(1)
threading.Thread(target=busy, daemon=True).start()
time.sleep(2)
print("written")
exit_at_once()
"""


def test_a_process_ends_in_order_while_a_thread_is_in_the_compiler() -> None:
    done = ended(3600, f"import numba\nfrom stream_masker.service.runtime.process import exit_at_once{BUSY}")
    assert (done.returncode, done.stdout, done.stderr) == (0, "written\n", "")
