"""A process of the service: background tasks, garbage collection, and its end within a time limit."""

from __future__ import annotations

import gc
import subprocess
import sys
import threading

import pytest

from stream_masker.service.process import collect_rarely, in_background


def test_a_task_runs_on_a_daemon_thread_and_its_failure_is_in_the_future() -> None:
    task = lambda: (threading.current_thread().name, threading.current_thread().daemon)  # noqa: E731
    assert in_background(task, name="masking").result(10) == ("masking", True)
    with pytest.raises(ZeroDivisionError):
        in_background(lambda: 1 // 0, name="masking").result(10)


def test_batches_trigger_no_collection() -> None:
    usual, before = gc.get_threshold(), gc.get_stats()[0]["collections"]
    try:
        collect_rarely()
        for _ in range(20):
            assert len([[] for _ in range(5_000)]) == 5_000
        assert gc.get_stats()[0]["collections"] == before
    finally:
        gc.set_threshold(*usual)


def ended(then: str, limit: float = 3_600.0) -> subprocess.CompletedProcess[str]:
    """Run a program that gets SIGTERM, has this time limit for its stop, and then does something."""
    program = f"""
import os, signal, threading, time
from stream_masker.service import process
process.STOP_LIMIT_SECONDS = {limit}
process.stop_on_signals(stop := threading.Event())
os.kill(os.getpid(), signal.SIGTERM)
assert stop.is_set()
{then}
"""
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=False)


@pytest.mark.parametrize(
    "hangs",
    [
        "threading.Thread(target=threading.Event().wait).start()",
        "class Hangs:\n  __del__ = lambda self: time.sleep(600)\nhangs = Hangs()",
    ],
    ids=["a thread that never ends", "the interpreter's own end"],
)
def test_a_process_that_hangs_is_ended_with_a_traceback(hangs: str) -> None:
    done = ended(hangs, limit=0.1)
    assert done.returncode == 1
    assert "Timeout" in done.stderr
    assert "most recent call first" in done.stderr


BUSY = """
import numba
def busy():
    while True:
        numba.njit(lambda x: x + 1)(1)
threading.Thread(target=busy, daemon=True).start()
time.sleep(0.5)
print("written")
process.exit_at_once()
"""


@pytest.mark.parametrize(("then", "said"), [("", ""), (BUSY, "written\n")], ids=["at once", "during a compilation"])
def test_a_process_that_ends_does_not_wait(then: str, said: str) -> None:
    done = ended(then)
    assert (done.returncode, done.stdout, done.stderr) == (0, said, "")
