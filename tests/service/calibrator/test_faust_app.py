"""The Faust application: committed blocks in order, assignments, and limited waits."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import faust
import pytest
from faust.types import TP

from stream_masker.service.calibrator import faust_app
from stream_masker.service.calibrator.faust_app import (
    BoundedStopThread,
    CommittedConsumer,
    CommittedThread,
    CommittedTransport,
    build_app,
)
from stream_masker.service.configuration import Configuration
from stream_masker.service.kafka.names import calibrator_group


class FakeListener:
    def __init__(self) -> None:
        self.blocks: list[tuple[int, int, bytes | None, bytes]] = []
        self.roles: list[bool | None] = []
        self.errors: list[BaseException] = []
        self.error: Exception | None = None

    def assigned(self, *, active: bool) -> None:
        self.roles.append(active)

    def revoked(self) -> None:
        self.roles.append(None)

    async def deliver(self, offset: int, timestamp: int, key: bytes | None, value: bytes) -> None:
        if self.error is not None:
            raise self.error
        self.blocks.append((offset, timestamp, key, value))

    def tick(self) -> None:
        """Ignore ticks."""

    def fail(self, error: BaseException) -> None:
        self.errors.append(error)


@pytest.fixture
def listener() -> FakeListener:
    return FakeListener()


@pytest.fixture
def app(configuration: Configuration, listener: FakeListener) -> Iterator[faust.App]:
    """The application, built with a current event loop because Faust requires one."""
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    yield build_app(configuration, listener)
    asyncio.set_event_loop(None)
    loop.close()


def test_application_only_consumes_and_writes_no_files(
    app: faust.App, configuration: Configuration, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    before = sorted(tmp_path.iterdir())
    assert isinstance(app.transport, CommittedTransport)
    assert app.conf.id == calibrator_group(configuration) == "stream-masker.calibration.calibrator"
    assert [url.authority for url in app.conf.broker] == ["one:9092", "two:9093"]
    assert not app.conf.topic_allow_declare
    assert app.conf.topic_disable_leader
    assert list(app.boot_strategy.kafka_producer()) == list(app.boot_strategy.web_server()) == []
    asyncio.get_event_loop_policy().get_event_loop().run_until_complete(app.on_first_start())
    assert sorted(tmp_path.iterdir()) == before


class FakeStream:
    def __init__(self, *events: tuple[int, int, float, bytes | None]) -> None:
        self.contents = events

    async def events(self) -> AsyncIterator[Any]:
        for partition, offset, timestamp, value in self.contents:
            message = SimpleNamespace(partition=partition, offset=offset, timestamp=timestamp, key=b"k", value=value)
            yield SimpleNamespace(message=message)


def consume(app: faust.App, *events: tuple[int, int, float, bytes | None]) -> None:
    (agent,) = app.agents.values()
    asyncio.run(agent.fun(FakeStream(*events)))


def test_blocks_are_delivered_in_order_with_timestamps(app: faust.App, listener: FakeListener) -> None:
    consume(app, (0, 3, 1_700_000_000.123, b"x"), (2, 4, 0.0, b"elsewhere"), (0, 5, -0.001, None))
    assert listener.blocks == [(3, 1_700_000_000_123, b"k", b"x"), (5, -1, b"k", b"")]


def test_listener_error_is_reported_and_raised(app: faust.App, listener: FakeListener) -> None:
    listener.error = RuntimeError("a bug")
    with pytest.raises(RuntimeError):
        consume(app, (0, 3, 1.0, b"x"), (0, 4, 1.0, b"x"))
    assert listener.errors == [listener.error]


@pytest.mark.parametrize(
    ("assigned", "active"),
    [
        ([("stream-masker.calibration", 0)], True),
        ([("stream-masker.calibration", 1)], False),
        ([("another", 0)], False),
        ([], False),
    ],
)
def test_owner_of_partition_0_is_active(
    app: faust.App, listener: FakeListener, assigned: list[tuple[str, int]], active: bool
) -> None:
    places = {SimpleNamespaceTP(*place) for place in assigned}
    asyncio.run(app.on_partitions_assigned.send(places))
    asyncio.run(app.on_partitions_revoked.send(places))
    assert listener.roles == [active, None]


class SimpleNamespaceTP(tuple[str, int]):
    """A topic and partition."""

    __slots__ = ()

    def __new__(cls, topic: str, partition: int) -> SimpleNamespaceTP:
        return super().__new__(cls, (topic, partition))

    topic = property(lambda self: self[0])
    partition = property(lambda self: self[1])


async def _nothing(*_: object) -> None:
    """Ignore all arguments."""


def test_offsets_are_committed_and_forgotten_despite_gaps(app: faust.App) -> None:
    async def check() -> list[int | None]:
        consumer, tp = CommittedConsumer(app.transport, _nothing, _nothing, _nothing), TP("blocks", 0)
        found = []
        for first in range(0, 300, 30):
            for offset in range(first, first + 30, 3):
                consumer._acked[tp].append(offset)
                consumer._acked_index[tp].add(offset)
                await consumer._add_gap(tp, offset + 1, offset + 3)
            found.append(consumer._new_offset(tp))
            assert not any((consumer._acked[tp], consumer._acked_index[tp], consumer._gap[tp]))
        return [*found, consumer._new_offset(tp)]

    assert asyncio.run(check()) == [*range(28, 300, 30), None]


def test_wait_for_a_consumer_thread_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(faust_app, "LEAVE_GROUP_SECONDS", 0.1)
    assert CommittedThread.Worker is BoundedStopThread
    thread = BoundedStopThread(SimpleNamespace())
    assert thread.daemon
    thread.stop()
    assert not thread.is_stopped.is_set()


def test_consumer_that_does_not_stop_is_abandoned(monkeypatch: pytest.MonkeyPatch) -> None:
    started = []

    async def stop_never(self: object) -> None:
        started.append(self)
        await asyncio.sleep(3600)

    monkeypatch.setattr(faust_app, "LEAVE_GROUP_SECONDS", 0.1)
    monkeypatch.setattr(CommittedThread.__base__, "on_thread_stop", stop_never)
    thread = CommittedThread.__new__(CommittedThread)
    asyncio.run(asyncio.wait_for(CommittedThread.on_thread_stop(thread), 60))
    assert started == [thread]
