"""A source of partitions on a simulated client."""

from __future__ import annotations

import pytest
from consumer import FakeClient, source_of

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
