"""``stream-masker evaluate``: a report of utility and risk, and the best method within limits."""

from __future__ import annotations

import os
from itertools import count
from pathlib import Path

import click

from stream_masker.cli.options import ReportingCommand, config_option, information, summarise, tell_if_waiting
from stream_masker.core.mechanisms import MECHANISMS
from stream_masker.core.window import joined
from stream_masker.errors import ServiceError
from stream_masker.evaluation.candidates import Candidate, candidates
from stream_masker.evaluation.dataset import DataSet, sampled
from stream_masker.evaluation.evaluation import Evaluation, evaluate
from stream_masker.evaluation.limits import Limits, Recommendation, recommend
from stream_masker.evaluation.measurement import REPEATS
from stream_masker.evaluation.report import report_data, report_html
from stream_masker.pipeline.masker import RecordMasker
from stream_masker.service.configuration import Configuration, load_configuration
from stream_masker.service.configuration.build import (
    build_mechanism,
    build_plan,
    build_taxonomies,
    mechanism_parameters,
)
from stream_masker.service.configuration.secret import read_secret
from stream_masker.service.files import outputs
from stream_masker.service.files.events import open_events
from stream_masker.service.formats.wire_format import file_format
from stream_masker.service.observability.progress import shown_activity

ALL_NAMES = "all"
NOT_MET_EXIT_CODE = 3
FRACTION = click.FloatRange(0, 1)


def numbers(_: click.Context, option: click.Parameter, text: str) -> tuple[float, ...]:
    """Parse numbers in (0, 10] that are separated by commas."""
    try:
        levels = tuple(float(part) for part in text.split(","))
    except ValueError:
        levels = ()
    if not levels or not all(0 < value <= 10 for value in levels):
        raise click.BadParameter(f"{text!r} is not allowed: use numbers in (0, 10], such as 0.1,0.3", param=option)
    return levels


def names_of_mechanisms(_: click.Context, option: click.Parameter, text: str) -> tuple[str, ...]:
    """Parse names of mechanisms that are separated by commas, or ``all``."""
    names = tuple(MECHANISMS) if text == ALL_NAMES else tuple(part.strip() for part in text.split(",") if part.strip())
    unknown = [name for name in names if name not in MECHANISMS]
    if unknown:
        allowed = ", ".join((ALL_NAMES, *MECHANISMS))
        raise click.BadParameter(f"{unknown[0]!r} is not allowed: use {allowed}", param=option)
    return names


