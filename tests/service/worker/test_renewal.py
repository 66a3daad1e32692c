"""A client that the group has shut out for good, and its successor."""

from __future__ import annotations

import pytest
from confluent_kafka import KafkaError
from consumer import FakeClient, FakeMessage

from stream_masker.errors import ServiceError
from stream_masker.service.worker.batch import BatchLimits
from stream_masker.service.worker.batcher import SizeTimeBatcher
from stream_masker.service.worker.source import MAX_RENEWALS, RENEWAL_SECONDS, SEEK_ATTEMPTS, PartitionSource


def shut_out() -> FakeMessage:
    """What a client is told; such errors of messages have no flag that says that they are fatal."""
    return FakeMessage(0, 0, error=KafkaError(KafkaError._FATAL, "the instance was fenced"))


@pytest.fixture
def clients() -> list[FakeClient]:
    return [FakeClient() for _ in range(MAX_RENEWALS + 1)]


@pytest.fixture
def source(clients: list[FakeClient]) -> PartitionSource:
    others = iter(clients[1:])
    made = PartitionSource(
        client=clients[0],
        connect=lambda: next(others),
        topic="in",
        gathering=SizeTimeBatcher(BatchLimits(records=4, size=10_000, delay=1)),
        turn=lambda: True,
        clock=lambda: sum(client.now for client in clients),
    )
    made.subscribe()
    made.resume()
    return made


def test_another_client_takes_its_place(clients: list[FakeClient], source: PartitionSource) -> None:
    clients[0].assign(0)
    clients[0].events = [shut_out()]
    source.gather()
    source.renew()
    assert clients[0].closed
    clients[1].member = "two"
    clients[1].assign(0)
    clients[1].events = [FakeMessage(0, 0)]
    assert source.gather().next_offsets() == {0: 1}
    assert source.group() == "metadata of two"


def test_another_client_reads_what_the_old_one_cannot_read_again(
    clients: list[FakeClient], source: PartitionSource
) -> None:
    clients[0].assign(0)
    clients[0].events = [FakeMessage(0, 7)]
    clients[0].seek_failures = SEEK_ATTEMPTS
    source.rewind([source.gather()])
    source.renew()
    assert (clients[0].closed, clients[0].sought) == (True, [])


def test_a_client_that_is_shut_out_is_not_asked_to_read_again(
    clients: list[FakeClient], source: PartitionSource
) -> None:
    clients[0].assign(0)
    clients[0].events = [FakeMessage(0, 7), shut_out()]
    source.rewind([source.gather()])
    assert clients[0].sought == []


def test_what_the_old_one_read_is_forgotten_and_what_is_committing_settled(
    clients: list[FakeClient], source: PartitionSource
) -> None:
    settled: list[frozenset[int]] = []
    source.subscribe(lambda: settled.append(source.assigned))
    clients[0].assign(0, 1)
    clients[0].events = [FakeMessage(0, 0), FakeMessage(1, 0), shut_out()]
    before = source.gather()
    clients[0].events = [FakeMessage(0, 1)]
    source.read_ahead(lambda: False)
    source.renew()
    assert (before.records, settled, source.assigned, source.group()) == (2, [{0, 1}], frozenset(), None)
    clients[1].assign(0)
    assert source.gather().records == 0


def test_a_client_that_is_well_is_kept(clients: list[FakeClient], source: PartitionSource) -> None:
    clients[0].assign(0)
    source.renew()
    assert (clients[0].closed, source.assigned) == (False, {0})


def fail_so_often(times: int, clients: list[FakeClient], source: PartitionSource, seconds: float) -> None:
    for client in clients[:times]:
        client.events = [shut_out()]
        source.gather()
        source.renew()
        client.now += seconds


def test_clients_that_are_shut_out_one_after_the_other_end_the_worker(
    clients: list[FakeClient], source: PartitionSource
) -> None:
    with pytest.raises(ServiceError, match="again and again: the instance was fenced"):
        fail_so_often(MAX_RENEWALS, clients, source, 1)


def test_clients_that_are_shut_out_now_and_then_do_not(clients: list[FakeClient], source: PartitionSource) -> None:
    fail_so_often(MAX_RENEWALS, clients, source, RENEWAL_SECONDS / 2)
    assert not clients[-1].closed
