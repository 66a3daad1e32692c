"""``stream-masker demo``: the whole service in one command."""

from __future__ import annotations

import logging
from typing import Any

import click

from stream_masker.cli.options import ReportingCommand, information, is_given, output, tell
from stream_masker.service.demo.options import DemoOptions

DEFAULT_OPTIONS = DemoOptions()


@click.command(cls=ReportingCommand)
@click.option(
    "--records",
    type=click.IntRange(min=100),
    default=DEFAULT_OPTIONS.records,
    show_default=True,
    help="Number of events to generate; the demonstration ends after them.",
)
@click.option(
    "--rate",
    type=click.FloatRange(min=0),
    default=DEFAULT_OPTIONS.rate,
    show_default=True,
    help="Events per second; 0 for full speed.",
)
@click.option("--seed", type=int, default=DEFAULT_OPTIONS.seed, show_default=True, help="Seed of the generated events.")
@click.option(
    "--mechanism",
    type=click.Choice(["semantic_noise", "semantic_transport"]),
    default=DEFAULT_OPTIONS.mechanism,
    show_default=True,
    help="Mechanism that masks, with its default parameters.",
)
@click.option(
    "--bootstrap-servers",
    default="",
    metavar="HOST:PORT",
    help="Kafka brokers to use; default: an embedded in-memory broker.",
)
@click.option(
    "--port",
    type=click.IntRange(1, 65_534),
    default=DEFAULT_OPTIONS.port,
    show_default=True,
    help="Port of the calibrator's /metrics; the worker uses the next one. Ports in use are replaced by free ones.",
)
def command(**options: Any) -> None:
    """Mask generated discharges, and detect an outbreak of influenza among them.

    Runs the same processes as a real deployment, a worker and a calibrator, on topics of its own. Halfway through, the
    outbreak begins. All events are synthetic, so one of them is shown before and after masking.

    \b
    Examples:
      stream-masker demo --records 20000
      stream-masker demo --mechanism semantic_transport
      stream-masker demo --records 100000 --rate 0 --bootstrap-servers localhost:9092
    """
    demonstration = DemoOptions(**options)
    tell(f"loading the service, to mask {demonstration.records:,} synthetic events")
    run(demonstration)


def run(options: DemoOptions) -> None:
    """Import the service, which takes longer than the rest of the start, and run the demonstration."""
    from rich.console import Console

    from stream_masker.service.demo.run import run_demo

    logging.getLogger().setLevel(logging.ERROR)
    to_standard_output = not (is_given("quiet") or is_given("as_json"))
    summary = run_demo(options, Console(file=None if to_standard_output else information()))
    output(summary.text, summary.figures)
