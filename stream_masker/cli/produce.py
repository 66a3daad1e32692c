"""``stream-masker produce``: publishing of events from a file, or of synthetic ones."""

from __future__ import annotations

from pathlib import Path
from typing import NoReturn

import click

from stream_masker.cli.options import ReportingCommand, config_option, information, summarise
from stream_masker.service.configuration import load_configuration
from stream_masker.service.events.publishing import PublishingSummary, produce, publish, synthetic_events, write_events
from stream_masker.service.events.synthetic import SyntheticDischarges
from stream_masker.service.files.outputs import refuse_same_file
from stream_masker.service.observability.progress import shown_activity


@click.command(cls=ReportingCommand)
@config_option
@click.option(
    "--rate", type=click.FloatRange(0, min_open=True), metavar="R", help="Records per second; default: full speed."
)
@click.option("--limit", type=click.IntRange(min=1), metavar="N", help="Stop after N records of FILE.")
@click.option("--synthetic", type=click.IntRange(min=1), metavar="N", help="Generate N events instead of reading FILE.")
@click.option(
    "--outbreak-after",
    type=click.IntRange(min=0),
    metavar="N",
    help="With --synthetic: after N events, 15 % of the principal diagnoses are influenza (in other ontologies: of the "
    "rarest block).",
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
    synthetic: int | None,
    outbreak_after: int | None,
    seed: int,
    out: str,
    file: Path | None,
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
      stream-masker produce --config discharges.yaml --synthetic 100000 --rate 2000 --outbreak-after 50000
      stream-masker produce --config discharges.yaml --synthetic 1000 --out events.jsonl
    """
    if (file is None) == (synthetic is None):
        raise click.UsageError("use either FILE or --synthetic")
    if out and synthetic is None:
        raise click.UsageError("--out is for --synthetic events; FILE is published")
    configuration = load_configuration(config)
    if file is not None:
        _finish(ctx, produce(configuration, file, stream=information(), rate=rate, limit=limit))
    records = synthetic or 0
    discharges = SyntheticDischarges(configuration, outbreak_after=outbreak_after, seed=seed)
    events = synthetic_events(discharges, records, configuration.produce.key)
    if out:
        refuse_same_file({"--config": str(config)}, {"--out": out})
    with shown_activity(information()) as show:
        if not out:
            _finish(ctx, publish(events, configuration, rate=rate, show=show))
        write_events(events, out, rate=rate, show=show)
    summarise(f"wrote {records:,} events to {out}", {"events": records, "file": out}, beside=out)


def _finish(ctx: click.Context, summary: PublishingSummary) -> NoReturn:
    figures = {name: getattr(summary, name) for name in ("topic", "delivered", "failed", "malformed", "seconds")}
    summarise(str(summary), figures)
    ctx.exit(1 if summary.failed else 0)
