"""The calibrator process: HTTP server, engine and Faust application, from start to stop."""

from __future__ import annotations

import asyncio
import logging
import signal
import threading
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any, cast

import faust
from confluent_kafka import KafkaException

from stream_masker.errors import ServiceError, StreamMaskerError
from stream_masker.service.calibrator.bootstrap import require_topics
from stream_masker.service.calibrator.components import CalibratorComponents, build_components
from stream_masker.service.calibrator.engine import STANDBY_REASON, CalibratorEngine
from stream_masker.service.calibrator.faust_app import build_app, limit_client_logs
from stream_masker.service.calibrator.metrics import initialise_counters
from stream_masker.service.calibrator.page import LivePage, fetched_page
from stream_masker.service.configuration import Configuration
from stream_masker.service.configuration.secret import warn_about_plain_topics
from stream_masker.service.kafka.broker_watch import COMPONENT as BROKERS
from stream_masker.service.kafka.broker_watch import REQUEST_SECONDS, watched_brokers
from stream_masker.service.kafka.clients import confluent_properties, connect_admin
from stream_masker.service.kafka.failures import NoBrokerError
from stream_masker.service.kafka.names import calibrator_group
from stream_masker.service.observability.health import Health, HttpServer
from stream_masker.service.observability.http_access import http_access
from stream_masker.service.observability.logs import RepeatFilter, describe
from stream_masker.service.observability.metrics import Metrics, process_registry
from stream_masker.service.observability.runbooks import runbook_pages
from stream_masker.service.runtime.process import exit_at_once, exit_within


def active_elsewhere(configuration: Configuration, health: Health) -> str | None:
    """Return the address of the active calibrator while this one stands by; None if it is not known."""
    if STANDBY_REASON not in health.notes:
        return None
    client = connect_admin({**confluent_properties(configuration), "log_level": 0, "error_cb": lambda _: None})
    [group] = client.describe_consumer_groups(
        [calibrator_group(configuration)], request_timeout=REQUEST_SECONDS
    ).values()
    try:
        members = group.result().members
    except KafkaException:
        return None
    return next((member.host.lstrip("/") for member in members if member.assignment.topic_partitions), None)


log = logging.getLogger(__name__)
log.addFilter(RepeatFilter())

CALIBRATOR_STALE_SECONDS = 300.0
"""The time without progress after which the process is not alive: a computation without processor time is stuck."""

STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT)

HEARTBEAT_SECONDS = 1.0
BROKER_RETRY_SECONDS = 5.0
STOP_SECONDS = 8.0
"""The time limit for stopping Faust, and then for stopping the engine."""

CANCEL_SECONDS = 1.0
"""The time limit for cancelled tasks to end."""


def run_calibrator(configuration: Configuration, *, http_port: int | None = None) -> None:
    """Run the calibrator until SIGTERM or SIGINT.

    ``http_port`` overrides the configuration's port. Raises ConfigurationError if the configuration or the HTTP port
    cannot be used, ServiceError if a topic is missing or the calibrator failed. If no broker is reachable, it retries.
    """
    http, health = configuration.http, Health(stale_after=CALIBRATOR_STALE_SECONDS)
    registry = process_registry("calibrator", health)
    access = http_access(configuration)
    page = LivePage(
        configuration,
        health,
        find_active=partial(active_elsewhere, configuration, health),
        fetch=partial(fetched_page, configuration, access),
    )
    server = HttpServer(
        host=http.host,
        port=http.port if http_port is None else http_port,
        health=health,
        registry=registry,
        pages={"/": page.html, **runbook_pages()},
        access=access,
    )
    with server, unexpected_errors_hidden(), exit_on_signals():
        limit_client_logs()
        warn_about_plain_topics(configuration)
        metrics = Metrics(registry, "calibrator")
        metrics.forget_gauges()
        initialise_counters(metrics)
        process = CalibratorProcess(build_components(configuration, page), metrics, health)
        run_and_cancel_rest(run_until_signal(process))
    if process.is_computing:
        exit_at_once()


async def run_until_signal(process: CalibratorProcess) -> None:
    """Run the calibrator until a signal. Raises its error."""
    handle_signals(process)
    await process.run()


def handle_signals(process: CalibratorProcess) -> None:
    """Stop on SIGTERM and SIGINT; only in the main thread."""

    def stop(number: signal.Signals) -> None:
        log.info("%s: stopping", number.name)
        exit_within()
        process.stop()

    if threading.current_thread() is threading.main_thread():
        loop = asyncio.get_running_loop()
        for number in STOP_SIGNALS:
            loop.add_signal_handler(number, stop, number)


@contextmanager
def unexpected_errors_hidden() -> Iterator[None]:
    """Convert an unexpected exception to a ServiceError without the exception's text, which may quote a record."""
    try:
        yield
    except StreamMaskerError:
        raise
    except Exception as error:  # noqa: BLE001 - reported without its text
        raise ServiceError(f"the calibrator failed: {describe(error)}") from None


