"""``stream-masker skip``: passing of a record that cannot be read."""

from __future__ import annotations

from pathlib import Path

import click

from stream_masker.cli.options import ReportingCommand, config_option, for_topic, summarise, topic_option
from stream_masker.service.configuration import load_configuration


@click.command(cls=ReportingCommand)
@config_option
@click.option(
    "--offset",
    "location",
    required=True,
    metavar="PARTITION:OFFSET",
    help="The partition and offset that /readyz of a worker names.",
)
@topic_option
def command(config: Path, location: str, topic: str) -> None:
    """Skip a record of the input that Kafka's client cannot read, and the records of its batch.

    Each is rejected with the reason `skipped`. Workers may run: they continue behind the records within seconds, log
    it and count it in stream_masker_records_skipped_total. A record that can be read is never skipped.

    \b
    Examples:
      stream-masker skip --config discharges.yaml --offset 0:1234
    """
    from stream_masker.service.audit import RecordLocation
    from stream_masker.service.skip import skip

    configuration = for_topic(load_configuration(config), topic)
    where = RecordLocation.parse(location)
    offsets = skip(configuration, where)
    summarise(
        f"skipped {len(offsets)} record(s) of partition {where.partition}: offsets {offsets[0]} to {offsets[-1]}",
        {"partition": where.partition, "offsets": list(offsets)},
    )
