"""``stream-masker audit``: verification of the masks of single records."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import click

from stream_masker.cli.options import ReportingCommand, config_option, for_topic, summarise, topic_option
from stream_masker.service.configuration import load_configuration


@click.command(cls=ReportingCommand)
@config_option
@click.option(
    "--offset",
    "locations",
    multiple=True,
    required=True,
    metavar="PARTITION:OFFSET",
    help="The partition and offset of a record in the input topic. Can be repeated.",
)
@topic_option
def command(config: Path, locations: tuple[str, ...], topic: str) -> None:
    """Derive the masks of input records again and compare them with what was written.

    A mask is derived from the input record, the secret, the key and the statistics version that the headers of the
    masked record name; a rejection is derived from the record and the configuration. No value is shown. Exits with 1 if
    a record does not match.

    \b
    Examples:
      stream-masker audit --config discharges.yaml --offset 0:1234
      stream-masker audit --config discharges.yaml --offset 0:1234 --offset 3:17
    """
    from stream_masker.service.audit import RecordLocation, audit

    configuration = for_topic(load_configuration(config), topic)
    results = list(audit(configuration, [RecordLocation.parse(text) for text in locations]))
    verdict = {True: "matches", False: "DOES NOT MATCH"}
    lines = (f"{check.location}: {verdict[check.matches]}: {check.description}" for check in results)
    summarise("\n".join(lines), {"records": [asdict(check) for check in results]})
    raise SystemExit(0 if all(check.matches for check in results) else 1)
