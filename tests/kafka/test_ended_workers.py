"""Workers that are killed one after another at the same committed offset: the next one says so."""

from __future__ import annotations

import logging

import pytest
from processes import Processes
from workers import Setting, ids, running, wait

NEVER = 3_600.0
"""A delay of batches with which a worker reads records and does not commit them."""


@pytest.fixture
def here(here: Setting) -> Setting:
    here.create(1)
    here.publish(1)
    return here


def delay(here: Setting, seconds: float) -> None:
    here.data["worker"]["batch_delay"] = seconds
    here.configuration()


def kill_one(here: Setting, processes: Processes, name: str) -> None:
    """Kill a worker that has its partition."""
    process = processes.start(name, "worker", "--config", str(here.path), "--http-port", "0")
    wait(lambda: f"assigned partitions {here.topics['input']}-0" in processes.log(name), "the partition")
    process.kill()
    process.wait()
    processes.running.remove(process)


def test_a_worker_says_that_others_were_killed_at_its_offset(here: Setting, caplog: pytest.LogCaptureFixture) -> None:
    here.produce(range(5), partitions=1)
    with running(here.configuration()) as worker:
        worker.reaches(5)
    here.produce(range(5, 10), partitions=1)
    delay(here, NEVER)
    with Processes(here.folder) as processes:
        for name in ("first", "second"):
            kill_one(here, processes, name)
            assert "workers in a row" not in processes.log(name)
    delay(here, 5)
    text = f"2 workers in a row have ended at offset 5 of partition 0 of {here.topics['input']} without committing"
    with caplog.at_level(logging.WARNING), running(here.configuration()) as worker:
        worker.wait(lambda: worker.metric("workers_ended_at_offset") == 2, "the metric")
        assert any(text in note for note in worker.health.notes)
        worker.reaches(5)
        worker.wait(lambda: worker.metric("workers_ended_at_offset") == 0, "the end of the warning")
    assert text in caplog.text
    assert ids(here.read("output")) == [*range(10)]


def test_workers_that_stop_in_order_are_not_counted(here: Setting, caplog: pytest.LogCaptureFixture) -> None:
    here.produce(range(5), partitions=1)
    delay(here, NEVER)
    with caplog.at_level(logging.INFO):
        for number in range(1, 4):
            with running(here.configuration()) as worker:
                worker.wait(lambda number=number: caplog.text.count("assigned partitions") == number, "the partition")
    assert "workers in a row" not in caplog.text


def test_workers_that_are_killed_without_records_to_read_are_not_counted(
    here: Setting, caplog: pytest.LogCaptureFixture
) -> None:
    here.produce(range(5), partitions=1)
    with running(here.configuration()) as worker:
        worker.reaches(5)
    with Processes(here.folder) as processes:
        for name in ("first", "second"):
            kill_one(here, processes, name)
    here.produce(range(5, 10), partitions=1)
    with running(here.configuration()) as worker:
        worker.reaches(5)
    assert "workers in a row" not in caplog.text