@click.command(cls=ReportingCommand)
@config_option
@click.option(
    "--mechanisms",
    default=ALL_NAMES,
    show_default=True,
    callback=names_of_mechanisms,
    metavar="NAMES",
    help="Methods to measure, by their names in the configuration, separated by commas.",
)
@click.option(
    "--alpha",
    "alphas",
    default="0.1,0.3,0.5,1",
    show_default=True,
    callback=numbers,
    metavar="NUMBERS",
    help="Noise levels, separated by commas.",
)
@click.option("--max-vulnerability", type=FRACTION, help="Limit: the greatest share of codes that are guessed right.")
@click.option("--max-rmse", type=FRACTION, help="Limit: the greatest RMSE, the root mean square distance of masks.")
@click.option("--min-correlation", type=FRACTION, help="Limit: the least share of every pair's sdCor that is kept.")
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    default=Path("evaluation.html"),
    show_default=True,
    metavar="FILE",
    help="File for the report.",
)
@click.option(
    "--records",
    type=click.IntRange(0),
    default=2_000,
    show_default=True,
    help="Size of the random sample that is measured; 0 for the whole file.",
)
@click.option(
    "--repeats",
    type=click.IntRange(1),
    default=REPEATS,
    show_default=True,
    help="How often the attacker masks the sample to learn which original becomes which masked value.",
)
@click.option(
    "--processes",
    type=click.IntRange(1),
    default=os.cpu_count() or 1,
    show_default="one per core",
    help="Number of processes.",
)
@click.argument("source", default=outputs.STANDARD_STREAM, metavar="[FILE]")
@click.pass_context
def command(
    context: click.Context,
    config: Path,
    mechanisms: tuple[str, ...],
    alphas: tuple[float, ...],
    max_vulnerability: float | None,
    max_rmse: float | None,
    min_correlation: float | None,
    output: Path,
    records: int,
    repeats: int,
    processes: int,
    source: str,
) -> None:
    """Measure utility and disclosure risk of masking the events of FILE, for many methods.

    FILE is of any format that `mask` reads. The report is one HTML page without links to other files: the verdict
    about the configured method, a table of all methods, and three figures. --json prints all measures. Equal input,
    configuration and secret give equal bytes. No masked record is written. The report needs the extra `evaluate`.

    With limits, the report begins with the best method within them. If no method is within them, it names the nearest
    one, and the exit code is 3.

    \b
    Examples:
      stream-masker evaluate --config discharges.yaml events.jsonl
      stream-masker evaluate --config discharges.yaml --mechanisms semantic_noise,pram --alpha 0.2,0.4 events.csv
      stream-masker evaluate --config discharges.yaml --max-vulnerability 0.6 --max-rmse 0.35 events.jsonl
    """
    configuration = load_configuration(config)
    read = {"FILE": source, "--config": str(config)}
    outputs.refuse_same_file(read, {"--output": str(output)})
    data = read_dataset(configuration, source, records)
    compared = [configured_candidate(configuration), *candidates(mechanisms, alphas)]
    measured = count(1)
    with shown_activity(information()) as show:
        show(f"measuring {len(compared)} settings")
        evaluation = evaluate(
            data,
            compared,
            processes=min(processes, len(compared)),
            repeats=repeats,
            done=lambda: show(f"measuring, {next(measured)} of {len(compared)} settings are done"),
        )
    limits = Limits(max_vulnerability, max_rmse, min_correlation)
    best = recommend(evaluation.measurements, limits, data) if limits and evaluation.measurements else None
    outputs.write_text(str(output), report_html(evaluation, best))
    _summarise(evaluation, best, output)
    if best is not None and not best.met:
        context.exit(NOT_MET_EXIT_CODE)


def _summarise(evaluation: Evaluation, best: Recommendation | None, output: Path) -> None:
    rejected = f", {len(evaluation.rejected)} not applicable" if evaluation.rejected else ""
    text = f"measured {len(evaluation.measurements)} settings{rejected}; the report is {output}"
    figures = report_data(evaluation)
    if best is not None:
        text = f"{best.text(evaluation.data)}\n{text}"
        figures["recommendation"] = {"met": best.met, "best": best.best.candidate.label}
    summarise(text, figures, beside=str(output))


def read_dataset(configuration: Configuration, source: str, records: int) -> DataSet:
    """Read the events of a file, or a sample of this size. Raises ServiceError if none of them can be used."""
    secret = read_secret(configuration)
    tell_if_waiting(source)
    opened = open_events(source, configuration.produce, configuration.records)
    with shown_activity(information()) as show, opened as file:
        show("loading the ontologies")
        mechanism, plan = build_mechanism(configuration, secret), build_plan(configuration)
        masker = RecordMasker(plan, mechanism, secret, record_format=file_format(configuration))
        show(f"reading {Path(source).name}")
        numbers_read = count()
        whole = joined(list(masker.encode(event.value for event, _ in zip(file.events, numbers_read, strict=False))))
        events = next(numbers_read)
    if not whole.size:
        raise ServiceError(f"{Path(source).name} has no event that can be masked: see `stream-masker mask` for reasons")
    left_out = events - whole.size
    if left_out:
        click.echo(f"{left_out:,} of {events:,} events cannot be masked as configured and are left out", err=True)
    return DataSet(
        sampled(whole, records, configuration.groups.records),
        build_taxonomies(configuration),
        secret,
        distance=getattr(configuration.mechanism, "distance", "wu_palmer"),
        available=whole.size if 0 < records < whole.size else None,
        left_out=left_out,
    )


def configured_candidate(configuration: Configuration) -> Candidate:
    """Return the configured mechanism as a candidate."""
    return Candidate(configuration.mechanism.name, "as configured", "", mechanism_parameters(configuration))
