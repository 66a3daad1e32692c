"""The way of one batch, from the consumer to the producer: the files of the package that it passes."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient
from kafka_records import QUIET, mock_broker
from workers import running, setting

import stream_masker
from stream_masker.service.worker.loop import Worker

PACKAGE = str(Path(stream_masker.__file__).parent)
OTHER_THREADS = {"brokers"}
"""Threads that run beside the batches."""

MOST_FILES = 56


@contextmanager
def profiled(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[set[str]]]:
    """Yield the files of each turn of the worker's loop, those that are called on any of its threads."""
    turns: list[set[str]] = []
    work, files = Worker._work, set[str]()

    def profile(frame: Any, event: str, _: Any) -> None:
        file = frame.f_code.co_filename
        if event == "call" and file.startswith(PACKAGE) and threading.current_thread().name not in OTHER_THREADS:
            files.add(file)

    def work_and_note(worker: Worker) -> None:
        files.clear()
        work(worker)
        turns.append(set(files))

    monkeypatch.setattr(Worker, "_work", work_and_note)
    threading.setprofile(profile)
    try:
        yield turns
    finally:
        threading.setprofile(None)
        sys.setprofile(None)


@pytest.mark.exhaustive
def test_a_batch_passes_few_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with profiled(monkeypatch) as turns, mock_broker() as bootstrap:
        here = setting(bootstrap, tmp_path)
        here.data |= {"noise_key": "patient.id", "mechanism": {"name": "semantic_transport"}}
        admin = AdminClient({"bootstrap.servers": bootstrap, **QUIET})
        for topic in here.topics.values():
            admin.list_topics(topic, timeout=10)
        here.produce(range(400))
        with running(here.configuration()) as worker:
            here.publish(1)
            for end in range(400, 2_400, 400):
                worker.reaches(end)
                here.produce(range(end, end + 400))
    masks = [files for files in turns if any(file.endswith("pipeline/masker.py") for file in files)]
    assert masks
    assert len(masks[-1]) <= MOST_FILES, sorted(file.removeprefix(PACKAGE) for file in masks[-1])
