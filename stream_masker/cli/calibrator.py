"""``stream-masker calibrator``."""

from __future__ import annotations

from pathlib import Path

import click

from stream_masker.cli.options import config_option
from stream_masker.service.observability.logs import LOG_LEVELS, configure_logs


@click.command()
@config_option
@click.option(
    "--http-port",
    type=click.IntRange(0, 65_535),
    help="Instead of http.port, for several processes on one machine; 0 takes any free port and logs it.",
)
@click.option("--log-level", type=click.Choice(LOG_LEVELS), default="info", show_default=True, help="What to log.")
def command(config: Path, http_port: int | None, log_level: str) -> None:
    """Merge the workers' counts, and publish statistics and their drift, until told to stop (SIGTERM, SIGINT).

    One calibrator is active; others stand by, and /readyz says which. With no statistics yet it samples the input
    topic. Stopped or killed and started again, it goes on with the same window.

    The configuration file is watched: other noise levels, policies and references are published with the next
    version, which every worker takes up at a batch boundary; SIGHUP has the file read at once. A bad one is refused.

    A broker that does not answer is waited for; missing topics end the calibrator with exit code 1, a configuration
    that cannot be used with 2. Told to stop it ends within 25 seconds: in order with 0, or at once with 1.

    \b
    Examples:
      stream-masker calibrator --config discharges.yaml
      stream-masker calibrator --config discharges.yaml --http-port 0 --log-level debug
    """
    from stream_masker.service.calibrator.process import run_calibrator
    from stream_masker.service.configuration.reload import ConfigurationFile

    configure_logs(log_level)
    file = ConfigurationFile(config)
    run_calibrator(file.current, http_port=http_port, file=file)
