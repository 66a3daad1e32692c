"""Log levels of Faust and its Kafka client, and limits of their repeated lines. No line contains a message's bytes."""

from __future__ import annotations

import logging
from collections.abc import Callable

from stream_masker.service.observability.repeats import RepeatFilter

log = logging.getLogger(__name__)

NOISY_LOGGERS = ("faust", "mode", "asyncio", "aiokafka")
"""Loggers whose debug records contain whole messages, so debug level is never enabled for them."""

FAUST_CLIENT_LOGGER = "aiokafka"
"""The logger of Faust's Kafka client."""


def limit_client_logs() -> None:
    """Reduce the logs of Faust and the Kafka clients to what users can act on; with debug logs, keep more of them.

    The calibrator logs crashes of Faust itself.
    """
    debug = log.isEnabledFor(logging.DEBUG)
    for name in NOISY_LOGGERS:
        logging.getLogger(name).setLevel(logging.INFO if debug else logging.CRITICAL)
    if not debug:
        client = logging.getLogger(FAUST_CLIENT_LOGGER)
        client.setLevel(logging.ERROR)
        client.handlers, client.propagate = [RelayHandler(RepeatFilter())], False


class RelayHandler(logging.Handler):
    """Logs the records that pass a filter as warnings of this module, without tracebacks."""

    def __init__(self, passes: Callable[[logging.LogRecord], bool]) -> None:
        super().__init__()
        self.addFilter(passes)

    def emit(self, record: logging.LogRecord) -> None:
        log.warning("Kafka: %s", record.getMessage())
