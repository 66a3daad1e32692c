"""``stream-masker config``: checking and showing the configuration."""

from __future__ import annotations

import secrets
import shlex
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import click

from stream_masker.cli import SuggestingGroup
from stream_masker.cli.options import config_option, information, summarise, warn
from stream_masker.cli.options import output as write_output
from stream_masker.errors import ConfigurationError
from stream_masker.service.configuration import Configuration, load_configuration
from stream_masker.service.configuration.display import redacted_configuration, redacted_yaml
from stream_masker.service.configuration.secret import own_secret_id, topic_seal

SAMPLE_EVENTS = 10_000
"""The number of events that ``check`` and ``init`` read."""


UNLISTED_KEPT = (
    "fields.unlisted is keep: whatever producers add to events is written unmasked; list the fields to keep, and use "
    "drop"
)


@click.group(cls=SuggestingGroup)
def command() -> None:
    """Propose, check and show the configuration.

    \b
    Examples:
      stream-masker config init --events events.jsonl -o stream-masker.yaml
      stream-masker config check --config discharges.yaml
      stream-masker config show --config discharges.yaml
    """


@command.command()
@config_option
@click.option(
    "--events",
    default="",
    metavar="FILE",
    help="Events of any format that mask reads; show what happens to each of their fields.",
)
def check(config: Path, events: str) -> None:
    """Check the configuration.

    Checks the file, the environment's overrides, ontologies, roots, mapping files, the mechanism's parameters and the
    names and values of librdkafka's properties.
    Prints the id of the secret and those of the keys of the internal topics, which are the same for all processes.
    Exits with 0 if the configuration is valid, otherwise with 2 and one line per problem. A missing secret is only a
    warning, because the machine that runs the check need not be the one that masks.

    With --events, prints a line for each field of the first 10,000 events: its path, the share of events that have it,
    and its treatment; then the rejections by reason. Values are not shown. Objects that are kept whole are named with a
    warning, and so is `unlisted: keep`: they are written with all that producers add to them.

    \b
    Examples:
      stream-masker config check --config discharges.yaml
      stream-masker config check --config discharges.yaml --events last-month.jsonl.gz
      STREAM_MASKER__TOPICS__INPUT=admissions stream-masker config check -c discharges.yaml
    """
    from stream_masker.service.kafka.clients import confluent_properties
    from stream_masker.service.kafka.errors import check_properties
    from stream_masker.service.observability.progress import shown_activity

    configuration = load_configuration(config)
    check_properties(confluent_properties(configuration))
    with shown_activity(information()) as show:
        show("loading the ontologies")
        masking = list(_masking_lines(configuration))
    if configuration.fields.unlisted == "keep":
        warn(UNLISTED_KEPT)
    keys = list(_secret_lines(configuration))
    covered = _coverage(configuration, events) if events else []
    valid = f"{config}: the configuration is valid (hash {configuration.hash})"
    figures = {"valid": True, "hash": configuration.hash, "masking": masking, "secrets": keys, "events": covered}
    write_output("\n".join((*masking, *keys, *covered, valid)), figures)


def _masking_lines(configuration: Configuration) -> Iterator[str]:
    """Yield how records are masked: a line for each attribute, and the mechanism."""
    from stream_masker.service.configuration.build import build_mechanism, build_plan
    from stream_masker.service.configuration.parameters.defaults import mechanism_line

    plan, mechanism = build_plan(configuration), build_mechanism(configuration)
    for attribute in plan.attributes:
        yield f"{attribute.name}: {attribute.path} masked within {len(attribute.concepts.taxonomy)} concepts"
    yield mechanism_line(configuration)
    if mechanism.needs_group:
        least, most = mechanism.group_minimum, configuration.groups.records
        yield f"{mechanism.name}: groups of at least {least} and at most {most} records of one partition"


def _coverage(configuration: Configuration, events: str) -> list[str]:
    from stream_masker.pipeline.masker import RecordMasker
    from stream_masker.service.configuration.build import build_mechanism, build_plan
    from stream_masker.service.files.coverage import coverage_report
    from stream_masker.service.files.events import open_events
    from stream_masker.service.formats.wire_format import file_format
    from stream_masker.service.observability.progress import shown_activity

    plan = build_plan(configuration)
    of_records = file_format(configuration)
    masker = RecordMasker(plan, build_mechanism(configuration), secrets.token_bytes(32), record_format=of_records)
    opened = open_events(events, configuration.produce, configuration.records)
    with shown_activity(information()) as show, opened as file:
        show(f"reading {Path(events).name}")
        return list(coverage_report(plan, masker, islice(file.events, SAMPLE_EVENTS), of_records))


def _secret_lines(configuration: Configuration) -> Iterator[str]:
    """Yield the ids of the secret and of the keys of the topics; print a warning for each secret that is missing."""
    problems: dict[str, None] = {}
    for line in (_secret_line, _topics_line):
        try:
            yield line(configuration)
        except ConfigurationError as error:
            problems[str(error)] = None
    for problem in problems:
        warn(problem)


def _secret_line(configuration: Configuration) -> str:
    return f"secret: id {own_secret_id(configuration)}"


