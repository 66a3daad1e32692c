"""The calibrator as a process: its HTTP server, its engine, and the Faust application, from start to stop."""

from __future__ import annotations

import asyncio
import logging
import signal
import threading
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager, suppress
from typing import Any, cast

import faust
from prometheus_client import CollectorRegistry

from stream_masker.errors import ServiceError, StreamMaskerError
from stream_masker.service.calibrator.bootstrap import NoBrokerError, require_topics
from stream_masker.service.calibrator.client_logs import limit_client_logs
from stream_masker.service.calibrator.components import CalibratorComponents, build_components
from stream_masker.service.calibrator.engine import CalibratorEngine
from stream_masker.service.calibrator.faust_app import build_app
from stream_masker.service.calibrator.session import prepare_session
from stream_masker.service.configuration import Configuration
from stream_masker.service.configuration.reload import ConfigurationFile
from stream_masker.service.observability.health import Health, HttpServer
from stream_masker.service.observability.logs import describe
from stream_masker.service.observability.metrics import Metrics
from stream_masker.service.shutdown import exit_within

log = logging.getLogger(__name__)

STALE_SECONDS = 300.0
"""Seconds without a turn after which the process is not alive; a large window may take long to compute."""

SIGNALS = (signal.SIGTERM, signal.SIGINT)

HEARTBEAT_SECONDS = 1.0
BROKER_RETRY_SECONDS = 5.0
STOP = 8.0
"""Seconds in which Faust, and then the engine, may stop."""

LEAVE_SECONDS = 1.0
"""Seconds in which what was cancelled may end."""


def run_calibrator(
    configuration: Configuration, *, http_port: int | None = None, file: ConfigurationFile | None = None
) -> None:
    """Runs until SIGTERM or SIGINT. ``http_port``: instead of the configuration's; ``file``: that it stands in, whose
    settings are taken up when it changes, or at SIGHUP.

    Raises ConfigurationError when the configuration or the HTTP port cannot be used, ServiceError when a topic is
    missing or the calibrator failed. A broker that does not answer is waited for.
    """
    registry, health, http = CollectorRegistry(), Health(stale_after=STALE_SECONDS), configuration.http
    port = http.port if http_port is None else http_port
    with (
        HttpServer(host=http.host, port=port, health=health, registry=registry),
        unexpected_errors_logged(),
        ended_by_signals(),
    ):
        limit_client_logs()
        metrics = Metrics(registry, "calibrator")
        prepare_session(metrics)
        run_to_end(CalibratorProcess(build_components(configuration), metrics, health, file).run())


@contextmanager
def unexpected_errors_logged() -> Iterator[None]:
    """Makes an unforeseen exception a ServiceError without its text, which may quote a record."""
    try:
        yield
    except StreamMaskerError:
        raise
    except Exception as error:  # noqa: BLE001 - whatever it is, its text is not to be seen
        raise ServiceError(f"the calibrator failed: {describe(error)}") from None


@contextmanager
def ended_by_signals() -> Iterator[None]:
    """Lets SIGTERM and SIGINT end the process with 0 while it starts, before its loop listens to them."""

    def leave(*_: object) -> None:
        raise SystemExit(0)

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.signal(number, leave) for number in SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def run_to_end(main: Coroutine[Any, Any, None]) -> None:
    """Runs ``main``, then cancels what it left. Unlike ``asyncio.run`` it does not wait for those that will not end:
    tasks of an application that crashed may swallow their cancellation.
    """
    loop = asyncio.new_event_loop()
    try:
        loop.run_until_complete(main)
    finally:
        left = asyncio.all_tasks(loop)
        for task in left:
            task.cancel()
        if left:
            loop.run_until_complete(asyncio.wait(left, timeout=LEAVE_SECONDS))
        loop.close()


