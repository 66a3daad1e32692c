"""``stream-masker show``: masked records beside their statistics."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import click

from stream_masker.cli.options import ReportingCommand, config_option, for_topic, output, tell, topic_option
from stream_masker.service.configuration import load_configuration


@click.command(cls=ReportingCommand)
@config_option
@click.option(
    "--records", type=click.IntRange(1), default=5, show_default=True, metavar="N", help="Number of masked records."
)
@topic_option
def command(config: Path, records: int, topic: str) -> None:
    """Show the latest masked records of the output topic beside the statistics that masked them.

    Prints sMean, sVar and sdCor of each statistics version, with those of the masked records and RMSE once they are
    known, and below it the records. Figures are rounded as section `publication` says. With --json, one line has all
    of it. Nothing is committed.

    \b
    Examples:
      stream-masker show --config discharges.yaml
      stream-masker show --config discharges.yaml --records 100 --json
    """
    from stream_masker.service.show import shown_lines, shown_records

    configuration = for_topic(load_configuration(config), topic)
    shown, versions = shown_records(configuration, records)
    figures = {
        "records": [asdict(record) for record in shown],
        "statistics": [version.to_dict() for version in versions],
    }
    output("\n".join(shown_lines(shown, versions)), figures)
    if not shown:
        tell(f"{configuration.topics.output} has no records yet: see `stream-masker worker`")
