"""The calibrator process, from start to stop."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from stream_masker.errors import ServiceError, StreamMaskerError
from stream_masker.service.calibrator.application import run_application
from stream_masker.service.calibrator.bootstrap import build_components
from stream_masker.service.calibrator.driver import Driver
from stream_masker.service.calibrator.metrics import initialise_counters
from stream_masker.service.configuration import Configuration
from stream_masker.service.kafka.clients import await_brokers, watched_brokers
from stream_masker.service.kafka.reader import require_topics
from stream_masker.service.observability.health import Health
from stream_masker.service.observability.http import HttpServer
from stream_masker.service.observability.logs import RepeatFilter, describe
from stream_masker.service.observability.metrics import Metrics, process_registry
from stream_masker.service.process import exit_at_once, stop_on_signals

log = logging.getLogger(__name__)
log.addFilter(RepeatFilter())

STALE_SECONDS = 300.0
"""The time without a heartbeat of the event loop after which the process is not alive."""

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
        driver = Driver(build_components(configuration), metrics, health)
        topics = configuration.topics.internal.values()
        with watched_brokers(configuration, health):
            if await_brokers(lambda: require_topics(configuration, topics), health, lambda s: not stop.wait(s)):
                health.reason("start", "joining the group")
                in_time = asyncio.run(run_application(configuration, driver, stop))
                log.info("stopped")
                if driver.is_computing or not in_time:
                    exit_at_once()


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
