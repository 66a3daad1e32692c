"""``stream-masker evaluate``: a report of utility and risk."""

from __future__ import annotations

from pathlib import Path

import click

from stream_masker.cli.datasets import (
    configured_candidate,
    mechanisms_option,
    numbers,
    processes_option,
    read_dataset,
    records_option,
    repeats_option,
)
from stream_masker.cli.options import ReportingCommand, config_option, information, summarise
from stream_masker.evaluation.evaluation import Evaluation, evaluation_tasks, run_tasks
from stream_masker.evaluation.report.document import report_csv, report_data, report_html, report_json
from stream_masker.service.configuration import load_configuration
from stream_masker.service.files import outputs
from stream_masker.service.files.named import named_files
from stream_masker.service.observability.progress import task_progress


@click.command(cls=ReportingCommand)
@config_option
@mechanisms_option
@click.option(
    "--alpha",
    "alphas",
    default="0.1,0.3,0.5,1",
    show_default=True,
    callback=numbers,
    metavar="NUMBERS",
    help="Noise levels, separated by commas.",
)
@click.option(
    "--confidential",
    default="",
    metavar="ATTRIBUTE",
    help="Confidential attribute of the measures of 2012; default: the last nominal one.",
)
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
    "--json-file", default="", metavar="FILE", help="File for the measures as JSON; default: beside --output."
)
@click.option("--csv-file", default="", metavar="FILE", help="File for the measures as CSV; default: beside --output.")
@records_option
@repeats_option
@processes_option
@click.argument("source", default=outputs.STANDARD_STREAM, metavar="[FILE]")
def command(
    config: Path,
    mechanisms: tuple[str, ...],
    alphas: tuple[float, ...],
    confidential: str,
    output: Path,
    json_file: str,
    csv_file: str,
    records: int,
    repeats: int,
    processes: int,
    source: str,
) -> None:
    """Measure utility and disclosure risk of masking the events of FILE, for many methods.

    FILE is of any format that `mask` reads. The report is one HTML page without links to
    other files: utility against risk in one picture, the tables and figures of the five papers on these data, and
    models that learn from masked records. The same measures are written as JSON and CSV. Equal input, configuration and
    secret give equal bytes. No masked record is written.

    \b
    Examples:
      stream-masker evaluate --config discharges.yaml events.jsonl
      stream-masker evaluate --config discharges.yaml --mechanisms semantic_noise,pram --alpha 0.2,0.4 events.csv
      stream-masker evaluate --config discharges.yaml --records 0 --output report.html events.jsonl.gz
    """
    json_file, csv_file = json_file or str(output.with_suffix(".json")), csv_file or str(output.with_suffix(".csv"))
    configuration = load_configuration(config)
    outputs.refuse_same_file(
        {"FILE": source, "--config": str(config), **named_files(configuration)},
        {"--output": str(output), "--json-file": json_file, "--csv-file": csv_file},
    )
    data = read_dataset(configuration, source, records)
    if confidential and confidential not in data.attributes:
        raise click.BadParameter(f"{confidential!r} is not allowed: use {', '.join(data.attributes)}")
    tasks = evaluation_tasks(
        data,
        mechanisms,
        alphas,
        confidential=confidential or data.attributes[-1],
        configured=[configured_candidate(configuration)],
        repeats=repeats,
    )
    with task_progress("measured", total=len(tasks), stream=information()) as done:
        evaluation = run_tasks(data, tasks, processes=min(processes, len(tasks)), done=done)
    _write(evaluation, output, json_file, csv_file)


def _write(evaluation: Evaluation, output: Path, json_file: str, csv_file: str) -> None:
    outputs.write_text(str(output), report_html(evaluation))
    outputs.write_text(json_file, report_json(evaluation))
    outputs.write_text(csv_file, report_csv(evaluation))
    rejected = f", {len(evaluation.rejected)} not applicable" if evaluation.rejected else ""
    text = f"measured {len(evaluation.measurements)} settings{rejected}; the report is {output}"
    summarise(text, report_data(evaluation), beside=str(output))
