"""``stream-masker recommend``: a method within limits of utility and risk."""

from __future__ import annotations

import stat
import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from stream_masker.cli.datasets import (
    mechanisms_option,
    processes_option,
    read_dataset,
    records_option,
    repeats_option,
)
from stream_masker.cli.options import ReportingCommand, config_option, information, summarise, tell
from stream_masker.errors import ConfigurationError
from stream_masker.evaluation.candidates import Candidate, candidates
from stream_masker.evaluation.dataset import DataSet
from stream_masker.evaluation.evaluation import Evaluation, candidate_tasks, run_tasks
from stream_masker.evaluation.recommendation import (
    SEARCHED_ALPHAS,
    Limits,
    Recommendation,
    recommend,
    recommendation_html,
)
from stream_masker.service.configuration import Configuration, load_configuration, parse_configuration
from stream_masker.service.configuration.build import build_mechanism
from stream_masker.service.configuration.display import configuration_yaml, with_mechanism
from stream_masker.service.configuration.strict_yaml import parse_yaml
from stream_masker.service.files import outputs
from stream_masker.service.files.named import named_files
from stream_masker.service.observability.progress import task_progress

NOT_MET_EXIT_CODE = 3
FRACTION = click.FloatRange(0, 1)


@click.command(cls=ReportingCommand)
@config_option
@click.option("--max-vulnerability", type=FRACTION, help="Greatest share of values that an attacker guesses right.")
@click.option("--max-rmse", type=FRACTION, help="Greatest RMSE, the root mean square distance of masked values.")
@click.option("--min-correlation", type=FRACTION, help="Least share of every pair's sdCor that is kept.")
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    default=Path("recommended.yaml"),
    show_default=True,
    metavar="FILE",
    help="File for the recommended configuration.",
)
@click.option(
    "--report",
    default="recommendation.html",
    show_default=True,
    metavar="FILE",
    help="File for the explanation and the plot.",
)
@mechanisms_option
@records_option
@repeats_option
@processes_option
@click.argument("source", default=outputs.STANDARD_STREAM, metavar="[FILE]")
@click.pass_context
def command(
    context: click.Context,
    config: Path,
    max_vulnerability: float | None,
    max_rmse: float | None,
    min_correlation: float | None,
    output: Path,
    report: str,
    mechanisms: tuple[str, ...],
    records: int,
    repeats: int,
    processes: int,
    source: str,
) -> None:
    """Search for a mechanism, reference, rounding and noise level within limits, on the events of FILE.

    FILE is of any format that `mask` reads. The configuration with the recommended mechanism is written to --output;
    its comments and formatting are not kept. If no setting meets the limits, the nearest one is explained, no
    configuration is written, and the exit code is 3.

    \b
    Examples:
      stream-masker recommend --config discharges.yaml --max-vulnerability 0.6 --max-rmse 0.35 events.jsonl
      stream-masker recommend --config discharges.yaml --max-rmse 0.2 --min-correlation 0.9 -o best.yaml events.csv
    """
    limits = Limits(max_vulnerability, max_rmse, min_correlation)
    configuration = load_configuration(config)
    outputs.refuse_same_file(
        {"FILE": source, "--config": str(config), **named_files(configuration)},
        {"--output": str(output), "--report": report},
    )
    data = read_dataset(configuration, source, records)
    raw = parse_yaml(config.read_text(encoding="utf-8-sig"), name=str(config))
    searched = [choice for choice in candidates(mechanisms, SEARCHED_ALPHAS) if _is_valid(raw, choice, configuration)]
    measured = _measured(data, searched, repeats, processes).measurements
    recommendation = recommend(measured, limits, data)
    outputs.write_text(report, recommendation_html(recommendation, data))
    summarise(
        textwrap.fill(recommendation.text(data), 100),
        {"met": recommendation.met, "best": recommendation.best.to_dict()},
    )
    if not recommendation.met:
        context.exit(NOT_MET_EXIT_CODE)
    outputs.write_text(str(output), _rewritten(raw, recommendation), private=not config.stat().st_mode & stat.S_IROTH)
    tell(f"the configuration is {output}, the plot is {report}")


def _is_valid(raw: Mapping[str, Any], candidate: Candidate, configuration: Configuration) -> bool:
    """Return whether the configuration file is valid with the candidate."""
    changed = with_mechanism(raw, candidate.mechanism, candidate.options)
    try:
        build_mechanism(parse_configuration(changed, folder=configuration.folder), bytes(16))
    except ConfigurationError:
        return False
    return True


def _measured(data: DataSet, searched: Sequence[Candidate], repeats: int, processes: int) -> Evaluation:
    tasks = candidate_tasks(searched, repeats)
    with task_progress("measured", total=len(tasks), stream=information()) as done:
        return run_tasks(data, tasks, processes=max(1, min(processes, len(tasks))), done=done)


def _rewritten(raw: Mapping[str, Any], recommendation: Recommendation) -> str:
    candidate = recommendation.best.candidate
    comment = f"{candidate.label}: recommended by stream-masker recommend for {recommendation.limits}"
    return configuration_yaml(with_mechanism(raw, candidate.mechanism, candidate.options), comment)