class CalibratorProcess:
    """The engine and, one after another, the Faust applications that drive it."""

    def __init__(
        self, parts: CalibratorComponents, metrics: Metrics, health: Health, file: ConfigurationFile | None = None
    ) -> None:
        self._parts = parts
        self._health = health
        self._engine = CalibratorEngine(parts, metrics, health, self._on_failure, file)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop = asyncio.Event()
        self._error: BaseException | None = None

    async def run(self) -> None:
        """Raises ServiceError like ``run_calibrator``."""
        self._loop = asyncio.get_running_loop()
        self._listen_to_signals(self._loop)
        pulse = asyncio.create_task(self._pulse())
        self._engine.start()
        try:
            while not self._stop.is_set():
                await self._serve()
        finally:
            self._health.reason("stop", "stopping")
            pulse.cancel()
            await asyncio.to_thread(self._engine.stop, STOP)
            log.info("stopped")
        self._report()

    def _listen_to_signals(self, loop: asyncio.AbstractEventLoop) -> None:
        if threading.current_thread() is threading.main_thread():
            for number in SIGNALS:
                loop.add_signal_handler(number, self._told_to_stop, number)
            loop.add_signal_handler(signal.SIGHUP, self._engine.reload)

    def _told_to_stop(self, number: signal.Signals) -> None:
        log.info("%s: stopping", number.name)
        exit_within()
        self._stop.set()

    def _on_failure(self, error: BaseException) -> None:
        """Called from any thread."""
        self._error = self._error or error
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._stop.set)

    def _report(self) -> None:
        if self._error is not None:
            raise self._error

    async def _pulse(self) -> None:
        while True:
            self._engine.pulse()
            await asyncio.sleep(HEARTBEAT_SECONDS)

    async def _serve(self) -> None:
        """One application, until it crashes or is to stop."""
        if not await self._broker_answers():
            return
        app = build_app(self._parts.configuration, self._engine)
        starting = asyncio.create_task(app.start())
        try:
            await self._crash_or_stop(app, starting)
        finally:
            self._engine.revoked()
            await self._end(app, starting)

    async def _broker_answers(self) -> bool:
        """Whether a broker answers and has the topics; if not, waits a while. Raises ServiceError for no topic."""
        try:
            await asyncio.to_thread(require_topics, self._parts.configuration)
        except NoBrokerError as error:
            log.warning("%s; trying again in %.0f s", error, BROKER_RETRY_SECONDS)
            self._health.reason("start", str(error))
            await self._pause(BROKER_RETRY_SECONDS)
            return False
        self._health.reason("start", "joining the group")
        return not self._stop.is_set()

    async def _pause(self, seconds: float) -> None:
        with suppress(TimeoutError):
            await asyncio.wait_for(self._stop.wait(), seconds)

    async def _crash_or_stop(self, app: faust.App, starting: asyncio.Task[None]) -> None:
        while not self._stop.is_set():
            if (reason := cause_of_crash(app, starting)) is not None:
                log.warning("Faust stopped (%s); starting it again", describe(reason))
                self._health.reason("start", "Faust stopped")
                return await self._pause(BROKER_RETRY_SECONDS)
            await self._pause(HEARTBEAT_SECONDS)

    async def _end(self, app: faust.App, starting: asyncio.Task[None]) -> None:
        if not await stopped(app, starting) and not self._stop.is_set():
            self._on_failure(ServiceError("Faust crashed and did not stop"))


async def stopped(app: faust.App, starting: asyncio.Task[None]) -> bool:
    """Stops an application; False: it would not, and is left behind.

    Faust's services may swallow being cancelled, so nothing here waits for that.
    """
    stopping = asyncio.ensure_future(app.stop())
    await asyncio.wait([stopping], timeout=STOP)
    stopping.cancel()
    starting.cancel()
    _, left = await asyncio.wait([stopping, starting], timeout=LEAVE_SECONDS)
    if left:
        log.warning("Faust did not stop within %.0f s: left behind", STOP + LEAVE_SECONDS)
    return not left


def cause_of_crash(app: faust.App, starting: asyncio.Task[None]) -> BaseException | None:
    """What ended an application that nobody stopped; None while it starts or runs."""
    if app.crashed:
        return cast(BaseException, app.crash_reason)
    return starting.exception() if starting.done() else None
