"""The worker's input: what is read after rebalances and failures, what is counted, and when a batch ends."""

from __future__ import annotations

from collections.abc import Callable
from unittest.mock import Mock

import pytest
from confluent_kafka import KafkaError
from consumer import TOPIC, FakeClient, FakeMessage, source_of

from stream_masker.service.worker.source import IDLE_SECONDS, UNREADABLE, Limits, Source
from stream_masker.service.worker.transactions import SessionLostError


@pytest.fixture
def client() -> FakeClient:
    return FakeClient()


@pytest.fixture
def source(client: FakeClient) -> Source:
    return source_of(client)


def read(source: Source, committing: Callable[[], bool] = lambda: False) -> dict[int, list[int]]:
    """Read a batch; return its offsets by partition."""
    return {p: [m.offset() for m in messages] for p, messages in source.read(committing).items()}


def deliver(client: FakeClient, partition: int, *numbers: int) -> None:
    client.events.extend(FakeMessage(partition, number) for number in numbers)


def failed(code: int, partition: int, offset: int, topic: str | None = TOPIC) -> FakeMessage:
    return FakeMessage(partition, offset, error=KafkaError(code, "failed"), topic=topic)


def test_partitions_are_read_from_their_committed_offsets_and_deleted_ones_are_counted(
    client: FakeClient, source: Source
) -> None:
    """One without is read from its beginning, as one that was made anew."""
    client.committed_offsets, client.watermarks = {0: 10, 1: 3, 3: 30}, {0: (0, 20), 1: (8, 20), 2: (5, 9), 3: (0, 4)}
    client.assign(0, 1, 2, 3)
    assert client.starts == {0: 10, 1: 8, 2: 5, 3: 0}
    assert (source.take_skipped(), source.take_skipped()) == (5, 0)
    assert source.lag() == 30


@pytest.mark.parametrize(
    ("code", "topic"),
    [(KafkaError._FATAL, TOPIC), (KafkaError._AUTO_OFFSET_RESET, TOPIC), (KafkaError.NOT_COORDINATOR, None)],
)
def test_an_error_after_which_the_client_does_not_go_on_ends_the_session(
    client: FakeClient, source: Source, code: int, topic: str | None
) -> None:
    """The next session finds out where a partition begins whose next offset has been deleted."""
    client.assign(0)
    client.events = [failed(code, 0, 0, topic)]
    with pytest.raises(SessionLostError):
        source.read(lambda: False)


def test_a_refused_seek_ends_the_session(client: FakeClient, source: Source) -> None:
    client.assign(0)
    deliver(client, 0, 0)
    source.read(lambda: False)
    client.refuses_seeks = True
    with pytest.raises(SessionLostError, match="partition 0: erroneous state"):
        source.roll_back()


def test_lag_counts_from_the_committed_offsets_and_ends_behind_control_records(
    client: FakeClient, source: Source
) -> None:
    client.committed_offsets, client.watermarks = {0: 90}, {0: (0, 101)}
    client.assign(0)
    deliver(client, 0, 90, 91)
    client.events.append(failed(KafkaError._PARTITION_EOF, 0, 101))
    source.read(lambda: False)
    assert source.lag() == 11
    source.commit({0: 92})
    assert source.lag() == 0


def test_an_error_of_a_partition_is_named_until_it_is_read_on(client: FakeClient, source: Source) -> None:
    client.assign(0)
    client.events.append(failed(KafkaError._BAD_MSG, 0, 7))
    read(source)
    assert source.unreadable[0].startswith("at offset 7: ")
    deliver(client, 0, 7)
    read(source)
    assert source.unreadable == {}


def reading(client: FakeClient, *, records: int = 10_000, delay: float = 0.0) -> Source:
    """A source with one partition, whose records are of 10 bytes each."""
    source = source_of(client, limits=Limits(records=records, size=1_000_000, delay=delay))
    client.assign(0)
    return source


@pytest.mark.parametrize(
    ("records", "commit", "delay", "seconds"),
    [(5, 0.0, 0.0, 0.1), (5, 0.3, 0.0, 0.3), (5, 0.0, 2.0, 2.05)],
    ids=["at once", "with the commit", "after the delay"],
)
def test_a_batch_ends_when_no_records_wait(
    client: FakeClient, records: int, commit: float, delay: float, seconds: float
) -> None:
    """A read takes 0.05 seconds and returns at most 50 records. ``commit``: when the batch before is committed."""
    source = reading(client, delay=delay)
    deliver(client, 0, *range(records))
    assert read(source, lambda: client.now < commit) == {0: list(range(records))}
    assert client.now == pytest.approx(seconds, abs=0.11)


def test_a_batch_grows_to_its_limits_while_records_wait(client: FakeClient) -> None:
    source = reading(client, records=50)
    deliver(client, 0, *range(60))
    assert read(source) == {0: list(range(50))}
    assert read(source) == {0: list(range(50, 60))}
    begun = client.now
    assert read(source) == {}
    assert client.now - begun == pytest.approx(IDLE_SECONDS, abs=0.06)


def test_a_message_with_unreadable_headers_is_marked_also_during_a_commit(client: FakeClient, source: Source) -> None:
    client.assign(0)
    for number, arrive in enumerate((source.poll, lambda: source.read(lambda: False))):
        message = FakeMessage(0, number)
        message.headers = Mock(side_effect=UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid"))
        message.value, message.set_headers, message.set_value = (Mock() for _ in range(3))
        client.events.append(message)
        arrive()
        message.set_value.assert_called_with(UNREADABLE)
