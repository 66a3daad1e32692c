"""``stream-masker audit``: verification of the masks of single records, and a look at the latest ones."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import click

from stream_masker.cli.options import ReportingCommand, config_option, output, summarise, tell
from stream_masker.service.configuration import Configuration, load_configuration

VERDICTS = {True: "matches", False: "DOES NOT MATCH"}
PLACE = "PARTITION:OFFSET"


@click.command(cls=ReportingCommand)
@config_option
@click.option("--offset", "locations", multiple=True, metavar=PLACE, help="An input record to verify; repeatable.")
@click.option("--records", type=click.IntRange(1), default=5, show_default=True, help="How many to show.")
def command(config: Path, locations: tuple[str, ...], records: int) -> None:
    """Show the latest masked records, or verify single ones with --offset.

    Without --offset, prints sMean, sVar and sdCor of the statistics that masked the latest records, and below them the
    records. Nothing is committed.

    With --offset, derives the masks of input records again and compares them with what was written. A mask is derived
    from the input record, the secret, the key and the statistics version that the headers of the masked record name; a
    rejection is derived from the record and the configuration. No value is shown. Exits with 1 if a record does not
    match.

    \b
    Examples:
      stream-masker audit --config discharges.yaml --records 3
      stream-masker audit --config discharges.yaml --offset 0:1234 --offset 3:17
    """
    configuration = load_configuration(config)
    if locations:
        _verify(configuration, locations)
    else:
        _show(configuration, records)


def _verify(configuration: Configuration, locations: tuple[str, ...]) -> None:
    from stream_masker.service.audit import RecordLocation, audit

    results = list(audit(configuration, [RecordLocation.parse(text) for text in locations]))
    lines = (f"{check.location}: {VERDICTS[check.matches]}: {check.description}" for check in results)
    summarise("\n".join(lines), {"records": [asdict(check) for check in results]})
    if not all(check.matches for check in results):
        raise click.exceptions.Exit(1)


def _show(configuration: Configuration, records: int) -> None:
    from stream_masker.service.audit import latest_lines, latest_records

    latest, versions = latest_records(configuration, records)
    shown = {"records": latest, "statistics": list(versions.values())}
    output("\n".join(latest_lines(latest, versions)), shown)
    if not latest:
        tell(f"{configuration.topics.output} has no records yet: see `stream-masker worker`")
