"""The watchdog that ends a hanging process."""

from __future__ import annotations

import subprocess
import sys

import pytest

from stream_masker.service.runtime.shutdown import LATE_EXIT_CODE

HANGS = {
    "a thread that never ends": "threading.Thread(target=threading.Event().wait).start()",
    "the interpreter's own end": "class Hangs:\n  __del__ = lambda self: time.sleep(600)\nhangs = Hangs()",
}
"""What can prevent a process from exiting."""


def ended(seconds: float, then: str) -> subprocess.CompletedProcess[str]:
    imports = "import threading, time\nfrom stream_masker.service.runtime.shutdown import exit_within\n"
    start = f"{imports}exit_within({seconds})\n"
    return subprocess.run(
        [sys.executable, "-c", start + then], capture_output=True, text=True, timeout=120, check=False
    )


@pytest.mark.parametrize("hangs", HANGS)
def test_hanging_process_is_ended_with_its_stack(hangs: str) -> None:
    done = ended(0.1, HANGS[hangs])
    assert done.returncode == LATE_EXIT_CODE
    assert "Timeout" in done.stderr
    assert "most recent call first" in done.stderr


def test_watchdog_does_not_delay_a_normal_exit() -> None:
    done = ended(3600, "")
    assert (done.returncode, done.stderr) == (0, "")
