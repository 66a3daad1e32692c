"""Background tasks: the main thread polls the group while they run."""

from __future__ import annotations

import threading

import pytest

from stream_masker.service.runtime.process import SerialExecutor
from stream_masker.service.worker import background
from stream_masker.service.worker.background import BackgroundRunner


class Bench:
    """The task ends after ``lasting`` polls; each advances the clock by 250 s."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, lasting: int = 3) -> None:
        monkeypatch.setattr(background, "POLL_AFTER_SECONDS", 0.001)
        monkeypatch.setattr(background, "POLL_EVERY_SECONDS", 0.001)
        self.now, self.polls, self.beats, self.lasting = 0.0, 0, 0, lasting
        self.over = threading.Event()
        self.background = BackgroundRunner(poll=self.poll, beat=self.beat, clock=lambda: self.now)

    def poll(self) -> None:
        self.polls += 1
        self.now += 250
        if self.polls == self.lasting:
            self.over.set()

    def beat(self) -> None:
        self.beats += 1

    def task(self) -> str:
        assert self.over.wait(60)
        return threading.current_thread().name


def test_a_slow_task_runs_on_another_thread_while_the_group_is_polled(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench(monkeypatch)
    assert bench.background.run(bench.task).startswith("masking")
    assert bench.polls >= bench.lasting


def test_a_quick_task_ends_before_the_first_poll() -> None:
    runner = BackgroundRunner(poll=lambda: pytest.fail("polled"), beat=lambda: pytest.fail("beat"))
    assert runner.run(lambda: 7) == 7


def test_the_calling_thread_may_work_until_a_task_is_done(monkeypatch: pytest.MonkeyPatch) -> None:
    bench, looks = Bench(monkeypatch), []

    def meanwhile(done) -> None:
        looks.append((done(), threading.current_thread().name))
        bench.over.set()
        while not done():
            pass

    assert bench.background.run(bench.task, meanwhile).startswith("masking")
    assert (looks, bench.polls) == ([(False, "MainThread")], 0)


def test_the_exception_of_a_task_is_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ZeroDivisionError):
        Bench(monkeypatch).background.run(lambda: 1 / 0)


def test_waiting_ends_at_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench(monkeypatch, lasting=10)
    with pytest.raises(TimeoutError):
        bench.background.wait(SerialExecutor("stuck").submit(bench.task), lambda: 600)
    assert 3 <= bench.polls < 10
    bench.over.set()


def test_the_limit_may_shrink_during_the_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench(monkeypatch, lasting=10)
    with pytest.raises(TimeoutError):
        bench.background.wait(SerialExecutor("stuck").submit(bench.task), lambda: 100 if bench.polls > 4 else 1e9)
    assert bench.polls == 5
    bench.over.set()


def test_there_are_no_heartbeats_for_a_task_that_is_stuck(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench(monkeypatch, lasting=10)
    bench.background.run(bench.task)
    assert (bench.beats, bench.polls >= 10) == (3, True)
