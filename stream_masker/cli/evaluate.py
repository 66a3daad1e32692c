"""``stream-masker evaluate``: utility of masked events."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

import click

from stream_masker.cli.options import config_option
from stream_masker.core.batch import Batch
from stream_masker.core.mechanisms.base import Mechanism
from stream_masker.evaluation.utility_table import (
    ALPHAS,
    TABLE_ROUNDINGS,
    MechanismRow,
    UtilityRow,
    mechanism_row,
    utility_markdown,
    utility_rows,
)
from stream_masker.pipeline.calibration.blocks import split_batch
from stream_masker.pipeline.masker import RecordMasker
from stream_masker.service.configuration import Configuration, load_configuration
from stream_masker.service.configuration.build import build_mechanism, build_plan, build_taxonomies, noise_levels
from stream_masker.service.configuration.mechanisms import SemanticNoiseSection
from stream_masker.service.configuration.pairing import configured_pairs
from stream_masker.service.configuration.secret import read_secret
from stream_masker.service.local import files
from stream_masker.service.observability.logs import configure_logs


@click.command()
@config_option
@click.option(
    "--alpha",
    "alphas",
    type=click.FloatRange(0, 10, min_open=True),
    multiple=True,
    default=ALPHAS,
    show_default=True,
    help="Noise level. Can be repeated.",
)
@click.argument("source", default=files.STANDARD_STREAM, metavar="[FILE]")
def command(config: Path, alphas: tuple[float, ...], source: str) -> None:
    """Mask events (JSON lines, optionally gzipped) at several noise levels and print their utility as a Markdown table.

    The measures are those of the 2017 paper, section 5. Semantic noise is evaluated with every reference that the
    attributes allow and with both roundings; any other mechanism as configured, without noise levels. Numeric
    attributes are left out. No masked record is written.

    \b
    Examples:
      stream-masker evaluate --config discharges.yaml events.jsonl
      stream-masker evaluate --config discharges.yaml --alpha 0.2 --alpha 0.4 events.jsonl.gz
    """
    configure_logs("warning")
    configuration = load_configuration(config)
    secret = read_secret(configuration)
    mechanism = build_mechanism(configuration, secret)
    masker = RecordMasker(build_plan(configuration), mechanism, secret)
    with files.open_input(source) as stream:
        batches = list(masker.encode(line for _, line in files.numbered_lines(stream)))
    rows: list[UtilityRow] | list[MechanismRow]
    if isinstance(configuration.mechanism, SemanticNoiseSection):
        rows = _of_noise(configuration, configuration.mechanism, batches, alphas, secret)
    else:
        groups = _groups(batches, configuration, mechanism)
        rows = [mechanism_row(mechanism, groups, secret=secret, alpha=noise_levels(configuration))]
    click.echo(utility_markdown(rows))


def _of_noise(
    configuration: Configuration,
    settings: SemanticNoiseSection,
    batches: Sequence[Batch],
    alphas: tuple[float, ...],
    secret: bytes,
) -> list[UtilityRow]:
    rows = utility_rows(
        [replace(batch, numeric=None) for batch in batches],
        build_taxonomies(configuration),
        secret=secret,
        alphas=alphas,
        references=_references(settings),
        roundings=TABLE_ROUNDINGS,
        correlated=settings.correlated,
        distribution=settings.distribution,
        candidates=settings.candidates,
        distance=settings.distance,
        pairs=configured_pairs(configuration),
    )
    return list(rows)


def _references(settings: SemanticNoiseSection) -> tuple[str, ...]:
    """Return the references to evaluate; ``pair`` only if it is configured, and therefore valid."""
    return ("mean", "pair", "root") if settings.reference == "pair" else ("mean", "root")


def _groups(batches: Iterable[Batch], configuration: Configuration, mechanism: Mechanism) -> list[Batch]:
    """Return the batches, split into groups of sufficient size if the mechanism masks groups."""
    if not mechanism.needs_group:
        return list(batches)
    groups = [group for batch in batches for group in split_batch(batch, configuration.groups.records)]
    return [group for group in groups if group.size >= mechanism.group_minimum]
