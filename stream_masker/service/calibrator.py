"""The calibrator as a process: its HTTP server, its engine, and the Faust application, from start to stop."""

from __future__ import annotations

import asyncio
import logging
import math
import signal
import threading
import time
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any, cast

import faust
from prometheus_client import CollectorRegistry

from stream_masker.errors import ServiceError, StreamMaskerError
from stream_masker.service.bootstrap import NoBrokerError, require_topics
from stream_masker.service.calibrator_app import build_app
from stream_masker.service.calibrator_engine import Engine
from stream_masker.service.calibrator_parts import Parts, build_parts
from stream_masker.service.calibrator_session import prepare
from stream_masker.service.configuration import Configuration
from stream_masker.service.health import Health, HttpServer
from stream_masker.service.logs import describe
from stream_masker.service.metrics import Metrics

log = logging.getLogger(__name__)

STALE = 300.0
"""Seconds without a turn after which the process is not alive; a large window may take long to compute."""

PULSE = 1.0
RETRY = 5.0
STOP = 10.0
LEFT = 1.0

QUIET = ("faust", "mode", "asyncio")
"""Loggers that say nothing that a user can use: that Faust crashed, we say ourselves."""

SELDOM = 30.0
"""Seconds between two messages of aiokafka, which tells every attempt of every part to reach a broker that is gone."""


def run_calibrator(configuration: Configuration) -> None:
    """Runs until SIGTERM or SIGINT.

    Raises ConfigurationError when the configuration or the HTTP port cannot be used, ServiceError when a topic is
    missing or the calibrator failed. A broker that does not answer is waited for.
    """
    registry, health = CollectorRegistry(), Health(stale_after=STALE)
    http = configuration.http
    with HttpServer(host=http.host, port=http.port, health=health, registry=registry):
        quieten()
        metrics = Metrics(registry, "calibrator")
        prepare(metrics)
        run_to_end(Process(build_parts(configuration), metrics, health).run())


def quieten() -> None:
    """Keeps the logs of Faust and what it stands on to what a user can use, unless debug logs are on."""
    if log.isEnabledFor(logging.DEBUG):
        return
    for name in QUIET:
        logging.getLogger(name).setLevel(logging.CRITICAL)
    client = logging.getLogger("aiokafka")
    client.setLevel(logging.ERROR)
    client.handlers, client.propagate = [Seldom()], False


class Seldom(logging.Handler):
    """Passes on what it is told once in ``SELDOM`` seconds, as a warning of ours."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._clock = clock
        self._next = -math.inf

    def emit(self, record: logging.LogRecord) -> None:
        if self._clock() >= self._next:
            self._next = self._clock() + SELDOM
            log.warning("Kafka: %s", record.getMessage())


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
            loop.run_until_complete(asyncio.wait(left, timeout=LEFT))
        loop.close()


class Process:
    """The engine and, one after another, the Faust applications that drive it."""

    def __init__(self, parts: Parts, metrics: Metrics, health: Health) -> None:
        self._parts = parts
        self._health = health
        self._engine = Engine(parts, metrics, health, self._on_failure)
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
        self._report()

    def _listen_to_signals(self, loop: asyncio.AbstractEventLoop) -> None:
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGTERM, signal.SIGINT):
                loop.add_signal_handler(number, self._stop.set)

    def _on_failure(self, error: BaseException) -> None:
        """Called from any thread."""
        self._error = self._error or error
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._stop.set)

    def _report(self) -> None:
        if isinstance(self._error, StreamMaskerError):
            raise self._error
        if self._error is not None:
            raise ServiceError(f"the calibrator failed: {describe(self._error)}") from self._error

    async def _pulse(self) -> None:
        while True:
            self._engine.pulse()
            await asyncio.sleep(PULSE)

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
            log.warning("%s; trying again in %.0f s", error, RETRY)
            self._health.reason("start", str(error))
            await self._pause(RETRY)
            return False
        self._health.reason("start", "joining the group")
        return not self._stop.is_set()

    async def _pause(self, seconds: float) -> None:
        with suppress(TimeoutError):
            await asyncio.wait_for(self._stop.wait(), seconds)

    async def _crash_or_stop(self, app: faust.App, starting: asyncio.Task[None]) -> None:
        while not self._stop.is_set():
            if (reason := why_crashed(app, starting)) is not None:
                log.warning("Faust stopped (%s); starting it again", describe(reason))
                self._health.reason("start", "Faust stopped")
                return await self._pause(RETRY)
            await self._pause(PULSE)

    async def _end(self, app: faust.App, starting: asyncio.Task[None]) -> None:
        with suppress(TimeoutError):
            await asyncio.wait_for(app.stop(), STOP)
        starting.cancel()
        await asyncio.gather(starting, return_exceptions=True)


def why_crashed(app: faust.App, starting: asyncio.Task[None]) -> BaseException | None:
    """What ended an application that nobody stopped; None while it starts or runs."""
    if app.crashed:
        return cast(BaseException, app.crash_reason)
    return starting.exception() if starting.done() else None
