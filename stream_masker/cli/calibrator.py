"""``stream-masker calibrator``."""

from __future__ import annotations

from pathlib import Path

import click

from stream_masker.cli.options import config_option
from stream_masker.service.configuration import load_configuration
from stream_masker.service.logs import LEVELS, configure_logs


@click.command()
@config_option
@click.option(
    "--log-level",
    type=click.Choice(LEVELS),
    default="info",
    show_default=True,
    help="How much to log on standard error.",
)
def command(config: Path, log_level: str) -> None:
    """Run the calibrator: it merges the workers' counts, and publishes statistics and their drift.

    One calibrator is active; more of them stand by and take over. With no statistics yet it samples the input topic.
    Serves /metrics, /healthz and /readyz at http.host and http.port. SIGTERM stops it.

    \b
    Examples:
      stream-masker calibrator --config discharges.yaml
      STREAM_MASKER__HTTP__PORT=9465 stream-masker calibrator --config discharges.yaml
    """
    from stream_masker.service.calibrator import run_calibrator

    configure_logs(log_level)
    run_calibrator(load_configuration(config))
