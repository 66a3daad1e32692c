"""The worker's input: rebalances, batches, holding, rewinding."""

from __future__ import annotations

from typing import Any

import pytest
from confluent_kafka import KafkaError
from consumer import LIMITS, FakeClient, FakeMessage, offsets, part, parts, source_of

from stream_masker.service.kafka.messages import Partition
from stream_masker.service.worker.batch import BatchLimits, GroupShortfall, MessageBatch
from stream_masker.service.worker.batcher import LONGEST_WAIT_SECONDS, LoadBatcher
from stream_masker.service.worker.partition_source import (
    READ_AHEAD_LIMIT_SECONDS,
    SEEK_ATTEMPTS,
    PartitionSource,
)


def test_partitions_assigned_while_held_are_paused(client: FakeClient) -> None:
    source = source_of(client)
    source.subscribe()
    client.assign(0, 1)
    assert (client.paused, client.assigned, source.assigned) == ({0, 1}, {0, 1}, parts(0, 1))
    source.resume()
    assert client.paused == set()
    source.hold()
    client.assign(2)
    assert client.paused == {0, 1, 2}


def test_a_partition_reassigned_after_the_hold_is_read(client: FakeClient) -> None:
    source = source_of(client)
    source.subscribe()
    client.assign(0, 1)
    client.revoke(1)
    source.resume()
    client.assign(1)
    assert client.paused == set()


def test_a_batch_ends_when_it_is_full(client: FakeClient, source: PartitionSource) -> None:
    client.assign(0)
    client.events = [FakeMessage(0, i) for i in range(6)]
    assert source.gather().next_offsets() == offsets({0: 4})
    assert source.gather().next_offsets() == offsets({0: 6})


def test_a_batch_ends_after_its_delay_from_the_first_record(client: FakeClient, source: PartitionSource) -> None:
    client.assign(0)
    client.events = [lambda: None, FakeMessage(0, 0)]
    assert source.gather().records == 1
    assert LIMITS.delay <= client.now - 0.1 < LIMITS.delay + 0.2


def test_a_batch_without_a_delay_has_what_waits(client: FakeClient) -> None:
    source = adapting(client)
    client.events = [*(FakeMessage(0, i) for i in range(3)), lambda: None, FakeMessage(0, 3)]
    assert source.gather().next_offsets() == offsets({0: 3})
    client.events = [FakeMessage(0, i) for i in range(3, 13)]
    assert [source.gather().records for _ in range(2)] == [8, 2], "a backlog fills batches"


def test_a_batch_has_what_arrives_until_the_batch_before_is_committed(client: FakeClient) -> None:
    source = adapting(client)
    client.events = [FakeMessage(0, 0), lambda: None, FakeMessage(0, 1), lambda: None, FakeMessage(0, 2)]
    assert source.gather(lambda: len(client.events) > 1).next_offsets() == offsets({0: 2})


def test_a_batch_waits_only_a_while_for_the_commit_before(client: FakeClient) -> None:
    source = adapting(client)
    client.events = [FakeMessage(0, 0)]
    assert source.gather(lambda: True).records == 1
    assert LONGEST_WAIT_SECONDS <= client.now < LONGEST_WAIT_SECONDS + 0.2


def adapting(client: FakeClient) -> PartitionSource:
    """Return a source with batches of eight records and no delay, after a small batch."""
    batcher = LoadBatcher(BatchLimits(records=8))
    batcher.take(0)
    source = source_of(client, batcher=batcher)
    source.subscribe()
    source.resume()
    client.assign(0)
    return source


def test_gathering_ends_after_a_while_without_records(client: FakeClient, source: PartitionSource) -> None:
    assert source.gather().records == 0
    assert client.now < LIMITS.delay


def offsets_of(batch: MessageBatch) -> list[int]:
    return [message.offset() for message in batch.partitions.get(part(0), ())]


def test_records_read_ahead_start_the_next_batch(client: FakeClient, source: PartitionSource) -> None:
    client.assign(0)
    client.events = [FakeMessage(0, i) for i in range(8)]
    batch = source.gather()
    source.read_ahead(lambda: False)
    assert (offsets_of(batch), source.commit_metadata(), len(client.events)) == ([0, 1, 2, 3], "metadata of one", 0)
    read = client.now
    assert (offsets_of(source.gather()), client.now) == ([4, 5, 6, 7], read)


def test_reading_ahead_ends_with_the_background_task(client: FakeClient, source: PartitionSource) -> None:
    client.assign(0)
    client.events = [FakeMessage(0, i) for i in range(4)]
    source.read_ahead(lambda: len(client.events) < 4)
    assert len(client.events) == 3
    source.read_ahead(lambda: True)
    assert len(client.events) == 3


