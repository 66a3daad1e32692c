"""``stream-masker mask`` and ``stream-masker calibrate``: masking and calibration of files, without a broker."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path

import click

from stream_masker.cli.options import ReportingCommand, config_option, information, output, summarise, tell, warn
from stream_masker.pipeline.messages import encode_statistics
from stream_masker.service.configuration import Configuration, load_configuration
from stream_masker.service.files.events import EventFile, open_events, open_writer
from stream_masker.service.files.masking import Assessment, FileMasking
from stream_masker.service.files.streams import STANDARD_STREAM, open_output, refuse_same_file
from stream_masker.service.observability.progress import ShowActivity, shown_activity
from stream_masker.summary import drift_lines

FILE = click.Path(path_type=Path)


@click.command(cls=ReportingCommand)
@config_option
@click.option("--statistics", "snapshot", type=FILE, metavar="FILE", help="Snapshot of `calibrate` to mask with.")
@click.option("--rejected", default="", metavar="FILE", help="Rejections as JSON lines; default: standard error.")
@click.option("--explain", type=click.IntRange(1), metavar="N", help="Only print how event N is masked.")
@click.argument("source", default=STANDARD_STREAM, metavar="[IN]")
@click.argument("target", default=STANDARD_STREAM, metavar="[OUT]")
def command(config: Path, snapshot: Path | None, rejected: str, explain: int | None, source: str, target: str) -> None:
    """Mask events from IN to OUT without a broker. The defaults are the standard streams, which are JSON lines.

    IN has JSON lines, a JSON array or document, CSV, Parquet (needs the extra `parquet`) or HL7 v2 messages, plain or
    compressed with gzip; its content decides which. The section `csv` of the configuration describes CSV files.
    OUT has JSON lines, or a table of the kind of IN if its name ends in .csv, .tsv or .parquet; HL7 v2 messages stay
    messages. With .gz it is compressed. After an error, a file that was there before is unchanged.

    Without --statistics, calibrates on the first window (calibration.window_records). A record that cannot be masked
    becomes a rejection with its reason and number, without values. If more than limits.rejected_share of the records
    are rejected, the exit code is 1. If noise_key is position, noise depends on the file's name, its content and the
    number of the record.

    --explain shows value, concept, replacement and distance of each code of one event. Treat its output like the events
    themselves.

    \b
    Examples:
      stream-masker mask --config discharges.yaml --statistics snapshot.json events.jsonl.gz masked.jsonl
      stream-masker mask --config discharges.yaml < events.jsonl > masked.jsonl 2> rejected.jsonl
      stream-masker mask --config discharges.yaml --explain 17 events.jsonl
    """
    inputs = {"IN": source, "--statistics": str(snapshot or ""), "--config": str(config)}
    refuse_same_file(inputs, {"OUT": target, "--rejected": rejected})
    configuration = load_configuration(config)
    with _masking(configuration, source) as (masking, file, show):
        if explain is not None:
            lines = list(masking.explain(file.events, explain, source=source))
            output("\n".join(lines), {"event": explain, "explanation": lines})
            return
        with open_writer(target, file, masking.plan) as write, open_output(rejected) as rejections:
            show("reading and calibrating")
            totals = masking.mask(
                masking.calibrated(file.events, None if snapshot is None else snapshot.read_bytes()),
                source=source,
                write=write,
                reject=rejections.write,
                report=lambda totals: show(f"masking, {totals.records:,} records so far"),
            )
            show("assessing the risk")
            assessment = masking.assessment(totals)
    figures = {**totals.to_dict(), "sentences": assessment.sentences, "version": masking.version}
    summarise(f"{totals}, by statistics version {masking.version}", figures, beside=target)
    _tell(assessment)
    totals.check_share(configuration.limits.rejected_share)


@contextmanager
def _masking(configuration: Configuration, source: str) -> Iterator[tuple[FileMasking, EventFile, ShowActivity]]:
    """Open a file of events, and load the ontologies to mask it with."""
    opened = open_events(source, configuration.csv, configuration.records)
    with shown_activity(information()) as show, opened as file:
        show("loading the ontologies")
        yield FileMasking(configuration), file, show


@click.command(cls=ReportingCommand)
@config_option
@click.option("-o", "--output", "snapshot", default="", metavar="FILE", help="File for the snapshot.")
@click.option("--publish", is_flag=True, help="Publish the statistics on topics.statistics as the next version.")
@click.option("--baseline", is_flag=True, help="With --publish: measure drift against this version from now on.")
@click.option("--since", type=FILE, metavar="FILE", help="An earlier snapshot: say whether the events have changed.")
@click.argument("source", default=STANDARD_STREAM, metavar="[FILE]")
def calibrate(config: Path, snapshot: str, publish: bool, baseline: bool, since: Path | None, source: str) -> None:
    """Compute the statistics of a file of events of any format that `mask` reads.

    The window is the file's last calibration.window_records records. The snapshot is the input of `stream-masker mask
    --statistics`; without -o it is written to standard output, with --publish or --since not at all. Workers that hold
    their input start to mask with published statistics; the calibrator replaces them once its window is full enough.

    \b
    Examples:
      stream-masker calibrate --config discharges.yaml last-month.jsonl.gz --publish --baseline
      stream-masker calibrate --config discharges.yaml this-month.jsonl.gz --since snapshot.json -o new.json
    """
    if baseline and not publish:
        raise click.UsageError("--baseline is for --publish")
    refuse_same_file({"FILE": source, "--config": str(config), "--since": str(since or "")}, {"--output": snapshot})
    configuration, version = load_configuration(config), None
    target = snapshot or ("" if publish or since else STANDARD_STREAM)
    opened = open_output(target) if target else nullcontext()
    with _masking(configuration, source) as (masking, file, show), opened as out:
        show("reading and calibrating")
        message = masking.snapshot(file.events)
        drift = None if since is None else masking.drift_since(since.read_bytes()).to_dict()
        show("assessing the risk")
        assessment = masking.assessment()
        message = replace(message, guessed=assessment.chances or None)
        if publish:
            from stream_masker.service.calibrator.bootstrap import publish_snapshot

            version = publish_snapshot(configuration, message, baseline=baseline)
            tell(f"published as statistics version {version} on {configuration.topics.statistics}")
        if out is not None:
            out.write(encode_statistics(message) + b"\n")
    records = message.statistics.records
    figures = {"records": records, "published": version, "sentences": assessment.sentences, "drift": drift}
    summarise(f"statistics of {records:,} records", figures, beside=target)
    _tell(assessment, drift_lines(drift) if drift else ())


def _tell(assessment: Assessment, before: Iterable[str] = ()) -> None:
    """Write what is said of masked records, after other lines."""
    for line in (*before, *assessment.sentences):
        tell(line)
    for warning in assessment.warnings:
        warn(warning)
