"""The data sets of the commands that evaluate methods, and the options that these commands share."""

from __future__ import annotations

import os
from itertools import count
from pathlib import Path

import click

from stream_masker.cli.options import information, tell_if_waiting
from stream_masker.core.mechanisms import MECHANISMS
from stream_masker.core.window import joined
from stream_masker.errors import ServiceError
from stream_masker.evaluation.candidates import Candidate
from stream_masker.evaluation.dataset import DataSet, sampled
from stream_masker.pipeline.masker import RecordMasker
from stream_masker.service.configuration import Configuration
from stream_masker.service.configuration.build import (
    build_mechanism,
    build_plan,
    build_taxonomies,
    mechanism_parameters,
    numeric_range,
)
from stream_masker.service.configuration.secret import read_secret
from stream_masker.service.files.events import open_events
from stream_masker.service.formats.wire_format import file_format
from stream_masker.service.observability.progress import shown_activity

ALL_NAMES = "all"


def read_dataset(configuration: Configuration, source: str, records: int) -> DataSet:
    """Read the events of a file, or a sample of this size. Raises ServiceError if none of them can be used."""
    secret = read_secret(configuration)
    tell_if_waiting(source)
    opened = open_events(source, configuration.produce, configuration.records)
    with shown_activity(information()) as show, opened as file:
        show("loading the ontologies")
        masker = RecordMasker(
            build_plan(configuration),
            build_mechanism(configuration, secret),
            secret,
            record_format=file_format(configuration),
        )
        show(f"reading {Path(source).name}")
        numbers_read = count()
        whole = joined(list(masker.encode(line for (_, line), _ in zip(file.lines, numbers_read, strict=False))))
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
        numeric={name: numeric_range(configuration, name) for name in configuration.numeric},
        distance=getattr(configuration.mechanism, "distance", "wu_palmer"),
        available=whole.size if 0 < records < whole.size else None,
        left_out=left_out,
    )


def configured_candidate(configuration: Configuration) -> Candidate:
    """Return the configured mechanism as a candidate."""
    options = {name: value for name, value in mechanism_parameters(configuration).items() if name != "numeric"}
    return Candidate(configuration.mechanism.name, "as configured", "", options)


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


records_option = click.option(
    "--records",
    type=click.IntRange(0),
    default=2_000,
    show_default=True,
    help="Size of the random sample that is measured; 0 for the whole file.",
)
mechanisms_option = click.option(
    "--mechanisms",
    default=ALL_NAMES,
    show_default=True,
    callback=names_of_mechanisms,
    metavar="NAMES",
    help="Methods to measure, by their names in the configuration, separated by commas.",
)
processes_option = click.option(
    "--processes",
    type=click.IntRange(1),
    default=os.cpu_count() or 1,
    show_default="one per core",
    help="Number of processes.",
)
repeats_option = click.option(
    "--repeats",
    type=click.IntRange(1),
    default=20,
    show_default=True,
    help="How often the attacker masks the sample to learn which original becomes which masked value.",
)