@contextmanager
def exit_on_signals() -> Iterator[None]:
    """End the process with exit code 0 on SIGTERM and SIGINT during start, before the event loop handles them."""

    def exit_process(*_: object) -> None:
        raise SystemExit(0)

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    previous = {number: signal.signal(number, exit_process) for number in STOP_SIGNALS}
    try:
        yield
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)


def run_and_cancel_rest(main: Coroutine[Any, Any, None]) -> None:
    """Run ``main``, then cancel the remaining tasks, without waiting for those that do not end.

    ``asyncio.run`` waits for them, but tasks of a crashed application may ignore their cancellation.
    """
    loop = asyncio.new_event_loop()
    try:
        loop.run_until_complete(main)
    finally:
        remaining = asyncio.all_tasks(loop)
        for task in remaining:
            task.cancel()
        if remaining:
            loop.run_until_complete(asyncio.wait(remaining, timeout=CANCEL_SECONDS))
        loop.close()


class CalibratorProcess:
    """Runs the engine and a Faust application, which is replaced by a new one after a crash."""

    def __init__(self, components: CalibratorComponents, metrics: Metrics, health: Health) -> None:
        self._components = components
        self._health = health
        self._brokers = watched_brokers(components.configuration, health)
        self._engine = CalibratorEngine(components, metrics, health, self._on_failure)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop = asyncio.Event()
        self._error: BaseException | None = None
        self.is_computing = False

    async def run(self) -> None:
        """Run until stopped. Raises ServiceError like ``run_calibrator``."""
        self._loop = asyncio.get_running_loop()
        pulse = asyncio.create_task(self._pulse())
        self._engine.start()
        try:
            with self._brokers:
                while not self._stop.is_set():
                    await self._run_app()
        finally:
            self._health.reason("stop", "stopping")
            pulse.cancel()
            self.is_computing = not await asyncio.to_thread(self._engine.stop, STOP_SECONDS)
            log.info("stopped")
        self._raise_error()

    def stop(self) -> None:
        """Stop soon; called in the event loop."""
        self._stop.set()

    def _on_failure(self, error: BaseException) -> None:
        """Stop because of an error; called from any thread."""
        self._error = self._error or error
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._stop.set)

    def _raise_error(self) -> None:
        if self._error is not None:
            raise self._error

    async def _pulse(self) -> None:
        while True:
            self._engine.pulse()
            await asyncio.sleep(HEARTBEAT_SECONDS)

    async def _run_app(self) -> None:
        """Run one application until it crashes or the process stops."""
        if not await self._broker_reachable():
            return
        app = build_app(self._components.configuration, self._engine)
        starting = asyncio.create_task(app.start())
        try:
            await self._await_crash_or_stop(app, starting)
        finally:
            self._engine.revoked()
            await self._stop_app(app, starting)

    async def _broker_reachable(self) -> bool:
        """Return whether a broker is reachable and has the topics; if not, wait. Raises ServiceError if a topic is
        missing."""
        try:
            await asyncio.to_thread(require_topics, self._components.configuration)
        except NoBrokerError as error:
            log.warning("%s; retrying in %.0f s", error, BROKER_RETRY_SECONDS)
            self._health.reason(BROKERS, str(error))
            await self._pause(BROKER_RETRY_SECONDS)
            return False
        self._health.reason(BROKERS, None)
        self._health.reason("start", "joining the group")
        return not self._stop.is_set()

    async def _pause(self, seconds: float) -> None:
        with suppress(TimeoutError):
            await asyncio.wait_for(self._stop.wait(), seconds)

    async def _await_crash_or_stop(self, app: faust.App, starting: asyncio.Task[None]) -> None:
        while not self._stop.is_set():
            if (reason := crash_cause(app, starting)) is not None:
                log.warning("Faust stopped (%s); restarting it", describe(reason))
                self._health.reason("start", "Faust stopped")
                return await self._pause(BROKER_RETRY_SECONDS)
            await self._pause(HEARTBEAT_SECONDS)

    async def _stop_app(self, app: faust.App, starting: asyncio.Task[None]) -> None:
        if not await stop_app(app, starting) and not self._stop.is_set():
            self._on_failure(ServiceError("Faust crashed and did not stop"))


async def stop_app(app: faust.App, starting: asyncio.Task[None]) -> bool:
    """Stop an application; return False if it did not stop in time and is abandoned.

    Faust's services may ignore cancellation, so the wait for it is limited.
    """
    stopping = asyncio.ensure_future(app.stop())
    await asyncio.wait([stopping], timeout=STOP_SECONDS)
    stopping.cancel()
    starting.cancel()
    _, remaining = await asyncio.wait([stopping, starting], timeout=CANCEL_SECONDS)
    if remaining:
        log.warning("Faust did not stop within %.0f s; abandoning it", STOP_SECONDS + CANCEL_SECONDS)
    return not remaining


def crash_cause(app: faust.App, starting: asyncio.Task[None]) -> BaseException | None:
    """Return the exception that ended an application without a stop; None while it starts or runs."""
    if app.crashed:
        return cast(BaseException, app.crash_reason)
    return starting.exception() if starting.done() else None
