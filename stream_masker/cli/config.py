"""``stream-masker config``: checking and showing the configuration."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import click

from stream_masker.cli.options import config_option
from stream_masker.errors import ConfigurationError
from stream_masker.service.configuration import Configuration, load_configuration, load_schema, schema_names
from stream_masker.service.configuration.display import redacted_yaml
from stream_masker.service.configuration.secret import read_secret, topic_seal


@click.group()
def command() -> None:
    """Check and show the configuration.

    \b
    Examples:
      stream-masker config check --config discharges.yaml
      stream-masker config show --config discharges.yaml
      stream-masker config schema
    """


@command.command()
@config_option
def check(config: Path) -> None:
    """Check the configuration.

    Checks the file, the environment's overrides, ontologies, roots, mapping files, the mechanism's parameters and the
    names and values of librdkafka's properties.
    Prints the ids of the keys of the internal topics, which are the same for all processes.
    Exits with 0 if the configuration is valid, otherwise with 2 and one line per problem. A missing secret is only a
    warning, because the machine that runs the check need not be the one that masks.

    \b
    Examples:
      stream-masker config check --config discharges.yaml
      STREAM_MASKER__TOPICS__INPUT=admissions stream-masker config check -c discharges.yaml
    """
    from stream_masker.service.configuration.build import build_mechanism, build_plan
    from stream_masker.service.kafka.clients import confluent_properties
    from stream_masker.service.kafka.failures import check_properties

    configuration = load_configuration(config)
    check_properties(confluent_properties(configuration))
    plan, mechanism = build_plan(configuration), build_mechanism(configuration)
    for attribute in plan.attributes:
        click.echo(f"{attribute.name}: {attribute.path} masked within {len(attribute.concepts.taxonomy)} concepts")
    for number in plan.numeric:
        click.echo(f"{number.name}: {number.path} masked as a number in [{number.kind.lower:g}, {number.kind.upper:g}]")
    if mechanism.needs_group:
        least, most = mechanism.group_minimum, configuration.groups.records
        click.echo(f"{mechanism.name}: groups of at least {least} and at most {most} records of one partition")
    for line in _secret_lines(configuration):
        click.echo(line)
    click.echo(f"{config}: the configuration is valid (hash {configuration.hash})")


def _secret_lines(configuration: Configuration) -> Iterator[str]:
    """Yield the ids of the keys of the internal topics; print a warning for each secret that is missing."""
    problems = set()
    try:
        read_secret(configuration)
    except ConfigurationError as error:
        problems.add(str(error))
    try:
        yield _internal_topics(topic_seal(configuration, configuration.topics.statistics).key_ids)
    except ConfigurationError as error:
        problems.add(str(error))
    for problem in sorted(problems):
        click.echo(f"Warning: {problem}", err=True)


def _internal_topics(key_ids: list[str]) -> str:
    if not key_ids:
        return "internal topics: not encrypted"
    current, *previous = key_ids
    return f"internal topics: encrypted, key {current}" + (f", also read: {', '.join(previous)}" if previous else "")


@command.command()
@click.argument("name", default="configuration", metavar="[NAME]")
def schema(name: str) -> None:
    """Print a JSON Schema.

    Prints the JSON Schema (2020-12) of the configuration (default) or of the message NAME.

    \b
    Names: configuration, masked-event, rejection, calibration-block, statistics, drift

    \b
    Examples:
      stream-masker config schema > configuration.schema.json
      stream-masker config schema rejection
    """
    if name not in schema_names():
        raise click.BadParameter(f"unknown schema {name!r}: use {', '.join(schema_names())}", param_hint="NAME")
    click.echo(json.dumps(load_schema(name), indent=2, ensure_ascii=False))


@command.command()
@config_option
def show(config: Path) -> None:
    """Print the complete configuration.

    Prints YAML with the environment's overrides and all defaults; passwords are shown as ********.

    \b
    Examples:
      stream-masker config show --config discharges.yaml
    """
    click.echo(redacted_yaml(load_configuration(config)), nl=False)