def test_reading_ahead_uses_small_reads(
    client: FakeClient, source: PartitionSource, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("stream_masker.service.worker.partition_source.READ_RECORDS", 2)
    client.assign(0)
    client.events = [FakeMessage(0, i) for i in range(4)]
    left: list[int] = []
    source.read_ahead(lambda: left.append(len(client.events)) or False)
    assert left == [4, 3, 1, 0], "one record first, then two at a time"


def test_reading_ahead_ends_after_a_while(client: FakeClient, source: PartitionSource) -> None:
    source.read_ahead(lambda: False)
    assert client.now == pytest.approx(READ_AHEAD_LIMIT_SECONDS, abs=0.06)


def test_nothing_is_read_ahead_while_held_or_stopping(client: FakeClient, source: PartitionSource) -> None:
    client.assign(0)
    client.events = [FakeMessage(0, 0)]
    source.hold()
    source.read_ahead(lambda: False)
    stopping = source_of(client, running=False)
    stopping.subscribe()
    stopping.resume()
    stopping.read_ahead(lambda: False)
    assert len(client.events) == 1


def test_a_revocation_drops_records_read_ahead_and_forbids_the_commit_of_the_batch_before(
    client: FakeClient, source: PartitionSource
) -> None:
    client.assign(0, 1)
    client.events = [FakeMessage(0, i) for i in range(4)]
    source.gather()
    client.events = [FakeMessage(0, 4), FakeMessage(1, 0), lambda: client.revoke(0), FakeMessage(1, 1)]
    source.read_ahead(lambda: not client.events)
    assert source.commit_metadata() is None
    partitions = source.gather().partitions
    assert {p: [m.offset() for m in messages] for p, messages in partitions.items()} == {part(1): [0, 1]}


def test_records_read_ahead_are_read_again_after_a_failed_batch(client: FakeClient, source: PartitionSource) -> None:
    client.assign(0)
    client.events = [FakeMessage(0, i) for i in range(6)]
    batch = source.gather()
    source.read_ahead(lambda: not client.events)
    client.committed_offsets = {0: 2}
    source.rewind([batch])
    client.events = [FakeMessage(0, i) for i in range(2, 6)]
    assert (client.seeks, offsets_of(source.gather())) == ([(0, 2)], [2, 3, 4, 5])


def test_gathering_ends_when_stopping(client: FakeClient) -> None:
    source = source_of(client, running=False)
    assert source.gather().records == 0
    assert client.now == 0


def test_the_gathered_records_of_a_revoked_partition_are_dropped(client: FakeClient, source: PartitionSource) -> None:
    client.assign(0, 1)
    client.events = [FakeMessage(0, 5), FakeMessage(1, 7), lambda: client.revoke(1), FakeMessage(0, 6)]
    assert source.gather().next_offsets() == offsets({0: 7})
    assert (source.assigned, client.assigned) == (parts(0), {0})


def test_a_message_of_a_revoked_partition_is_ignored(client: FakeClient, source: PartitionSource) -> None:
    client.assign(0, 1)
    client.events = [lambda: client.revoke(1), FakeMessage(1, 7), FakeMessage(0, 5)]
    assert source.gather().next_offsets() == offsets({0: 6})


def test_the_records_of_a_lost_partition_are_dropped_and_its_member_may_not_commit(
    client: FakeClient, source: PartitionSource
) -> None:
    client.assign(0)
    client.events = [FakeMessage(0, 4)]
    source.gather()
    assert source.commit_metadata() == "metadata of one"
    client.events = [FakeMessage(0, 5), lambda: client.lose(0)]
    assert source.gather().records == 0
    assert source.commit_metadata() is None
    client.member = "two"
    client.assign(0)
    assert source.gather().records == 0
    assert source.commit_metadata() == "metadata of two"


def test_a_member_whose_id_has_changed_may_not_commit(client: FakeClient, source: PartitionSource) -> None:
    client.assign(0)
    source.gather()
    client.member = ""
    assert source.commit_metadata() is None


def test_a_batch_with_a_revoked_partition_may_not_commit_although_it_is_reassigned(
    client: FakeClient, source: PartitionSource
) -> None:
    gathered(client, source)
    assert source.commit_metadata() == "metadata of one"
    client.revoke(1)
    client.assign(1)
    assert source.commit_metadata() is None
    source.gather()
    assert source.commit_metadata() == "metadata of one"


def source_with_batch(client: FakeClient) -> tuple[PartitionSource, list[Any]]:
    """A source that has gathered a batch, and the groups that it puts back."""
    back: list[Any] = []
    source = source_of(client, put_back=lambda *what: back.append(what))
    source.subscribe()
    source.resume()
    gathered(client, source)
    return source, back


def test_groups_that_are_too_small_are_put_back(client: FakeClient) -> None:
    source, back = source_with_batch(client)
    batch = source._batch
    whole = batch.records
    source.put_back(batch, {part(1): GroupShortfall(0, 1, 7)})
    [(partition, messages, short, now)] = back
    assert (partition, short.lacking, now) == (part(1), 7, client.now)
    assert len(messages) == whole - batch.records > 0
    assert part(1) not in batch.next_offsets()


def test_groups_of_a_batch_that_may_not_commit_are_not_put_back(client: FakeClient) -> None:
    source, back = source_with_batch(client)
    batch = source._batch
    client.revoke(1)
    source.put_back(batch, {part(1): GroupShortfall(0, 1, 7)})
    assert (back, set(batch.next_offsets()) >= parts(1)) == ([], True)


def test_a_batch_without_the_revoked_partition_may_commit(client: FakeClient, source: PartitionSource) -> None:
    client.assign(0, 1)
    client.events = [FakeMessage(0, 5)]
    source.gather()
    client.revoke(1)
    assert source.commit_metadata() == "metadata of one"


@pytest.mark.parametrize("how", ["revoke", "lose"])
def test_before_revoke_is_called_before_partitions_are_revoked(client: FakeClient, how: str) -> None:
    source, seen = source_of(client), []
    source.subscribe(lambda: seen.append((source.assigned, set(client.assigned))))
    client.assign(0, 1)
    getattr(client, how)(1)
    assert seen == [(parts(0, 1), {0, 1})]


def test_polling_the_group_reads_no_record(client: FakeClient, source: PartitionSource) -> None:
    client.assign(0, 1)
    client.events = [lambda: client.revoke(1)]
    source.poll()
    client.events = [FakeMessage(0, 9)]
    source.poll()
    assert (source.assigned, client.paused, client.seeks) == (parts(0), {0, 1}, [(0, 9)])
    source.resume()
    assert 0 not in client.paused


def gathered(client: FakeClient, source: PartitionSource):
    client.assign(0, 1)
    client.events = [FakeMessage(0, 5), FakeMessage(0, 6), FakeMessage(1, 7)]
    return source.gather()


def test_a_failed_batch_is_read_again_from_the_committed_offsets(client: FakeClient, source: PartitionSource) -> None:
    batch = gathered(client, source)
    client.committed_offsets = {0: 7}
    source.rewind([batch])
    assert sorted(client.seeks) == [(0, 7), (1, 7)]


def test_only_assigned_partitions_are_read_again(client: FakeClient, source: PartitionSource) -> None:
    batch = gathered(client, source)
    client.revoke(0)
    source.rewind([batch])
    assert client.seeks == [(1, 7)]


def test_batches_are_read_again_from_the_earliest_offset(client: FakeClient, source: PartitionSource) -> None:
    batches = [gathered(client, source)]
    client.events = [FakeMessage(0, 7), FakeMessage(1, 8)]
    batches.append(source.gather())
    source.rewind(reversed(batches))
    assert sorted(client.seeks) == [(0, 5), (1, 7)]


def test_a_rewind_drops_the_gathered_records(client: FakeClient) -> None:
    class Dropped(LoadBatcher):
        def drop(self, partitions) -> None:
            dropped.append(set(partitions))

    dropped: list[set[Partition]] = []
    source = source_of(client, batcher=Dropped(LIMITS))
    source.subscribe()
    source.rewind([gathered(client, source)])
    assert dropped == [parts(0, 1)]


def test_a_rewind_polls_the_group_while_it_waits_for_the_broker(client: FakeClient, source: PartitionSource) -> None:
    batch = gathered(client, source)
    client.events = [FakeMessage(1, 9), lambda: client.revoke(0)]
    client.committed_failures = 3
    source.rewind([batch])
    assert client.seeks == [(1, 9), (1, 7)]


def test_a_rewind_waits_for_the_broker(client: FakeClient, source: PartitionSource) -> None:
    batch = gathered(client, source)
    client.committed_failures, client.seek_failures = 3, SEEK_ATTEMPTS - 1
    source.rewind([batch])
    assert len(client.seeks) == 2


def test_a_record_delivered_while_held_is_read_again(client: FakeClient, source: PartitionSource) -> None:
    client.assign(0)
    source.hold()
    client.events = [FakeMessage(0, 9)]
    source.idle(0.1)
    assert client.seeks == [(0, 9)]


def test_an_error_of_one_partition_does_not_end_the_batch(client: FakeClient, source: PartitionSource) -> None:
    client.assign(0)
    gone = KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART, "unknown")
    client.events = [FakeMessage(0, 0, error=gone), FakeMessage(0, 5)]
    assert source.gather().next_offsets() == offsets({0: 6})


def test_closing_leaves_the_group(client: FakeClient, source: PartitionSource) -> None:
    source.close()
    assert client.closed


def test_partitions_assigned_while_leaving_are_not_accepted(client: FakeClient, source: PartitionSource) -> None:
    client.on_close = lambda: client.assign(0)
    source.close()
    assert (client.assigned, source.assigned) == (set(), frozenset())
