"""``stream-masker worker``: the mask worker."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click

from stream_masker.cli.options import ReportingCommand, config_option, configure_process_log
from stream_masker.errors import StreamMaskerError
from stream_masker.service.configuration import load_configuration
from stream_masker.service.configuration.parameters.defaults import mechanism_line
from stream_masker.service.observability.logs import LOG_LEVELS
from stream_masker.service.runtime.process import infrequent_collections, stop_on_signals

log = logging.getLogger(__name__)


@click.command(cls=ReportingCommand)
@config_option
@click.option(
    "--http-port",
    type=click.IntRange(0, 65_535),
    help="Overrides http.port, for several workers on one machine. 0 selects a free port and logs it.",
)
@click.option("--log-level", type=click.Choice(LOG_LEVELS), default="info", show_default=True, help="Level of the log.")
def command(config: Path, http_port: int | None, log_level: str) -> None:
    """Mask the input topics, record by record, until SIGTERM or SIGINT.

    One transaction holds the masked records, rejections, calibration counts and offsets of a batch. Without
    statistics the worker holds, and /readyz gives the reason. Run at most as many workers as the input has
    partitions. Each needs its own transactional id, which worker.instance sets.

    The worker waits for brokers that do not answer. Exit code 1: a topic is missing. Exit code 2: the configuration
    cannot be used. After a signal the worker ends within 25 seconds, with exit code 0 after an orderly stop and
    otherwise with 1.

    \b
    Examples:
      stream-masker worker --config discharges.yaml
      stream-masker worker --config discharges.yaml --http-port 0 --log-level debug
    """
    from stream_masker.service.observability.health import Health, HttpServer
    from stream_masker.service.observability.http_access import http_access
    from stream_masker.service.observability.metrics import process_registry
    from stream_masker.service.observability.runbooks import runbook_pages
    from stream_masker.service.worker.run import run_worker

    configure_process_log(log_level)
    configuration = load_configuration(config)
    log.info(mechanism_line(configuration))
    http, stop = configuration.http, threading.Event()
    health = Health()
    registry = process_registry("worker", health)
    stop_on_signals(stop)
    server = HttpServer(
        host=http.host,
        port=http.port if http_port is None else http_port,
        health=health,
        registry=registry,
        pages=runbook_pages(),
        access=http_access(configuration),
    )
    with server, unexpected_logged(), infrequent_collections(configuration.worker.batch_records):
        run_worker(configuration, registry=registry, health=health, stop=stop)


@contextmanager
def unexpected_logged() -> Iterator[None]:
    """End the process with 1 on an unexpected exception. Log it without its text, which may quote a record."""
    try:
        yield
    except StreamMaskerError:
        raise
    except Exception as error:
        log.critical("the worker failed", exc_info=error)
        raise SystemExit(1) from None
