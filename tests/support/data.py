"""Real data. A test that needs a missing file is skipped, with the name of the file as the reason."""

from __future__ import annotations

import csv
import gzip
from functools import cache
from pathlib import Path

import pytest

from stream_masker.core.ontology import Ontology

FOLDER = Path(__file__).resolve().parents[3] / "shared" / "data"


def data_file(name: str) -> Path:
    """The path of a data file. Skips the test if it does not exist."""
    path = FOLDER / name
    if not path.exists():
        pytest.skip(f"the file {name} is not part of the project: put it into {FOLDER}")
    return path


@cache
def _icd9cm(path: Path) -> Ontology:
    return Ontology.load(path)


def icd9cm() -> Ontology:
    """ICD-9-CM diagnoses, 17,727 concepts."""
    return _icd9cm(data_file("icd9cm-diagnoses.csv.gz"))


@cache
def _discharges(path: Path) -> list[dict[str, str]]:
    with gzip.open(path, "rt", newline="") as lines:
        return list(csv.DictReader(lines))


def discharges() -> list[dict[str, str]]:
    """101,766 real discharges by column; ``?`` is a missing value."""
    return _discharges(data_file("uci-discharges.csv.gz"))


MUSHROOM = (
    "class",
    "cap_shape",
    "cap_surface",
    "cap_color",
    "bruises",
    "odor",
    "gill_attachment",
    "gill_spacing",
    "gill_size",
    "gill_color",
    "stalk_shape",
    "stalk_root",
    "stalk_surface_above_ring",
    "stalk_surface_below_ring",
    "stalk_color_above_ring",
    "stalk_color_below_ring",
    "veil_type",
    "veil_color",
    "ring_number",
    "ring_type",
    "spore_print_color",
    "population",
    "habitat",
)


@cache
def _mushroom(path: Path) -> list[dict[str, str]]:
    with gzip.open(path, "rt", newline="") as lines:
        return [dict(zip(MUSHROOM, row, strict=True)) for row in csv.reader(lines) if len(row) == len(MUSHROOM)]


def mushroom() -> list[dict[str, str]]:
    """The 5,644 mushrooms with all 23 values; rows with a missing value are shorter."""
    return _mushroom(data_file("mushroom.csv.gz"))
