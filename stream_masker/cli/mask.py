"""``stream-masker mask`` and ``stream-masker calibrate``: masking and calibration of files, without a broker."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import click

from stream_masker.cli.options import (
    ReportingCommand,
    config_option,
    information,
    output,
    summarise,
    tell,
    tell_if_waiting,
    warn,
)
from stream_masker.errors import ServiceError
from stream_masker.pipeline.messages import StatisticsMessage, encode_statistics
from stream_masker.service.configuration import Configuration, load_configuration
from stream_masker.service.configuration.build import mechanism_line
from stream_masker.service.files.events import open_events, open_writer, written_kind
from stream_masker.service.files.masking import Assessment, FileMasking
from stream_masker.service.files.outputs import (
    STANDARD_STREAM,
    CheckedStream,
    WriteLine,
    open_output,
    refuse_same_file,
)
from stream_masker.service.observability.progress import shown_activity
from stream_masker.service.process import infrequent_collections
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

    IN has JSON lines, a JSON array, a single JSON document, CSV, Parquet (which needs the extra `parquet`) or HL7 v2
    messages, plain or compressed with gzip; its content decides which. The section `produce` of the configuration says
    which columns of a CSV file are numbers or lists, and its encoding. The name of OUT decides its format: .jsonl
    for JSON lines, .hl7 for HL7 v2 messages, and .csv, .tsv or .parquet for a table of the kind of IN, without the
    columns that the configuration drops. A name that ends in .gz is compressed. OUT appears when it is complete: after
    an error, a file that was there before is unchanged.

    Buffers and calibrates on the first window (calibration.window_records), then masks all records. A record that
    cannot be masked becomes a rejection with its reason and its line number (of a table: its row number), without
    values. A summary is written to standard error. If more than limits.rejected_share of the records are rejected, the
    exit code is 1 and the message names the reasons and the configured paths. If noise_key is position, a record's
    noise depends on the file's name, its content and the line number, so that tomorrow's file of the same name has
    other noise.

    --explain shows value, concept, replacement, distance, candidates and risk of each code of one event. Treat
    its output like the events themselves.

    \b
    Examples:
      stream-masker mask --config discharges.yaml events.jsonl masked.jsonl
      stream-masker mask --config discharges.yaml < events.jsonl > masked.jsonl 2> rejected.jsonl
      stream-masker mask --config discharges.yaml --statistics snapshot.json events.jsonl.gz masked.jsonl
      stream-masker mask --config discharges.yaml --explain 17 events.jsonl
    """
    refuse_same_file(
        {"IN": source, "--statistics": str(snapshot or ""), "--config": str(config)},
        {"OUT": target, "--rejected": rejected},
    )
    if explain is None:
        written_kind(target)
    configuration = load_configuration(config)
    tell_if_waiting(source)
    opened = open_events(source, configuration.produce, configuration.records)
    collections = infrequent_collections(configuration.worker.batch_records)
    with shown_activity(information()) as show, opened as events, collections:
        show("loading the ontologies")
        masking = FileMasking(configuration)
        show("reading and calibrating")
        if explain is not None:
            lines = list(masking.explain(events.events, explain, source=source))
            output("\n".join(lines), {"event": explain, "explanation": lines})
            return
        every, version = masking.calibrated(events.events, None if snapshot is None else _read_snapshot(snapshot))
        start = time.perf_counter()
        with open_writer(target, events, masking.plan) as write, _rejections(rejected) as reject:
            show("masking")
            totals = masking.mask(
                every,
                source=source,
                version=version,
                write=write,
                reject=reject,
                report=lambda totals: show(f"masking, {totals.records:,} records so far"),
            )
            seconds = time.perf_counter() - start
            show("assessing the risk")
            assessment = masking.assessment(totals)
    figures = {**totals.to_dict(), "sentences": list(assessment.sentences), "version": version}
    text = f"{totals}, by statistics version {version}; {totals.records / max(seconds, 1e-9):,.0f} records/s"
    summarise(text, {**figures, "seconds": round(seconds, 3)}, beside=target)
    _tell(assessment, configuration, totals.warnings)
    totals.check_share(configuration.limits.rejected_share)