def _topics_line(configuration: Configuration) -> str:
    keys = topic_seal(configuration, configuration.topics.statistics).key_ids
    if not keys:
        return "internal topics: not encrypted"
    also = f", also read: {', '.join(keys[1:])}" if keys[1:] else ""
    return f"internal topics: encrypted, key {keys[0]}{also}"


@command.command()
@config_option
def show(config: Path) -> None:
    """Print the complete configuration.

    Prints YAML with the environment's overrides and all defaults; passwords are shown as ********.

    \b
    Examples:
      stream-masker config show --config discharges.yaml
    """
    configuration = load_configuration(config)
    write_output(redacted_yaml(configuration).rstrip("\n"), redacted_configuration(configuration))


@command.command()
@click.option("--events", default="", metavar="FILE", help="A sample of events, of any format that mask reads.")
@click.option("--topic", default="", metavar="NAME", help="The topic to take a sample from.")
@click.option(
    "--bootstrap-servers", default="localhost:9092", show_default=True, metavar="HOST:PORT", help="Kafka, for --topic."
)
@click.option(
    "--property",
    "properties",
    multiple=True,
    metavar="NAME=VALUE",
    help="A librdkafka property for --topic, such as security.protocol=SSL; repeatable.",
)
@click.option(
    "--ontology",
    "sources",
    multiple=True,
    metavar="NAME=SOURCE",
    help="An ontology to look for, besides icd10cm; repeatable.",
)
@click.option("--registry", default="", metavar="URL", help="The schema registry, if --topic is in its wire format.")
@click.option(
    "--registry-credentials", default="", metavar="FILE", help="A file with user:password for the schema registry."
)
@click.option("--encoding", default="", metavar="NAME", help="The encoding of a CSV file of --events, such as cp1252.")
@click.option("-o", "--output", default="-", metavar="FILE", help="File for the configuration; default: the screen.")
def init(
    events: str,
    topic: str,
    bootstrap_servers: str,
    properties: tuple[str, ...],
    sources: tuple[str, ...],
    registry: str,
    registry_credentials: str,
    encoding: str,
    output: str,
) -> None:
    """Propose a configuration for your events.

    Reads a sample, from a file or a topic (nothing is committed). A field becomes an attribute if at least 80 % of its
    values are codes of an ontology. The id of a person becomes the noise key and is pseudonymized. Every other field is
    dropped, and a comment says why it is no attribute: list below `fields` what you want to keep. The sample is masked
    with the proposal, whose header says how many events it masks and rejects. Values of the sample are not shown.
    Without a sample, prints the configuration of the events that `produce --synthetic` generates.

    \b
    Examples:
      stream-masker config init --events last-month.jsonl.gz -o stream-masker.yaml
      stream-masker config init --events visits.csv --ontology icd9=icd9.csv
      stream-masker config init --topic discharges --bootstrap-servers kafka:9092
      stream-masker config init --topic discharges --registry https://registry:8081
    """
    from stream_masker.service.configuration.loading import parse_yaml
    from stream_masker.service.files.outputs import STANDARD_STREAM, refuse_same_file, write_text
    from stream_masker.service.init import file_sample, proposed_configuration, simulated_sample, topic_sample
    from stream_masker.service.observability.progress import shown_activity

    if events and topic:
        raise click.UsageError("use --events or --topic, not both")
    ontologies = {"icd10cm": "icd10cm", **_pairs(sources, "--ontology")}
    of_kafka = _pairs(properties, "--property")
    kafka = {"bootstrap_servers": bootstrap_servers, "properties": of_kafka}
    read = {"--events": events, "--registry-credentials": registry_credentials}
    pairs = {"--ontology": ontologies, "--property": of_kafka}
    named = {f"{option} {key}": value for option, given in pairs.items() for key, value in given.items()}
    refuse_same_file({**read, **named}, {"--output": output})
    if events:
        sample = file_sample(events, SAMPLE_EVENTS, encoding)
    elif topic:
        access: dict[str, Any] = {"credentials": {"file": registry_credentials}} if registry_credentials else {}
        sample = topic_sample(kafka, topic, SAMPLE_EVENTS, {"url": registry, **access} if registry else None)
    else:
        sample = simulated_sample(SAMPLE_EVENTS // 10)
    with shown_activity(information()) as show:
        show("comparing the fields with the ontologies")
        proposal = proposed_configuration(sample, ontologies)
    if output == STANDARD_STREAM:
        write_output(proposal.rstrip("\n"), parse_yaml(proposal, name="the proposal"))
    else:
        write_text(output, proposal)
        check = f"stream-masker config check --config {shlex.quote(output)}"
        check += f" --events {shlex.quote(events)}" if events else ""
        summarise(f"wrote {output}; check it with `{check}`", {"file": output, "check": check}, beside=output)


def _pairs(texts: tuple[str, ...], option: str) -> dict[str, str]:
    pairs = [text.partition("=") for text in texts]
    wrong = [name for name, equals, value in pairs if not (name and equals and value)]
    if wrong:
        raise click.BadParameter(f"{wrong[0]!r} is not allowed: use NAME=VALUE", param_hint=option)
    return {name: value for name, _, value in pairs}
