"""``stream-masker demo``: all of it in one command."""

from __future__ import annotations

import click
from rich.console import Console

from stream_masker.service.demo import DemoOptions, run_demo
from stream_masker.service.observability.logs import configure_logs

DEFAULT_RECORDS = DemoOptions()


@click.command()
@click.option(
    "--records",
    type=click.IntRange(min=100),
    default=DEFAULT_RECORDS.records,
    show_default=True,
    help="Events to generate; afterwards the demonstration ends.",
)
@click.option(
    "--rate",
    type=click.FloatRange(min=0),
    default=DEFAULT_RECORDS.rate,
    show_default=True,
    help="Events a second; 0 for full speed.",
)
@click.option(
    "--correlation",
    type=click.FloatRange(0, 1),
    default=DEFAULT_RECORDS.correlation,
    show_default=True,
    help="How much secondary diagnoses depend on the principal one; it halves when drift sets in.",
)
@click.option("--seed", type=int, default=DEFAULT_RECORDS.seed, show_default=True, help="Of the generated events.")
@click.option(
    "--bootstrap-servers",
    default="",
    metavar="HOST:PORT",
    help="A Kafka to use; default: an embedded broker, in memory.",
)
@click.option(
    "--port",
    type=click.IntRange(1, 65_534),
    default=DEFAULT_RECORDS.port,
    show_default=True,
    help="Of the calibrator's /metrics; the worker's is the next. Taken ports are replaced by free ones.",
)
def command(records: int, rate: float, correlation: float, seed: int, bootstrap_servers: str, port: int) -> None:
    """Simulate discharges, mask them, recalibrate, drift, and watch all of it live.

    Runs the same processes as a real deployment (simulate, worker, calibrator) on topics of its own. Half way through
    the diagnoses drift. All events are generated, which is why one may be shown before and after.

    \b
    Examples:
      stream-masker demo --records 20000
      stream-masker demo --records 100000 --rate 0 --bootstrap-servers localhost:9092
    """
    configure_logs("error")
    options = DemoOptions(
        records=records, rate=rate, correlation=correlation, seed=seed, bootstrap_servers=bootstrap_servers, port=port
    )
    run_demo(options, Console())
