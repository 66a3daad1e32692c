"""``stream-masker simulate``: publishing of synthetic events, or writing them to a file."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import click

from stream_masker.cli.options import ReportingCommand, config_option, for_topic, information, summarise, topic_option
from stream_masker.service.configuration import load_configuration
from stream_masker.service.events.simulate import SimulationOptions, simulate, simulate_to_file
from stream_masker.service.files.named import named_files
from stream_masker.service.files.outputs import refuse_same_file


@click.command(cls=ReportingCommand)
@config_option
@click.option(
    "--records", type=click.IntRange(min=1), default=10_000, show_default=True, metavar="N", help="Number of events."
)
@click.option("--rate", type=float, metavar="R", help="Events per second; default: full speed.")
@click.option(
    "--correlation",
    type=float,
    default=0.6,
    show_default=True,
    metavar="X",
    help="Probability that a secondary diagnosis depends on the principal one, from 0 to 1.",
)
@click.option(
    "--drift-after",
    type=click.IntRange(min=0),
    metavar="N",
    help="Number of events after which respiratory diseases (in other ontologies: other chapters) become frequent "
    "and the correlation is halved.",
)
@click.option(
    "--seed",
    type=click.IntRange(min=0),
    default=0,
    show_default=True,
    help="Seed; the same seed gives the same events.",
)
@topic_option
@click.option(
    "--out", metavar="FILE", help="Write JSON lines to FILE (- for standard output) instead of publishing; no broker."
)
@click.pass_context
def command(
    ctx: click.Context,
    config: Path,
    records: int,
    rate: float | None,
    correlation: float,
    drift_after: int | None,
    seed: int,
    topic: str,
    out: str | None,
) -> None:
    """Publish synthetic discharge events on the input topic, correlated and skewed like real ones.

    The codes are leaves of the configured ontologies, at the paths of the configuration. Patients return; none of them
    is real. Exits with 1 if Kafka did not accept every record.

    \b
    Examples:
      stream-masker simulate --config discharges.yaml --records 100000 --rate 2000 --drift-after 50000
      stream-masker simulate --config discharges.yaml --records 1000 --out events.jsonl
    """
    configuration = for_topic(load_configuration(config), topic)
    simulation = SimulationOptions(
        records=records, rate=rate, correlation=correlation, drift_after=drift_after, seed=seed
    )
    if out is not None:
        refuse_same_file({"--config": str(config), **named_files(configuration)}, {"--out": out})
        simulate_to_file(configuration, simulation, out, stream=information())
        summarise(f"wrote {records:,} events to {out}", {"events": records, "file": out}, beside=out)
        return
    summary = simulate(configuration, simulation, stream=information())
    summarise(str(summary), asdict(summary))
    ctx.exit(0 if summary.complete else 1)
