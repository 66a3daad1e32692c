"""The calibrator process: HTTP server and Faust application, from start to stop."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import cast

import faust

from stream_masker.errors import ServiceError, StreamMaskerError
from stream_masker.service.calibrator.application import Driver, build_app
from stream_masker.service.calibrator.components import CalibratorComponents, build_components
from stream_masker.service.calibrator.metrics import initialise_counters
from stream_masker.service.configuration import Configuration
from stream_masker.service.kafka.clients import await_brokers, watched_brokers
from stream_masker.service.kafka.reader import require_topics
from stream_masker.service.observability.health import Health
from stream_masker.service.observability.http import HttpServer
from stream_masker.service.observability.logs import RepeatFilter, describe
from stream_masker.service.observability.metrics import Metrics, process_registry
from stream_masker.service.runtime.process import exit_at_once, stop_on_signals

log = logging.getLogger(__name__)
log.addFilter(RepeatFilter())

STALE_SECONDS = 300.0
"""The time without a heartbeat of the event loop after which the process is not alive."""

WATCH_SECONDS = 0.5
STOP_SECONDS = 8.0
"""The time limit for stopping Faust, which waits for a broker to leave its group."""

NOISY_LOGGERS = ("faust", "mode", "asyncio", "aiokafka")
"""Loggers whose debug records contain whole messages, so debug level is never enabled for them."""

CLIENT_LOGGER = "aiokafka"
"""The logger of Faust's Kafka client."""


def run_calibrator(configuration: Configuration, *, http_port: int | None = None) -> None:
    """Run the calibrator until SIGTERM or SIGINT. ``http_port`` overrides the configuration's port.

    Raises ConfigurationError if the configuration or the HTTP port cannot be used, ServiceError if a topic is missing
    or the calibrator failed. If no broker is reachable, it retries.
    """
    health, stop = Health(stale_after=STALE_SECONDS), threading.Event()
    stop_on_signals(stop)
    registry = process_registry("calibrator", health)
    with HttpServer(configuration, health, registry, port=http_port), unexpected_errors_hidden():
        limit_client_logs()
        metrics = Metrics(registry, "calibrator")
        metrics.forget_gauges()
        initialise_counters(metrics)
        components = build_components(configuration)
        with watched_brokers(configuration, health):
            if await_brokers(lambda: _has_topics(configuration), health, lambda seconds: not stop.wait(seconds)):
                health.reason("start", "joining the group")
                asyncio.run(_run(components, metrics, health, stop))


def _has_topics(configuration: Configuration) -> bool:
    """Raise NoBrokerError if no broker answers, and ServiceError if a topic is missing; otherwise return True."""
    require_topics(configuration, configuration.topics.internal.values())
    return True


async def _run(components: CalibratorComponents, metrics: Metrics, health: Health, stop: threading.Event) -> None:
    """Run the application until the process stops. Raises its error."""
    driver = Driver(components, metrics, health)
    app = build_app(components.configuration, driver)
    starting = asyncio.create_task(app.start())
    while not stop.is_set() and _crash_cause(app, starting) is None:
        await asyncio.sleep(WATCH_SECONDS)
    error = _crash_cause(app, starting)
    health.reason("stop", "stopping")
    driver.revoked()
    stopping = asyncio.ensure_future(app.stop())
    _, running = await asyncio.wait([stopping, starting], timeout=STOP_SECONDS, return_when=asyncio.ALL_COMPLETED)
    log.info("stopped")
    if error is not None and not stop.is_set():
        raise error
    if driver.is_computing or running:
        exit_at_once()


def _crash_cause(app: faust.App, starting: asyncio.Task[None]) -> BaseException | None:
    """Return the exception that ended an application without a stop; None while it starts or runs."""
    if app.crashed:
        return cast(BaseException, app.crash_reason)
    return starting.exception() if starting.done() else None


def limit_client_logs() -> None:
    """Reduce the logs of Faust and its Kafka client to what users can act on; with debug logs, keep more of them."""
    debug = log.isEnabledFor(logging.DEBUG)
    for name in NOISY_LOGGERS:
        logging.getLogger(name).setLevel(logging.INFO if debug else logging.CRITICAL)
    if not debug:
        client = logging.getLogger(CLIENT_LOGGER)
        client.setLevel(logging.ERROR)
        client.handlers, client.propagate = [RelayHandler(RepeatFilter())], False


class RelayHandler(logging.Handler):
    """Logs the records that pass a filter as warnings of this module, without tracebacks."""

    def __init__(self, passes: Callable[[logging.LogRecord], bool]) -> None:
        super().__init__()
        self.addFilter(passes)

    def emit(self, record: logging.LogRecord) -> None:
        log.warning("Kafka: %s", record.getMessage())


@contextmanager
def unexpected_errors_hidden() -> Iterator[None]:
    """Convert an unexpected exception to a ServiceError without the exception's text, which may quote a record."""
    try:
        yield
    except StreamMaskerError:
        raise
    except Exception as error:  # noqa: BLE001 - reported without its text
        raise ServiceError(f"the calibrator failed: {describe(error)}") from None
