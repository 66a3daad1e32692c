"""``stream-masker evaluate``: what masking keeps of given events."""

from __future__ import annotations

from pathlib import Path

import click

from stream_masker.cli.options import config_option
from stream_masker.evaluation.utility_table import ALPHAS, ROUNDINGS, utility_markdown, utility_rows
from stream_masker.pipeline.masker import RecordMasker
from stream_masker.service import local
from stream_masker.service.configuration import Configuration, load_configuration
from stream_masker.service.configuration.build import build_mechanism, build_plan, build_taxonomies
from stream_masker.service.configuration.pairing import pairs
from stream_masker.service.configuration.secrets import read_secret
from stream_masker.service.logs import configure_logs


@click.command()
@config_option
@click.option(
    "--alpha",
    "alphas",
    type=click.FloatRange(0, 10, min_open=True),
    multiple=True,
    default=ALPHAS,
    show_default=True,
    help="A noise level; may be given several times.",
)
@click.argument("source", default=local.STANDARD, metavar="[FILE]")
def command(config: Path, alphas: tuple[float, ...], source: str) -> None:
    """Mask events (JSON lines, perhaps gzipped) at several noise levels and print what each keeps, as a Markdown table.

    The measures are those of the 2017 paper, section 5, for the configured mechanism, with every reference that the
    attributes allow and both roundings. Nothing masked is written.

    \b
    Examples:
      stream-masker evaluate --config discharges.yaml events.jsonl
      stream-masker evaluate --config discharges.yaml --alpha 0.2 --alpha 0.4 events.jsonl.gz
    """
    configure_logs("warning")
    configuration = load_configuration(config)
    secret = read_secret(configuration)
    masker = RecordMasker(build_plan(configuration), build_mechanism(configuration, secret), secret)
    with local.open_input(source) as stream:
        batches = list(masker.encode(line for _, line in local.numbered_lines(stream)))
    settings = configuration.mechanism
    rows = utility_rows(
        batches,
        build_taxonomies(configuration),
        secret=secret,
        alphas=alphas,
        references=_references(configuration),
        roundings=ROUNDINGS,
        correlated=settings.correlated,
        distribution=settings.distribution,
        candidates=settings.candidates,
        distance=settings.distance,
        pairs=pairs(configuration),
    )
    click.echo(utility_markdown(list(rows)))


def _references(configuration: Configuration) -> tuple[str, ...]:
    """Every reference, ``pair`` only where it is the configured one and so known to fit."""
    return ("mean", "pair", "root") if configuration.mechanism.reference == "pair" else ("mean", "root")
