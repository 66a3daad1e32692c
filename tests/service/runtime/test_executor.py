"""Background tasks: failures, and the priority of their threads."""

from __future__ import annotations

import os
import sys
import threading

import pytest

from stream_masker.service.runtime.process import in_background


def test_a_task_runs_on_a_daemon_thread() -> None:
    task = lambda: (threading.current_thread().name, threading.current_thread().daemon)  # noqa: E731
    assert in_background(task, name="masking").result(10) == ("masking", True)


def test_a_failure_is_in_the_future() -> None:
    with pytest.raises(ZeroDivisionError):
        in_background(lambda: 1 // 0, name="masking").result(10)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has priorities of threads")
def test_priority_is_lowered_and_never_raised() -> None:
    priority = os.getpriority(os.PRIO_PROCESS, 0)
    task = lambda: os.getpriority(os.PRIO_PROCESS, threading.get_native_id())  # noqa: E731
    found = [in_background(task, name="computing", niceness=niceness).result(10) for niceness in (0, 19)]
    assert found == [priority, 19]
