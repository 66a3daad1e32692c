"""``stream-masker produce``: publishing of events from a file."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import click

from stream_masker.cli.options import ReportingCommand, config_option, for_topic, information, summarise, topic_option
from stream_masker.service.configuration import load_configuration
from stream_masker.service.events.publishing import produce


@click.command(cls=ReportingCommand)
@config_option
@click.option("--rate", type=float, metavar="R", help="Records per second; default: full speed.")
@click.option("--limit", type=click.IntRange(min=1), metavar="N", help="Stop after N records.")
@topic_option
@click.option("--strict", is_flag=True, help="Stop at the first malformed line instead of skipping it.")
@click.argument("file", type=click.Path(path_type=Path))
@click.pass_context
def command(
    ctx: click.Context, config: Path, rate: float | None, limit: int | None, topic: str, strict: bool, file: Path
) -> None:
    """Publish the discharge events of FILE on the input topic.

    FILE is of any format that `mask` reads. JSON events are published unchanged. The columns of a table become fields
    by produce.columns, by default fields of the same names. Malformed lines are reported by number and skipped. Exits
    with 1 if Kafka did not accept every record.

    \b
    Examples:
      stream-masker produce --config discharges.yaml discharges.csv.gz
      stream-masker produce --config discharges.yaml --rate 500 events.jsonl
    """
    configuration = for_topic(load_configuration(config), topic)
    summary = produce(configuration, file, stream=information(), rate=rate, limit=limit, strict=strict)
    summarise(str(summary), asdict(summary))
    ctx.exit(0 if summary.complete else 1)
