"""``stream-masker evaluate``: a report of utility and risk, and the best method within limits."""

from __future__ import annotations

import os
from itertools import count
from pathlib import Path

import click

from stream_masker.cli.options import ReportingCommand, config_option, information, summarise, tell
from stream_masker.core.mechanisms import MECHANISMS
from stream_masker.core.statistics.counts import joined
from stream_masker.errors import ServiceError
from stream_masker.evaluation.dataset import DataSet, sampled
from stream_masker.evaluation.measurement import (
    AS_CONFIGURED,
    NOISE_LEVELS,
    Candidate,
    Limits,
    candidates,
    evaluate,
    recommend,
)
from stream_masker.evaluation.report import report_data, report_html
from stream_masker.service.configuration import Configuration, load_configuration
from stream_masker.service.configuration.build import mechanism_parameters
from stream_masker.service.configuration.secret import read_secret
from stream_masker.service.files.events import open_events
from stream_masker.service.files.streams import STANDARD_STREAM, open_output, refuse_same_file
from stream_masker.service.formats import file_format
from stream_masker.service.masking import Masking
from stream_masker.service.observability.progress import shown_activity

NAMES = click.Choice([*MECHANISMS])
LEVEL = click.FloatRange(0, 10, min_open=True)
SHARE = click.FloatRange(0, 1)
CORES = os.cpu_count() or 1


@click.command(cls=ReportingCommand)
@config_option
@click.option("--mechanism", "mechanisms", type=NAMES, multiple=True, help="A method to measure; default: all.")
@click.option("--alpha", "alphas", type=LEVEL, default=NOISE_LEVELS, multiple=True, metavar="α", help="A noise level.")
@click.option("--max-vulnerability", "vulnerability", type=SHARE, help="Limit: the most codes that are guessed right.")
@click.option("--max-rmse", "rmse", type=SHARE, help="Limit: the greatest root mean square distance of masks.")
@click.option("--min-correlation", "correlation", type=SHARE, help="Limit: the least share of a pair's sdCor kept.")
@click.option("-o", "--output", default="evaluation.html", show_default=True, metavar="FILE", help="The report.")
@click.option("--records", type=click.IntRange(0), default=2_000, show_default=True, help="Size of the sample; 0: all.")
@click.option("--processes", type=click.IntRange(1), default=CORES, show_default="one per core", help="Their number.")
@click.argument("source", default=STANDARD_STREAM, metavar="[FILE]")
def command(
    config: Path,
    mechanisms: tuple[str, ...],
    alphas: tuple[float, ...],
    output: str,
    records: int,
    processes: int,
    source: str,
    **limits: float | None,
) -> None:
    """Measure utility and disclosure risk of masking the events of FILE, for many methods.

    FILE is of any format that `mask` reads. The report is one HTML page: the verdict about the configured method, a
    table of all methods, and three figures; --json prints all measures. Equal input, configuration and secret give
    equal bytes. No masked record is written. The report needs the extra `evaluate`.

    With limits, the report begins with the best method within them, or else with the nearest one; the exit code is then
    3.

    \b
    Examples:
      stream-masker evaluate --config discharges.yaml --mechanism pram --mechanism vicus --alpha 0.2 events.csv
      stream-masker evaluate --config discharges.yaml --max-vulnerability 0.6 --max-rmse 0.35 events.jsonl
    """
    refuse_same_file({"FILE": source, "--config": str(config)}, {"--output": output})
    configuration = load_configuration(config)
    own = Candidate(configuration.mechanism.name, AS_CONFIGURED, mechanism_parameters(configuration))
    compared, measured = [own, *candidates(mechanisms or tuple(MECHANISMS), alphas)], count(1)
    with open_output(output) as file, shown_activity(information()) as show:
        show(f"reading {Path(source).name}")
        data = read_dataset(configuration, source, records)
        show(f"measuring the first of {len(compared)} settings")
        evaluation = evaluate(
            data,
            compared,
            processes=min(processes, len(compared)),
            done=lambda: show(f"measuring, {next(measured)} of {len(compared)} settings are done"),
        )
        best = recommend(evaluation.measurements, Limits(**limits), data)
        file.write(report_html(evaluation, best).encode())
    rejected = f", {len(evaluation.rejected)} not applicable" if evaluation.rejected else ""
    text = f"measured {len(evaluation.measurements)} settings{rejected}; the report is {output}"
    figures = report_data(evaluation)
    if best is not None:
        text = f"{best.text}\n{text}"
        figures["recommendation"] = {"met": best.meeting > 0, "best": best.best.candidate.label}
    summarise(text, figures, beside=output)
    if best is not None and not best.meeting:
        raise click.exceptions.Exit(3)


def read_dataset(configuration: Configuration, source: str, records: int) -> DataSet:
    """Read the events of a file, or a sample of this size. Raises ServiceError if none of them can be used."""
    masking = Masking(configuration, format_of=file_format)
    with open_events(source, configuration.csv, configuration.records) as file:
        events = [event.value for event in file.events]
    whole = joined([part.batch for part in masking.masker.read(events)])
    if not whole.size:
        raise ServiceError(f"{Path(source).name} has no event that can be masked: see `stream-masker mask` for reasons")
    if left_out := len(events) - whole.size:
        tell(f"{left_out:,} of {len(events):,} events cannot be masked as configured and are left out")
    return DataSet(
        sampled(whole, records, configuration.groups.records),
        masking.mechanism.taxonomies,
        read_secret(configuration),
        distance=getattr(configuration.mechanism, "distance", "wu_palmer"),
        available=whole.size if 0 < records < whole.size else None,
        left_out=left_out,
    )
