"""The calibrator process: failures, logs of other libraries, the Faust application, and input samples."""

from __future__ import annotations

import asyncio
import logging
import threading
from contextlib import nullcontext, suppress
from types import SimpleNamespace

import pytest

from stream_masker.errors import ConfigurationError, ServiceError
from stream_masker.service.calibrator import process
from stream_masker.service.calibrator.process import (
    crash_cause,
    run_and_cancel_rest,
    run_calibrator,
    stop_app,
    unexpected_errors_hidden,
)
from stream_masker.service.configuration import Configuration


def test_shutdown_does_not_wait_for_stubborn_tasks(monkeypatch: pytest.MonkeyPatch) -> None:
    """It would wait forever: the task never ends."""

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
    logging.getLogger("asyncio").setLevel(logging.CRITICAL)
    monkeypatch.setattr(process, "CANCEL_SECONDS", 0.01)
    run_and_cancel_rest(main())
    assert not tasks[0].done()


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


def test_exception_that_ended_an_application_is_found() -> None:
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
        ({"sasl.mechanism": "GSSAPI", "security.protocol": "SASL_PLAINTEXT"}, r"sasl\.mechanism is not supported"),
        ({"sasl.mechanism": "OAUTHBEARER", "security.protocol": "SASL_PLAINTEXT"}, r"method must be oidc"),
    ],
)
def test_invalid_properties_are_a_configuration_error(
    configuration: Configuration, monkeypatch: pytest.MonkeyPatch, properties: dict[str, str], message: str
) -> None:
    kafka = configuration.kafka.model_copy(update={"properties": properties})
    if "no.such.property" not in properties:
        monkeypatch.setattr("stream_masker.service.calibrator.process.require_topics", lambda _: None)
        monkeypatch.setattr("stream_masker.service.calibrator.process.watched_brokers", lambda *_: nullcontext())
    with pytest.raises(ConfigurationError, match=message) as caught:
        run_calibrator(configuration.model_copy(update={"kafka": kafka}), http_port=0)
    assert "SECRET" not in str(caught.value)


@pytest.mark.usefixtures("restored_loggers")
@pytest.mark.parametrize("ended", [True, False])
def test_a_computation_that_goes_on_does_not_abort_the_process(
    configuration: Configuration, monkeypatch: pytest.MonkeyPatch, ended: bool
) -> None:
    async def stopped(running: process.CalibratorProcess) -> None:
        running.stop()
        await running.run()

    exits: list[bool] = []
    monkeypatch.setattr(process, "watched_brokers", lambda *_: nullcontext())
    monkeypatch.setattr(process, "run_until_signal", stopped)
    monkeypatch.setattr(process, "exit_at_once", lambda: exits.append(True))
    monkeypatch.setattr(process.CalibratorEngine, "start", lambda _: None)
    monkeypatch.setattr(process.CalibratorEngine, "stop", lambda *_: ended)
    run_calibrator(configuration, http_port=0)
    assert bool(exits) is not ended
