"""``stream-masker topics``: creation and checks of the configuration's topics."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import click

from stream_masker.cli.options import ReportingCommand, config_option, output, summarise
from stream_masker.errors import ServiceError
from stream_masker.service.configuration import Configuration, load_configuration
from stream_masker.service.kafka.names import DEFAULT_PRINCIPALS, PrincipalRole, required_access
from stream_masker.service.kafka.requirements import DEFAULT_PARTITIONS
from stream_masker.service.kafka.topics import BROKER_DEFAULT_REPLICATION, TopicStatus, prepare_topics


def _parse_principals(
    _context: click.Context, _option: click.Parameter, given: tuple[str, ...]
) -> Mapping[PrincipalRole, str]:
    """Return the principals of all roles."""
    principals = dict(DEFAULT_PRINCIPALS)
    for text in given:
        role, separator, principal = text.partition("=")
        if role not in list(PrincipalRole) or not separator or ":" not in principal:
            raise click.BadParameter(
                f"{text!r} is not ROLE=PRINCIPAL with a role of {', '.join(PrincipalRole)} "
                "and a principal such as User:name"
            )
        principals[PrincipalRole(role)] = principal
    return principals


def _print_acls(configuration: Configuration, principals: Mapping[PrincipalRole, str]) -> None:
    servers = configuration.kafka.bootstrap_servers
    commands = [rule.command(servers, principals[rule.role]) for rule in required_access(configuration)]
    output("\n".join(commands), {"commands": commands})


@click.command(cls=ReportingCommand)
@config_option
@click.option(
    "--partitions",
    type=click.IntRange(min=1),
    default=DEFAULT_PARTITIONS,
    show_default=True,
    metavar="N",
    help="Partitions of a new input topic; its output topic has the same number.",
)
@click.option(
    "--replication-factor",
    type=click.IntRange(min=1),
    metavar="N",
    help="Replication factor of new topics; default: the broker's.",
)
@click.option(
    "--acls",
    is_flag=True,
    help="Only print the kafka-acls.sh commands that give each principal the access it needs, and no other.",
)
@click.option(
    "--principal",
    "principals",
    multiple=True,
    metavar="ROLE=PRINCIPAL",
    callback=_parse_principals,
    help="Principal of a role in --acls, such as worker=User:masker; repeatable. Roles: "
    f"{', '.join(PrincipalRole)}. Default: User:stream-masker-ROLE.",
)
@click.option("--dry-run", is_flag=True, help="Only print what would be created.")
def command(
    config: Path,
    partitions: int,
    replication_factor: int | None,
    dry_run: bool,
    acls: bool,
    principals: Mapping[PrincipalRole, str],
) -> None:
    """Create missing topics with the right cleanup policies, and check existing ones.

    Prints one line per topic: created, exists, or wrong, with the remedy. If a topic is wrong, none is
    created and the exit code is 1. With --acls, no broker is contacted.

    \b
    Examples:
      stream-masker topics --config discharges.yaml --dry-run
      stream-masker topics --config discharges.yaml --partitions 8 --replication-factor 3
      stream-masker topics --config discharges.yaml --acls --principal worker=User:masker | sh
    """
    configuration = load_configuration(config)
    if acls:
        _print_acls(configuration, principals)
        return
    lines = prepare_topics(
        configuration,
        partitions=partitions,
        replication_factor=replication_factor or BROKER_DEFAULT_REPLICATION,
        dry_run=dry_run,
    )
    figures = [{"topic": line.name, "status": str(line.status), "detail": line.detail} for line in lines]
    summarise("\n".join(map(str, lines)), {"topics": figures})
    wrong = sum(line.status is TopicStatus.WRONG for line in lines)
    if wrong:
        raise ServiceError(f"{wrong} of {len(lines)} topics do not meet the requirements")
