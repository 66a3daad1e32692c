"""A source of partitions on a simulated client, and a worker without a broker."""

from __future__ import annotations

import pytest
from consumer import FakeClient, source_of
from worker_bench import Bench

from stream_masker.service.worker.background import Liveness
from stream_masker.service.worker.partition_source import PartitionSource


@pytest.fixture
def client() -> FakeClient:
    return FakeClient()


@pytest.fixture
def source(client: FakeClient) -> PartitionSource:
    source = source_of(client)
    source.subscribe()
    source.resume()
    return source


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> Bench:
    monkeypatch.setattr(Liveness, "pause", lambda self, seconds: self.beat())
    return Bench()
