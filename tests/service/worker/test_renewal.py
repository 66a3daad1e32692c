"""The replacement of a fenced consumer client."""

from __future__ import annotations

import pytest
from confluent_kafka import KafkaError
from consumer import FakeClient, FakeMessage, offsets, parts

from stream_masker.errors import ServiceError
from stream_masker.service.kafka.messages import Partition
from stream_masker.service.worker.batch import BatchLimits
from stream_masker.service.worker.batcher import LoadBatcher
from stream_masker.service.worker.partition_source import MAX_RENEWALS, RENEWAL_SECONDS, SEEK_ATTEMPTS, PartitionSource


def fenced() -> FakeMessage:
    """The error that a fenced client receives; errors in messages have no flag for fatal ones."""
    return FakeMessage(0, 0, error=KafkaError(KafkaError._FATAL, "the instance was fenced"))


@pytest.fixture
def clients() -> list[FakeClient]:
    return [FakeClient() for _ in range(MAX_RENEWALS + 1)]


@pytest.fixture
def source(clients: list[FakeClient]) -> PartitionSource:
    others = iter(clients[1:])
    source = PartitionSource(
        client=clients[0],
        connect=lambda: next(others),
        topics=["in"],
        batcher=LoadBatcher(BatchLimits(records=4, size=10_000, delay=1)),
        beat=lambda: True,
        clock=lambda: sum(client.now for client in clients),
    )
    source.subscribe()
    source.resume()
    return source


def test_a_new_client_replaces_a_fenced_one(clients: list[FakeClient], source: PartitionSource) -> None:
    clients[0].assign(0)
    clients[0].events = [fenced()]
    source.gather()
    source.renew()
    assert clients[0].closed
    clients[1].member = "two"
    clients[1].assign(0)
    clients[1].events = [FakeMessage(0, 0)]
    assert source.gather().next_offsets() == offsets({0: 1})
    assert source.commit_metadata() == "metadata of two"


def test_a_new_client_reads_what_the_old_one_cannot_seek_to(clients: list[FakeClient], source: PartitionSource) -> None:
    clients[0].assign(0)
    clients[0].events = [FakeMessage(0, 7)]
    clients[0].seek_failures = SEEK_ATTEMPTS
    source.rewind([source.gather()])
    source.renew()
    assert (clients[0].closed, clients[0].seeks) == (True, [])


def test_a_fenced_client_does_not_seek(clients: list[FakeClient], source: PartitionSource) -> None:
    clients[0].assign(0)
    clients[0].events = [FakeMessage(0, 7), fenced()]
    source.rewind([source.gather()])
    assert clients[0].seeks == []


def test_a_renewal_settles_the_pending_commit_and_drops_gathered_records(
    clients: list[FakeClient], source: PartitionSource
) -> None:
    settled: list[frozenset[Partition]] = []
    source.subscribe(lambda: settled.append(source.assigned))
    clients[0].assign(0, 1)
    clients[0].events = [FakeMessage(0, 0), FakeMessage(1, 0), fenced()]
    before = source.gather()
    clients[0].events = [FakeMessage(0, 1)]
    source.read_ahead(lambda: False)
    source.renew()
    assert (before.records, settled, source.assigned, source.commit_metadata()) == (2, [parts(0, 1)], frozenset(), None)
    clients[1].assign(0)
    assert source.gather().records == 0


def test_a_client_without_failure_is_kept(clients: list[FakeClient], source: PartitionSource) -> None:
    clients[0].assign(0)
    source.renew()
    assert (clients[0].closed, source.assigned) == (False, parts(0))


def fence_clients(times: int, clients: list[FakeClient], source: PartitionSource, seconds: float) -> None:
    for client in clients[:times]:
        client.events = [fenced()]
        source.gather()
        source.renew()
        client.now += seconds


def test_repeated_fencing_ends_the_worker(clients: list[FakeClient], source: PartitionSource) -> None:
    with pytest.raises(ServiceError, match="repeatedly: the instance was fenced"):
        fence_clients(MAX_RENEWALS, clients, source, 1)


def test_occasional_fencing_does_not_end_the_worker(clients: list[FakeClient], source: PartitionSource) -> None:
    fence_clients(MAX_RENEWALS, clients, source, RENEWAL_SECONDS / 2)
    assert not clients[-1].closed
