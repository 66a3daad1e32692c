"""``stream-masker calibrator``: the calibrator process."""

from __future__ import annotations

import logging
from pathlib import Path

import click

from stream_masker.cli.options import ReportingCommand, config_option, configure_process_log
from stream_masker.service.configuration import load_configuration
from stream_masker.service.observability.logs import LOG_LEVELS

log = logging.getLogger(__name__)


@click.command(cls=ReportingCommand)
@config_option
@click.option(
    "--http-port",
    type=click.IntRange(0, 65_535),
    help="Port that overrides http.port, for several processes on one machine; 0 selects any free port and logs it.",
)
@click.option(
    "--log-level", type=click.Choice(LOG_LEVELS), default="info", show_default=True, help="Minimum log level."
)
def command(config: Path, http_port: int | None, log_level: str) -> None:
    """Merge the workers' counts and publish statistics and their drift, until SIGTERM or SIGINT.

    Of several processes, one is active and the others stand by; /readyz reports the role. Without statistics, a
    calibrator samples its input topics. After a stop or a crash, it continues with the same window.

    If no broker is reachable, the calibrator retries. It exits with 1 if topics are missing and with 2 if the
    configuration cannot be used. A stop takes at most 25 seconds; the exit code is 0, or 1 if it had to be forced.

    \b
    Examples:
      stream-masker calibrator --config discharges.yaml
      stream-masker calibrator --config discharges.yaml --http-port 0 --log-level debug
    """
    from stream_masker.service.calibrator.process import run_calibrator
    from stream_masker.service.configuration.parameters.defaults import mechanism_line

    configure_process_log(log_level)
    configuration = load_configuration(config)
    log.info(mechanism_line(configuration))
    run_calibrator(configuration, http_port=http_port)
