"""The calibrator process: failures, logs of other libraries, the Faust application, and input samples."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from copy import copy
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import faust
import numpy as np
import pytest
import yaml
from faust.types import TP

from stream_masker.core.batch import Batch, Column
from stream_masker.core.statistics.counts import Counts, count_batch
from stream_masker.errors import ConfigurationError, ServiceError
from stream_masker.pipeline.calibration.window import CalibrationSettings
from stream_masker.service.calibrator import faust_app, process
from stream_masker.service.calibrator.bootstrap import InputSample
from stream_masker.service.calibrator.client_logs import (
    CLIENT_LOGGERS,
    NOISY_LOGGERS,
    RateLimit,
    RelayHandler,
    limit_client_logs,
)
from stream_masker.service.calibrator.faust_app import (
    BoundedStopThread,
    CommittedConsumer,
    CommittedThread,
    CommittedTransport,
    build_app,
    calibrator_group,
)
from stream_masker.service.calibrator.process import (
    crash_cause,
    run_and_cancel_rest,
    run_calibrator,
    stop_app,
    unexpected_errors_hidden,
)
from stream_masker.service.configuration import Configuration, load_configuration


@pytest.fixture
def configuration(tmp_path: Path) -> Configuration:
    (tmp_path / "ontology.csv").write_text("concept,parent\na,\nb,a\n")
    content = {
        "kafka": {"bootstrap_servers": "one:9092, two:9093"},
        "ontologies": {"letters": {"source": "ontology.csv"}},
        "attributes": {"one": {"path": "one", "ontology": "letters"}},
        "mechanism": {"reference": "mean"},
        "fields": {"unlisted": "drop"},
    }
    (tmp_path / "stream-masker.yaml").write_text(yaml.safe_dump(content))
    return load_configuration(tmp_path / "stream-masker.yaml", {})


class FakeListener:
    def __init__(self) -> None:
        self.blocks: list[tuple[int, int, bytes]] = []
        self.roles: list[bool | None] = []
        self.errors: list[BaseException] = []
        self.error: Exception | None = None

    def assigned(self, *, active: bool) -> None:
        self.roles.append(active)

    def revoked(self) -> None:
        self.roles.append(None)

    async def deliver(self, offset: int, timestamp: int, value: bytes) -> None:
        if self.error is not None:
            raise self.error
        self.blocks.append((offset, timestamp, value))

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
            message = SimpleNamespace(partition=partition, offset=offset, timestamp=timestamp, value=value)
            yield SimpleNamespace(message=message)


def consume(app: faust.App, *events: tuple[int, int, float, bytes | None]) -> None:
    (agent,) = app.agents.values()
    asyncio.run(agent.fun(FakeStream(*events)))


def test_blocks_are_delivered_in_order_with_timestamps(app: faust.App, listener: FakeListener) -> None:
    consume(app, (0, 3, 1_700_000_000.123, b"x"), (2, 4, 0.0, b"elsewhere"), (0, 5, -0.001, None))
    assert listener.blocks == [(3, 1_700_000_000_123, b"x"), (5, -1, b"")]


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


def test_shutdown_does_not_wait_for_stubborn_tasks() -> None:
    async def stubborn() -> None:
        while True:
            try:
                await asyncio.sleep(3600)
            except asyncio.CancelledError:
                continue

    async def main() -> None:
        tasks.append(asyncio.create_task(stubborn()))
        await asyncio.sleep(0)

    tasks: list[asyncio.Task[None]] = []
    start = time.monotonic()
    logging.getLogger("asyncio").setLevel(logging.CRITICAL)
    run_and_cancel_rest(main())
    assert time.monotonic() - start < 60
    assert not tasks[0].done()


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


def test_application_that_does_not_stop_is_abandoned(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def stubborn() -> None:
        while not give_up.is_set():
            with suppress(asyncio.CancelledError):
                await asyncio.sleep(0.05)

    async def check() -> tuple[bool, bool]:
        started = asyncio.create_task(asyncio.sleep(0))
        willing, unwilling = SimpleNamespace(stop=lambda: asyncio.sleep(0)), SimpleNamespace(stop=stubborn)
        both = await stop_app(willing, started), await stop_app(unwilling, started)
        give_up.set()
        return both

    give_up = threading.Event()
    monkeypatch.setattr(process, "STOP_SECONDS", 0.1)
    monkeypatch.setattr(process, "CANCEL_SECONDS", 0.1)
    assert asyncio.run(check()) == (True, False)
    assert "abandoning it" in caplog.text


def test_wait_for_a_consumer_thread_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(faust_app, "LEAVE_GROUP_SECONDS", 0.1)
    assert CommittedThread.Worker is BoundedStopThread
    thread = BoundedStopThread(SimpleNamespace())
    assert thread.daemon
    thread.stop()
    assert not thread.is_stopped.is_set()


def test_consumer_that_does_not_stop_is_abandoned(monkeypatch: pytest.MonkeyPatch) -> None:
    async def stop_never(self: object) -> None:
        await asyncio.sleep(3600)

    monkeypatch.setattr(faust_app, "LEAVE_GROUP_SECONDS", 0.1)
    monkeypatch.setattr(CommittedThread.__base__, "on_thread_stop", stop_never)
    asyncio.run(asyncio.wait_for(CommittedThread.on_thread_stop(CommittedThread.__new__(CommittedThread)), 60))


def test_crash_cause() -> None:
    async def check() -> list[BaseException | None]:
        error = RuntimeError("Faust's")

        async def fail() -> None:
            raise error

        running, failed = asyncio.create_task(asyncio.sleep(0.01)), asyncio.create_task(fail())
        await asyncio.sleep(0)
        well, crashed = SimpleNamespace(crashed=False), SimpleNamespace(crashed=True, crash_reason=error)
        found = [crash_cause(well, running), crash_cause(well, failed), crash_cause(crashed, running)]
        await running
        return [*found, crash_cause(well, running), error]

    running, failed, crashed, started, error = asyncio.run(check())
    assert (running, started) == (None, None)
    assert failed is crashed is error


def test_unexpected_error_is_reported_without_its_text() -> None:
    with pytest.raises(ServiceError, match="the calibrator failed: KeyError at ") as caught, unexpected_errors_hidden():
        raise KeyError("SECRET")
    assert "SECRET" not in str(caught.value)
    with pytest.raises(ConfigurationError, match="as it is"), unexpected_errors_hidden():
        raise ConfigurationError("as it is")


def test_port_in_use_is_a_configuration_error(configuration: Configuration) -> None:
    import socket

    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with pytest.raises(ConfigurationError, match=r"http\.port"):
            run_calibrator(configuration, http_port=taken.getsockname()[1])


@pytest.mark.usefixtures("restored_loggers")
@pytest.mark.parametrize(
    ("properties", "message"),
    [
        ({"no.such.property": "SECRET"}, r"kafka\.properties cannot be used: No such configuration property"),
        ({"sasl.mechanism": "OAUTHBEARER", "security.protocol": "SASL_PLAINTEXT"}, r"sasl\.mechanism is not supported"),
    ],
)
def test_invalid_properties_are_a_configuration_error(
    configuration: Configuration, monkeypatch: pytest.MonkeyPatch, properties: dict[str, str], message: str
) -> None:
    kafka = configuration.kafka.model_copy(update={"properties": properties})
    if "no.such.property" not in properties:
        monkeypatch.setattr("stream_masker.service.calibrator.process.require_topics", lambda _: None)
    with pytest.raises(ConfigurationError, match=message) as caught:
        run_calibrator(configuration.model_copy(update={"kafka": kafka}), http_port=0)
    assert "SECRET" not in str(caught.value)


@pytest.fixture
def restored_loggers() -> Iterator[None]:
    """Restore the loggers of other libraries afterwards."""
    names = ("level", "handlers", "propagate", "filters")
    loggers = [logging.getLogger(name) for name in {*NOISY_LOGGERS, *CLIENT_LOGGERS}]
    states = [{name: copy(getattr(logger, name)) for name in names} for logger in loggers]
    yield
    for logger, state in zip(loggers, states, strict=True):
        vars(logger).update(state)
        logger.manager._clear_cache()


@pytest.mark.usefixtures("restored_loggers")
def test_debug_logs_of_other_libraries_are_never_enabled(caplog: pytest.LogCaptureFixture) -> None:
    for level in (logging.DEBUG, logging.INFO):
        with caplog.at_level(level):
            limit_client_logs()
            assert not any(logging.getLogger(name).isEnabledFor(logging.DEBUG) for name in NOISY_LOGGERS)


@pytest.mark.usefixtures("restored_loggers")
def test_repeated_client_messages_are_rate_limited(caplog: pytest.LogCaptureFixture) -> None:
    now = [100.0]
    relay = RelayHandler(RateLimit(clock=lambda: now[0]))
    with caplog.at_level(logging.WARNING):
        for now[0] in (100.0, 101.0, 129.9, 130.0, 131.0):
            relay.handle(logging.makeLogRecord({"msg": "no node %d", "args": (round(now[0]),)}))
    assert [record.getMessage() for record in caplog.records] == ["Kafka: no node 100", "Kafka: no node 130"]


@pytest.mark.usefixtures("restored_loggers")
@pytest.mark.parametrize("name", ["aiokafka.conn", "stream_masker.kafka"])
def test_client_logger_is_rate_limited(name: str, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        limit_client_logs()
        for _ in range(100):
            logging.getLogger(name).error("no broker")
    assert len(caplog.records) == 1


def some(records: int) -> Counts:
    return count_batch(Batch(records, (Column(np.zeros(records, dtype=np.int32)),)), (2,))


def test_sample_is_complete_when_it_fills_the_window() -> None:
    sample = InputSample(CalibrationSettings(window_records=30, min_records=10, every_seconds=60))
    sample.add(some(20), now=0)
    assert (sample.remaining, sample.is_complete(59)) == (10, False)
    sample.add(some(10), now=1)
    assert sample.is_complete(1)
    assert sample.counts().records == 30


def test_sample_is_complete_every_seconds_after_min_records() -> None:
    sample = InputSample(CalibrationSettings(window_records=30, min_records=10, every_seconds=60))
    sample.add(some(9), now=0)
    assert not sample.is_complete(1000)
    sample.add(some(1), now=1000)
    sample.add(some(1), now=1050)
    assert not sample.is_complete(1059.9)
    assert sample.is_complete(1060)
