"""The lag of the assigned partitions."""

from __future__ import annotations

from confluent_kafka import KafkaError
from consumer import FakeClient, FakeMessage, offsets, part, source_of

from stream_masker.service.worker.partition_source import (
    BROKER_REQUEST_SECONDS,
    SHORT_REQUEST_SECONDS,
    PartitionSource,
)


def test_lag_counts_from_the_committed_offsets(client: FakeClient, source: PartitionSource) -> None:
    client.watermarks = {0: (0, 100), 1: (40, 50), 2: (0, 30)}
    client.committed_offsets = {0: 90}
    client.assign(0, 1, 2)
    assert source.lag() == offsets({0: 10, 1: 10, 2: 30})
    client.events = [FakeMessage(0, 90), FakeMessage(0, 91)]
    batch = source.gather()
    source.advance(batch)
    assert source.lag()[part(0)] == 8


def test_lag_is_zero_at_the_end_of_a_partition_with_control_records(
    client: FakeClient, source: PartitionSource
) -> None:
    client.watermarks = {0: (0, 101)}
    client.assign(0)
    end = KafkaError(KafkaError._PARTITION_EOF, "end")
    client.events = [FakeMessage(0, 99), FakeMessage(0, 101, error=end)]
    batch = source.gather()
    source.advance(batch)
    assert source.lag() == offsets({0: 0})


def test_a_batch_read_again_counts_as_lag(client: FakeClient, source: PartitionSource) -> None:
    client.watermarks, client.committed_offsets = {0: (0, 101)}, {0: 99}
    client.assign(0)
    client.events = [FakeMessage(0, 99), FakeMessage(0, 101, error=KafkaError(KafkaError._PARTITION_EOF, "end"))]
    source.rewind([source.gather()])
    assert source.lag() == offsets({0: 2})


def test_the_watermarks_of_held_partitions_are_requested_from_the_brokers(
    client: FakeClient, source: PartitionSource
) -> None:
    client.watermarks = {0: (0, 10)}
    client.assign(0)
    assert (source.lag(), client.requested) == (offsets({0: 10}), [])
    source.hold()
    assert (source.lag(), client.requested) == (offsets({0: 10}), [0])


def test_unknown_lag_is_not_reported(client: FakeClient, source: PartitionSource) -> None:
    client.watermarks = {0: (0, 10)}
    client.committed_failures = 2
    client.assign(0)
    assert source.lag() == offsets({})


def test_brokers_that_do_not_answer_delay_the_lag_only_briefly(client: FakeClient, source: PartitionSource) -> None:
    client.assign(*range(50))
    source.hold()
    client.silent, before = True, client.now
    assert source.lag() == offsets({})
    assert len(client.requested) == 50
    assert client.now - before <= BROKER_REQUEST_SECONDS + 50 * SHORT_REQUEST_SECONDS


def test_the_lag_is_not_requested_when_stopping(client: FakeClient) -> None:
    source = source_of(client, running=False)
    source.subscribe()
    client.watermarks = {0: (0, 10)}
    client.assign(0)
    source.hold()
    assert (source.lag(), client.requested) == (offsets({}), [])
