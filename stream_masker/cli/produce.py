"""``stream-masker produce``: publishing of events from a file, or of synthetic ones."""

from __future__ import annotations

from pathlib import Path

import click

from stream_masker.cli.options import ReportingCommand, config_option, information, summarise
from stream_masker.service.configuration import load_configuration
from stream_masker.service.events.publishing import publish, publish_file, synthetic_events, write_events
from stream_masker.service.events.synthetic import SyntheticDischarges
from stream_masker.service.files.outputs import refuse_same_file

POSITIVE = click.IntRange(min=1)
RATE = click.FloatRange(0, min_open=True)
FIGURES = ("topic", "delivered", "failed", "malformed", "seconds")
"""What ``--json`` has of a publication."""


@click.command(cls=ReportingCommand)
@config_option
@click.option("--rate", type=RATE, metavar="R", help="Records per second; default: full speed.")
@click.option("--synthetic", type=POSITIVE, metavar="N", help="Generate N events instead of reading FILE.")
@click.option("--outbreak-after", type=click.IntRange(0), metavar="N", help="With --synthetic: begin an outbreak then.")
@click.option("--out", default="", metavar="FILE", help="With --synthetic: write JSON lines to FILE; no broker.")
@click.argument("file", type=click.Path(path_type=Path), required=False)
def command(
    config: Path, rate: float | None, synthetic: int | None, outbreak_after: int | None, out: str, file: Path | None
) -> None:
    """Publish the discharge events of FILE, or synthetic ones, on the input topic.

    FILE is of any format that `mask` reads. JSON events are published unchanged. The columns of a table become fields
    of the same names. Malformed lines are reported by number and skipped. Exits with 1 if Kafka did not accept every
    record.

    With --synthetic, the events are generated: correlated and skewed like real ones, with leaves of the configured
    ontologies at the paths of the configuration. Patients return; none of them is real.

    \b
    Examples:
      stream-masker produce --config discharges.yaml discharges.csv.gz
      stream-masker produce --config discharges.yaml --rate 500 events.jsonl
      stream-masker produce --config discharges.yaml --synthetic 100000 --rate 2000
      stream-masker produce --config discharges.yaml --synthetic 1000 --out events.jsonl
    """
    if (file is None) == (synthetic is None):
        raise click.UsageError("use either FILE or --synthetic")
    if file is not None and (out or outbreak_after is not None):
        raise click.UsageError("--out and --outbreak-after are for --synthetic events; FILE is published")
    configuration = load_configuration(config)
    if file is not None:
        done = publish_file(configuration, str(file), stream=information(), rate=rate)
    else:
        refuse_same_file({"--config": str(config)}, {"--out": out})
        discharges = SyntheticDischarges(configuration, outbreak_after=outbreak_after)
        events = synthetic_events(discharges, synthetic or 0, configuration.produce.key)
        if out:
            write_events(events, out, stream=information(), rate=rate)
            summarise(f"wrote {synthetic:,} events to {out}", {"events": synthetic, "file": out}, beside=out)
            return
        done = publish(events, configuration, stream=information(), rate=rate)
    summarise(str(done), {name: getattr(done, name) for name in FIGURES})
    if done.failed:
        raise click.exceptions.Exit(1)