def _tell(assessment: Assessment, configuration: Configuration, warnings: Iterable[str] = ()) -> None:
    """Write the three sentences, the mechanism and all warnings to standard error."""
    for sentence in assessment.sentences:
        tell(sentence)
    tell(mechanism_line(configuration))
    if assessment.guessed:
        tell(assessment.guessed)
    for warning in (*warnings, *assessment.warnings):
        warn(warning)


@contextmanager
def _rejections(name: str) -> Iterator[WriteLine]:
    """Open a file for rejections, or standard error for an empty name."""
    if name:
        with open_output(name) as file:
            yield file.write
    elif sys.stderr is None:
        raise ServiceError("standard error is closed: use --rejected FILE for rejections")
    else:
        yield CheckedStream(click.get_binary_stream("stderr"), "standard error").write


@click.command(cls=ReportingCommand)
@config_option
@click.option("-o", "--output", "snapshot", default="", metavar="FILE", help="File for the snapshot.")
@click.option("--publish", is_flag=True, help="Publish the statistics on topics.statistics as the next version.")
@click.option("--baseline", is_flag=True, help="With --publish: measure drift against this version from now on.")
@click.option(
    "--since", type=FILE, metavar="SNAPSHOT", help="An earlier snapshot: say whether the events have changed."
)
@click.argument("source", default=STANDARD_STREAM, metavar="[FILE]")
def calibrate(config: Path, snapshot: str, publish: bool, baseline: bool, since: Path | None, source: str) -> None:
    """Compute the statistics of a file of events of any format that `mask` reads.

    The window is the file's last calibration.window_records records. The snapshot is the input of `stream-masker mask
    --statistics`; without -o it is written to standard output, with --publish or --since not at all. With --publish,
    workers that hold their input start to mask with it; the calibrator replaces it once its own window has
    calibration.min_records records.

    \b
    Examples:
      stream-masker calibrate --config discharges.yaml last-month.jsonl.gz -o snapshot.json
      stream-masker calibrate --config discharges.yaml last-month.jsonl.gz --publish --baseline
      stream-masker calibrate --config discharges.yaml this-month.jsonl.gz --since snapshot.json -o new.json
    """
    if baseline and not publish:
        raise click.UsageError("--baseline is for --publish")
    refuse_same_file({"FILE": source, "--config": str(config), "--since": str(since or "")}, {"--output": snapshot})
    configuration = load_configuration(config)
    tell_if_waiting(source)
    opened = open_events(source, configuration.produce, configuration.records)
    with shown_activity(information()) as show, opened as events:
        show("loading the ontologies")
        masking = FileMasking(configuration)
        show("reading and calibrating")
        message = masking.snapshot(events.events)
        drift = None if since is None else masking.drift_since(_read_snapshot(since)).to_dict()
        show("assessing the risk")
        assessment = masking.assessment()
    message = replace(message, guessed=assessment.chances or None)
    version = _publish(configuration, message, baseline=baseline) if publish else None
    target = snapshot or ("" if publish or since else STANDARD_STREAM)
    if target:
        with open_output(target) as file:
            file.write(encode_statistics(message) + b"\n")
    records = message.statistics.records
    summarise(
        f"statistics of {records:,} records",
        {"records": records, "published": version, "sentences": list(assessment.sentences), "drift": drift},
        beside=target,
    )
    for line in drift_lines(drift) if drift else ():
        tell(line)
    _tell(assessment, configuration)


def _publish(configuration: Configuration, message: StatisticsMessage, *, baseline: bool) -> int:
    from stream_masker.service.calibrator.bootstrap import publish_snapshot

    version = publish_snapshot(configuration, message, baseline=baseline)
    tell(f"published as statistics version {version} on {configuration.topics.statistics}")
    return version


def _read_snapshot(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise ServiceError(f"{path} cannot be read: {error.strerror}") from None
