"""``stream-masker topics``: creation and checks of the configuration's topics."""

from __future__ import annotations

from pathlib import Path

import click

from stream_masker.cli.options import ReportingCommand, config_option, output, summarise
from stream_masker.errors import ServiceError
from stream_masker.service.configuration import load_configuration
from stream_masker.service.kafka.access import required_access
from stream_masker.service.kafka.topics import DEFAULT_PARTITIONS, prepare_topics

POSITIVE = click.IntRange(min=1)


@click.command(cls=ReportingCommand)
@config_option
@click.option("--partitions", type=POSITIVE, default=DEFAULT_PARTITIONS, show_default=True, help="Of new topics.")
@click.option("--replication-factor", type=POSITIVE, metavar="N", help="Of new topics; default: the broker's.")
@click.option("--acls", is_flag=True, help="Only print the access that each process and person needs.")
@click.option("--dry-run", is_flag=True, help="Only print what would be created.")
def command(config: Path, partitions: int, replication_factor: int | None, acls: bool, dry_run: bool) -> None:
    """Create missing topics with the right cleanup policies, and check existing ones.

    Prints one line per topic: created, exists, or wrong, with the remedy. If a topic is wrong, none is created and the
    exit code is 1. Input and output have the same number of partitions. With --acls, no broker is contacted.

    \b
    Examples:
      stream-masker topics --config discharges.yaml --partitions 8 --replication-factor 3
      stream-masker topics --config discharges.yaml --acls
    """
    configuration = load_configuration(config)
    if acls:
        rules = [*required_access(configuration)]
        output("\n".join(map(str, rules)), {"access": [rule._asdict() for rule in rules]})
        return
    lines = prepare_topics(configuration, partitions=partitions, replication_factor=replication_factor, dry_run=dry_run)
    figures = [{"topic": line.name, "status": line.status, "detail": line.detail} for line in lines]
    summarise("\n".join(map(str, lines)), {"topics": figures})
    wrong = sum(line.status == "wrong" for line in lines)
    if wrong:
        raise ServiceError(f"{wrong} of {len(lines)} topics do not meet the requirements")
