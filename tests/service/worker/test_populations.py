"""The workers of several populations in one process: they start together, stop together, and fail together."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any

import pytest

from stream_masker.errors import ServiceError
from stream_masker.service.worker import populations
from stream_masker.service.worker.populations import run_workers


class Recorder:
    """Stands for ``run_worker``: records the threads, and runs until it is stopped or fails."""

    def __init__(self, failing: str = "none") -> None:
        self.failing = failing
        self.threads: dict[str, threading.Thread] = {}
        self.started = threading.Semaphore(0)

    def __call__(self, configuration: Any, *, registry: Any, health: Any, stop: threading.Event) -> None:
        assert (registry, health) == (configuration.population, configuration.population)
        self.threads[configuration.population] = threading.current_thread()
        self.started.release()
        if configuration.population == self.failing:
            raise ServiceError("a topic is missing")
        stop.wait(60)


def run(monkeypatch: pytest.MonkeyPatch, recorder: Recorder, names: list[str], stop: threading.Event) -> None:
    monkeypatch.setattr(populations, "run_worker", recorder)
    monkeypatch.setattr(populations, "load_ontologies", lambda _: None)
    configurations: Any = {name: SimpleNamespace(population=name) for name in names}
    same: Any = dict(zip(names, names, strict=True))
    run_workers(configurations, registries=same, healths=same, stop=stop)


def test_a_single_population_is_masked_in_the_calling_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    recorder, stop = Recorder(), threading.Event()
    stop.set()
    run(monkeypatch, recorder, [""], stop)
    assert recorder.threads == {"": threading.current_thread()}


def test_each_population_has_a_thread_and_all_stop_together(monkeypatch: pytest.MonkeyPatch) -> None:
    recorder, stop = Recorder(), threading.Event()

    def stop_when_started() -> None:
        for _ in range(3):
            recorder.started.acquire(timeout=60)
        stop.set()

    stopping = threading.Thread(target=stop_when_started)
    stopping.start()
    run(monkeypatch, recorder, ["", "labs", "visits"], stop)
    stopping.join()
    assert {thread.name for thread in recorder.threads.values()} == {"worker", "worker labs", "worker visits"}


def test_a_failure_stops_all_within_the_time_limit_and_is_raised(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    recorder, stop, limits = Recorder(failing="labs"), threading.Event(), []
    monkeypatch.setattr(populations, "exit_within", lambda: limits.append("watched"))
    with pytest.raises(ServiceError, match="a topic is missing"):
        run(monkeypatch, recorder, ["", "labs"], stop)
    assert stop.is_set()
    assert limits == ["watched"]
    assert caplog.messages == ["the worker failed, so the process ends with all populations"]
