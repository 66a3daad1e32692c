"""``stream-masker topics``, ``produce`` and ``audit``: creating topics, filling the input, and checking the output."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import click

from stream_masker.cli.options import ReportingCommand, config_option, information, output, summarise, tell
from stream_masker.errors import ServiceError
from stream_masker.service.configuration import load_configuration
from stream_masker.service.files.streams import refuse_same_file
from stream_masker.service.kafka.topics import DEFAULT_PARTITIONS, prepare_topics

POSITIVE = click.IntRange(min=1)
RATE = click.FloatRange(0, min_open=True)
PLACE = "PARTITION:OFFSET"
VERDICTS = {True: "matches", False: "DOES NOT MATCH"}


@click.command(cls=ReportingCommand)
@config_option
@click.option("--partitions", type=POSITIVE, default=DEFAULT_PARTITIONS, show_default=True, help="Of new topics.")
@click.option("--replication-factor", type=POSITIVE, metavar="N", help="Of new topics; default: the broker's.")
@click.option("--dry-run", is_flag=True, help="Only print what would be created.")
def topics(config: Path, partitions: int, replication_factor: int | None, dry_run: bool) -> None:
    """Create missing topics with the right cleanup policies, and check existing ones.

    Prints one line per topic: created, exists, or wrong, with the remedy. If a topic is wrong, none is created and the
    exit code is 1. Input and output have the same number of partitions.

    \b
    Examples:
      stream-masker topics --config discharges.yaml --partitions 8 --replication-factor 3
      stream-masker topics --config discharges.yaml --dry-run
    """
    configuration = load_configuration(config)
    lines = prepare_topics(configuration, partitions=partitions, replication_factor=replication_factor, dry_run=dry_run)
    figures = [{"topic": line.name, "status": line.status, "detail": line.detail} for line in lines]
    summarise("\n".join(map(str, lines)), {"topics": figures})
    if wrong := sum(line.status == "wrong" for line in lines):
        raise ServiceError(f"{wrong} of {len(lines)} topics do not meet the requirements")


@click.command(cls=ReportingCommand)
@config_option
@click.option("--synthetic", type=POSITIVE, required=True, metavar="N", help="The number of events to generate.")
@click.option("--rate", type=RATE, metavar="R", help="Records per second; default: full speed.")
@click.option("--outbreak-after", type=click.IntRange(0), metavar="N", help="Begin an outbreak after N events.")
@click.option("--out", default="", metavar="FILE", help="Write JSON lines to FILE instead; no broker.")
def produce(config: Path, synthetic: int, rate: float | None, outbreak_after: int | None, out: str) -> None:
    """Publish synthetic discharge events on the input topic, or write them to a file.

    They are correlated and skewed like real ones. They have leaves of the configured ontologies at the paths of the
    configuration. Patients return; none of them is real. Exits with 1 at the first event that Kafka does not accept.

    \b
    Examples:
      stream-masker produce --config discharges.yaml --synthetic 100000 --rate 2000
      stream-masker produce --config discharges.yaml --synthetic 1000 --out events.jsonl
    """
    from stream_masker.service.events.publishing import file_writer, topic_writer, write_events
    from stream_masker.service.events.synthetic import SyntheticDischarges

    configuration = load_configuration(config)
    refuse_same_file({"--config": str(config)}, {"--out": out})
    events = SyntheticDischarges(configuration, outbreak_after=outbreak_after).events(synthetic)
    with file_writer(out) if out else topic_writer(configuration) as write:
        write_events(events, write, stream=information(), rate=rate)
    target = out or configuration.topics.input
    summarise(f"wrote {synthetic:,} events to {target}", {"events": synthetic, "target": target}, beside=out)


@click.command(cls=ReportingCommand)
@config_option
@click.option("--offset", "locations", multiple=True, metavar=PLACE, help="An input record to verify; repeatable.")
@click.option("--records", type=click.IntRange(1), default=5, show_default=True, help="How many to show.")
def audit(config: Path, locations: tuple[str, ...], records: int) -> None:
    """Show the latest masked records, or verify single ones with --offset.

    Without --offset, prints sMean, sVar and sdCor of the statistics that masked the latest records, and below them the
    records.

    With --offset, derives the masks or rejections of input records again, and compares them with what was written. No
    value is shown. Exits with 1 if a record does not match.

    \b
    Examples:
      stream-masker audit --config discharges.yaml --records 3
      stream-masker audit --config discharges.yaml --offset 0:1234 --offset 3:17
    """
    from stream_masker.service import audit as audits

    configuration = load_configuration(config)
    if not locations:
        latest, versions = audits.latest_records(configuration, records)
        figures = {"records": latest, "statistics": list(versions.values())}
        output("\n".join(audits.latest_lines(latest, versions)), figures)
        if not latest:
            tell(f"{configuration.topics.output} has no records yet: see `stream-masker worker`")
        return
    results = [*audits.audit(configuration, [audits.RecordLocation.parse(text) for text in locations])]
    lines = (f"{check.location}: {VERDICTS[check.matches]}: {check.description}" for check in results)
    summarise("\n".join(lines), {"records": [asdict(check) for check in results]})
    if not all(check.matches for check in results):
        raise click.exceptions.Exit(1)
