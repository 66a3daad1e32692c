"""``stream-masker audit``: is a masked record what it has to be?"""

from __future__ import annotations

from pathlib import Path

import click

from stream_masker.cli.options import config_option
from stream_masker.service.configuration import load_configuration
from stream_masker.service.observability.logs import configure_logs


@click.command()
@config_option
@click.option(
    "--offset",
    "places",
    multiple=True,
    required=True,
    metavar="PARTITION:OFFSET",
    help="The place of a record in the input topic; may be given several times.",
)
def command(config: Path, places: tuple[str, ...]) -> None:
    """Derive the mask of input records once more, and say whether what was written matches.

    The mask is derived from the input record, the secret, the key and the statistics version that the masked record's
    headers name; a rejection from the record and the configuration. No value is shown. Ends with exit code 1 when one
    of the records does not match.

    \b
    Examples:
      stream-masker audit --config discharges.yaml --offset 0:1234
      stream-masker audit --config discharges.yaml --offset 0:1234 --offset 3:17
    """
    from stream_masker.service.audit import RecordPlace, audit

    configure_logs("warning")
    matching = True
    for finding in audit(load_configuration(config), [RecordPlace.parse(text) for text in places]):
        matching &= finding.matches
        click.echo(f"{finding.place}: {'matches' if finding.matches else 'DOES NOT MATCH'}: {finding.words}")
    raise SystemExit(0 if matching else 1)
