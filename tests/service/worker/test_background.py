"""Slow steps: the group is served while they last."""

from __future__ import annotations

import threading

import pytest

from stream_masker.service.worker import background
from stream_masker.service.worker.background import BackgroundRunner, SerialExecutor


class Bench:
    """Serving ends the step after ``lasting`` times."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, lasting: int = 3) -> None:
        monkeypatch.setattr(background, "POLL_AFTER_SECONDS", 0.001)
        monkeypatch.setattr(background, "POLL_EVERY_SECONDS", 0.001)
        self.now, self.served, self.turns, self.lasting = 0.0, 0, 0, lasting
        self.over = threading.Event()
        self.aside = BackgroundRunner(serve=self.serve, turn=self.turn, clock=lambda: self.now)

    def serve(self) -> None:
        self.served += 1
        self.now += 250
        if self.served == self.lasting:
            self.over.set()

    def turn(self) -> None:
        self.turns += 1

    def step(self) -> str:
        assert self.over.wait(60)
        return threading.current_thread().name


def test_a_slow_step_is_taken_elsewhere_and_the_group_is_served_meanwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench(monkeypatch)
    assert bench.aside.run(bench.step).startswith("masking")
    assert bench.served >= bench.lasting


def test_a_quick_step_is_not_waited_for() -> None:
    made = BackgroundRunner(serve=lambda: pytest.fail("served"), turn=lambda: pytest.fail("turned"))
    assert made.run(lambda: 7) == 7


def test_something_else_is_done_until_a_step_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    bench, looks = Bench(monkeypatch), []

    def meanwhile(done) -> None:
        looks.append((done(), threading.current_thread().name))
        bench.over.set()
        while not done():
            pass

    assert bench.aside.run(bench.step, meanwhile).startswith("masking")
    assert (looks, bench.served) == ([(False, "MainThread")], 0)


def test_what_a_step_raises_is_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ZeroDivisionError):
        Bench(monkeypatch).aside.run(lambda: 1 / 0)


def test_a_step_is_given_up_after_its_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench(monkeypatch, lasting=10)
    with pytest.raises(TimeoutError):
        bench.aside.wait(SerialExecutor("stuck").submit(bench.step), lambda: 600)
    assert 3 <= bench.served < 10
    bench.over.set()


def test_a_limit_may_shrink_meanwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench(monkeypatch, lasting=10)
    with pytest.raises(TimeoutError):
        bench.aside.wait(SerialExecutor("stuck").submit(bench.step), lambda: 100 if bench.served > 4 else 1e9)
    assert bench.served == 5
    bench.over.set()


def test_a_step_that_never_ends_shows_no_life_any_more(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench(monkeypatch, lasting=10)
    bench.aside.run(bench.step)
    assert (bench.turns, bench.served >= 10) == (3, True)
