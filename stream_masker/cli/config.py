"""``stream-masker config``: proposing, checking and showing the configuration."""

from __future__ import annotations

from itertools import islice
from pathlib import Path

import click

from stream_masker.cli.options import Group, config_option, information, summarise, warn
from stream_masker.cli.options import output as write_output
from stream_masker.service.configuration import load_configuration

SAMPLE_EVENTS = 10_000
"""The number of events that ``check`` and ``init`` read."""


@click.group(cls=Group)
def command() -> None:
    """Propose, check and show the configuration."""


@command.command()
@config_option
@click.option("--events", default="", metavar="FILE", help="Events of any format that mask reads, to try it on.")
def check(config: Path, events: str) -> None:
    """Check the configuration.

    Checks the file, the environment's overrides, ontologies, mapping files, the mechanism's parameters and librdkafka's
    properties. Prints the id of the secret, which must be the same for all processes. A missing secret is only a
    warning, because this need not be the machine that masks.

    With --events, prints a line for each field of the first 10,000 events: its path, the share of events that have it,
    and its treatment; then the rejections by reason, and how often an attacker guesses a code right. Values are not
    shown.

    \b
    Examples:
      stream-masker config check --config discharges.yaml --events last-month.jsonl.gz
      STREAM_MASKER__TOPICS__INPUT=admissions stream-masker config check -c discharges.yaml
    """
    from stream_masker.service.check import event_lines, masking_lines, secret_lines
    from stream_masker.service.files.events import open_events
    from stream_masker.service.kafka.clients import check_properties
    from stream_masker.service.observability.progress import shown_activity
    from stream_masker.summary import guessed_line

    configuration = load_configuration(config)
    check_properties(configuration)
    with shown_activity(information()) as show:
        show("loading the ontologies")
        masking, covered = list(masking_lines(configuration)), [guessed_line({}, "not known without --events")]
        if events:
            show(f"reading {Path(events).name}")
            with open_events(events, configuration.csv, configuration.records) as file:
                sample = list(islice(file.events, SAMPLE_EVENTS))
            covered = list(event_lines(configuration, sample))
    if configuration.fields.unlisted == "keep":
        warn("fields.unlisted is keep: whatever producers add to events is written unmasked; use drop, and list fields")
    keys = list(secret_lines(configuration, warn))
    valid = f"{config}: the configuration is valid (hash {configuration.hash})"
    figures = {"valid": True, "hash": configuration.hash, "masking": masking, "secrets": keys, "events": covered}
    write_output("\n".join((*masking, *keys, *covered, valid)), figures)


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
    write_output(configuration.shown_yaml().rstrip("\n"), configuration.shown())


@command.command()
@click.option("--events", required=True, metavar="FILE", help="A sample of events: JSON, or rows of a table.")
@click.option("--ontology", "sources", multiple=True, metavar="NAME=SOURCE", help="One to look for; repeatable.")
@click.option("--encoding", default="", metavar="NAME", help="The encoding of a CSV file of --events, such as cp1252.")
@click.option("-o", "--output", default="-", metavar="FILE", help="File for the configuration; default: the screen.")
def init(events: str, sources: tuple[str, ...], encoding: str, output: str) -> None:
    """Propose a configuration for your events.

    Reads the first 10,000 events of a file. A field becomes an attribute if at least 80 % of its values are codes of an
    ontology. The id of a person becomes the noise key and is pseudonymized. Every other field is dropped, and a comment
    says why: list below `fields` what you want to keep. The header says how many events of the sample the proposal
    masks and rejects.

    \b
    Examples:
      stream-masker config init --events last-month.jsonl.gz -o stream-masker.yaml
      stream-masker config init --events visits.csv --ontology icd9=icd9.csv
    """
    from stream_masker.service.configuration.loading import parse_yaml
    from stream_masker.service.files.streams import STANDARD_STREAM, open_output, refuse_same_file
    from stream_masker.service.init.proposal import proposed_configuration
    from stream_masker.service.observability.progress import shown_activity

    pairs = [source.partition("=") for source in sources]
    if wrong := [name for name, _, file in pairs if not (name and file)]:
        raise click.BadParameter(f"{wrong[0]!r} is not allowed: use NAME=SOURCE", param_hint="--ontology")
    ontologies = {"icd10cm": "icd10cm", **{name: file for name, _, file in pairs}}
    refuse_same_file({"--events": events, **ontologies}, {"--output": output})
    with shown_activity(information()) as show:
        show("comparing the fields with the ontologies")
        proposal = proposed_configuration(events, ontologies, size=SAMPLE_EVENTS, encoding=encoding)
    if output == STANDARD_STREAM:
        write_output(proposal.rstrip("\n"), parse_yaml(proposal, name="the proposal"))
        return
    with open_output(output) as file:
        file.write(proposal.encode())
    summarise(f"wrote {output}: read it, and try it with `stream-masker config check`", {"file": output}, beside=output)
