"""``stream-masker produce``: publishing of events from a file, or of synthetic ones."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import click

from stream_masker.cli.options import ReportingCommand, config_option, for_topic, information, summarise, topic_option
from stream_masker.service.configuration import load_configuration
from stream_masker.service.configuration.model import Configuration
from stream_masker.service.events.publishing import produce
from stream_masker.service.events.simulate import SimulationOptions, simulate, simulate_to_file
from stream_masker.service.files.named import named_files
from stream_masker.service.files.outputs import refuse_same_file


@click.command(cls=ReportingCommand)
@config_option
@click.option("--rate", type=float, metavar="R", help="Records per second; default: full speed.")
@click.option("--limit", type=click.IntRange(min=1), metavar="N", help="Stop after N records of FILE.")
@topic_option
@click.option("--strict", is_flag=True, help="Stop at the first malformed line of FILE instead of skipping it.")
@click.option("--synthetic", type=click.IntRange(min=1), metavar="N", help="Generate N events instead of reading FILE.")
@click.option(
    "--drift-after",
    type=click.IntRange(min=0),
    metavar="N",
    help="With --synthetic: after N events, respiratory diseases (in other ontologies: other chapters) become frequent "
    "and the correlation is halved.",
)
@click.option(
    "--seed",
    type=click.IntRange(min=0),
    default=0,
    show_default=True,
    help="With --synthetic: the same seed gives the same events.",
)
@click.option(
    "--out",
    default="",
    metavar="FILE",
    help="With --synthetic: write JSON lines to FILE (- for standard output) instead of publishing; no broker.",
)
@click.argument("file", type=click.Path(path_type=Path), required=False)
@click.pass_context
def command(
    ctx: click.Context,
    config: Path,
    rate: float | None,
    limit: int | None,
    topic: str,
    strict: bool,
    synthetic: int | None,
    drift_after: int | None,
    seed: int,
    out: str,
    file: Path | None,
) -> None:
    """Publish the discharge events of FILE, or synthetic ones, on the input topic.

    FILE is of any format that `mask` reads. JSON events are published unchanged. The columns of a table become fields
    by produce.columns, by default fields of the same names. Malformed lines are reported by number and skipped. Exits
    with 1 if Kafka did not accept every record.

    With --synthetic, the events are generated: correlated and skewed like real ones, with leaves of the configured
    ontologies at the paths of the configuration. Patients return; none of them is real.

    \b
    Examples:
      stream-masker produce --config discharges.yaml discharges.csv.gz
      stream-masker produce --config discharges.yaml --rate 500 events.jsonl
      stream-masker produce --config discharges.yaml --synthetic 100000 --rate 2000 --drift-after 50000
      stream-masker produce --config discharges.yaml --synthetic 1000 --out events.jsonl
    """
    if (file is None) == (synthetic is None):
        raise click.UsageError("use either FILE or --synthetic")
    if out and synthetic is None:
        raise click.UsageError("--out is for --synthetic events; FILE is published")
    configuration = for_topic(load_configuration(config), topic)
    if file is not None:
        summary = produce(configuration, file, stream=information(), rate=rate, limit=limit, strict=strict)
    else:
        simulation = SimulationOptions(records=synthetic or 0, rate=rate, drift_after=drift_after, seed=seed)
        if out:
            _write(configuration, simulation, config, out)
            return
        summary = simulate(configuration, simulation, stream=information())
    summarise(str(summary), asdict(summary))
    ctx.exit(0 if summary.complete else 1)


def _write(configuration: Configuration, simulation: SimulationOptions, config: Path, out: str) -> None:
    refuse_same_file({"--config": str(config), **named_files(configuration)}, {"--out": out})
    simulate_to_file(configuration, simulation, out, stream=information())
    summarise(f"wrote {simulation.records:,} events to {out}", {"events": simulation.records, "file": out}, beside=out)
