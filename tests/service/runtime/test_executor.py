"""A serial executor: order, failures, and the priority of its thread."""

from __future__ import annotations

import os
import sys
import threading

import pytest

from stream_masker.service.runtime.process import SerialExecutor


def test_tasks_run_one_after_the_other_on_a_daemon_thread() -> None:
    executor, ran = SerialExecutor("masking"), []

    def task(number: int) -> tuple[str, bool]:
        ran.append(number)
        return threading.current_thread().name, threading.current_thread().daemon

    futures = [executor.submit(lambda number=number: task(number)) for number in range(5)]
    assert [future.result(10) for future in futures] == [("masking", True)] * 5
    assert ran == [0, 1, 2, 3, 4]


def test_a_failure_is_in_the_future_and_the_next_task_runs() -> None:
    executor = SerialExecutor("masking")
    failed, after = executor.submit(lambda: 1 // 0), executor.submit(lambda: 7)
    with pytest.raises(ZeroDivisionError):
        failed.result(10)
    assert after.result(10) == 7


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has priorities of threads")
def test_priority_is_lowered_and_never_raised() -> None:
    priority = os.getpriority(os.PRIO_PROCESS, 0)
    priorities = [
        SerialExecutor("computing", niceness=niceness)
        .submit(lambda: os.getpriority(os.PRIO_PROCESS, threading.get_native_id()))
        .result(10)
        for niceness in (0, 19)
    ]
    assert priorities == [priority, 19]


def test_a_thread_without_niceness_keeps_the_priority_of_the_process(monkeypatch: pytest.MonkeyPatch) -> None:
    changes: list[tuple[int, ...]] = []
    monkeypatch.setattr(os, "setpriority", lambda *given: changes.append(given))
    SerialExecutor("masking").submit(int).result(10)
    assert not changes
