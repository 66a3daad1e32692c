"""``stream-masker worker`` and ``calibrator``: the processes of the service."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from stream_masker.cli.options import ReportingCommand, config_option, is_given
from stream_masker.service.configuration import Configuration, load_configuration
from stream_masker.service.configuration.build import mechanism_line
from stream_masker.service.observability.logs import LOG_LEVELS, configure_logs

log = logging.getLogger(__name__)


def process_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add ``--config``, ``--http-port`` and ``--log-level``."""
    port = click.option("--http-port", type=click.IntRange(0, 65_535), help="Overrides http.port; 0: any free port.")
    levels = click.Choice(LOG_LEVELS)
    level = click.option("--log-level", type=levels, default="info", show_default=True, help="Level of the log.")
    return config_option(port(level(function)))


def loaded(config: Path, log_level: str) -> Configuration:
    """Configure the log, and return the configuration; its mechanism is logged."""
    configure_logs("warning" if is_given("quiet") else log_level, as_json=is_given("as_json"))
    configuration = load_configuration(config)
    log.info(mechanism_line(configuration))
    return configuration


@click.command(cls=ReportingCommand)
@process_options
def worker(config: Path, http_port: int | None, log_level: str) -> None:
    """Mask the input topic, record by record, until SIGTERM or SIGINT.

    Without statistics the worker holds, and /readyz gives the reason. Run at most as many workers as the input has
    partitions. Brokers that do not answer are waited for. The exit code is 1 if a topic is missing, and 2 if the
    configuration cannot be used. After a signal the worker ends within 25 seconds.

    \b
    Examples:
      stream-masker worker --config discharges.yaml --http-port 0 --log-level debug
    """
    from stream_masker.service.observability.http import HttpServer
    from stream_masker.service.observability.metrics import Health, process_registry
    from stream_masker.service.process import stop_on_signals
    from stream_masker.service.worker.run import run_worker

    configuration = loaded(config, log_level)
    stop, health = threading.Event(), Health()
    registry = process_registry("worker", health)
    stop_on_signals(stop)
    with HttpServer(configuration, health, registry, port=http_port):
        run_worker(configuration, registry=registry, health=health, stop=stop)


@click.command(cls=ReportingCommand)
@process_options
def calibrator(config: Path, http_port: int | None, log_level: str) -> None:
    """Merge the workers' counts and publish statistics and their drift, until SIGTERM or SIGINT.

    Of several processes, one is active and the others stand by; /readyz reports the role. Without statistics, a
    calibrator samples the input topic. Brokers that do not answer are waited for; the exit codes are those of `worker`.

    \b
    Examples:
      stream-masker calibrator --config discharges.yaml --http-port 0 --log-level debug
    """
    from stream_masker.service.calibrator.process import run_calibrator

    run_calibrator(loaded(config, log_level), http_port=http_port)
