"""``stream-masker topics``: the topics of the configuration."""

from __future__ import annotations

from pathlib import Path

import click

from stream_masker.cli.options import config_option
from stream_masker.errors import ServiceError
from stream_masker.service.configuration import load_configuration
from stream_masker.service.kafka.topics import BROKERS_DEFAULT, PARTITIONS, TopicAction, prepare_topics
from stream_masker.service.observability.logs import configure_logs


@click.command()
@config_option
@click.option(
    "--partitions",
    type=click.IntRange(min=1),
    default=PARTITIONS,
    show_default=True,
    metavar="N",
    help="Partitions of the input topic where it does not exist; the output has as many.",
)
@click.option(
    "--replication-factor",
    type=click.IntRange(min=1),
    metavar="N",
    help="Copies of each new topic; default: the broker's.",
)
@click.option("--dry-run", is_flag=True, help="Only say what would be created.")
def command(config: Path, partitions: int, replication_factor: int | None, dry_run: bool) -> None:
    """Create the topics that are missing, with the right clean-up policies, and check those that exist.

    A line for each: created, exists, or wrong and what to do about it. While one is wrong, none is created, and the
    exit code is 1.

    \b
    Examples:
      stream-masker topics --config discharges.yaml --dry-run
      stream-masker topics --config discharges.yaml --partitions 8 --replication-factor 3
    """
    configure_logs("warning")
    lines = prepare_topics(
        load_configuration(config),
        partitions=partitions,
        replication_factor=replication_factor or BROKERS_DEFAULT,
        dry_run=dry_run,
    )
    for line in lines:
        click.echo(line)
    wrong = sum(line.fate is TopicAction.WRONG for line in lines)
    if wrong:
        raise ServiceError(f"{wrong} of {len(lines)} topics cannot be used as they are")
