"""Real data: the files of ``tests/data``, whose README names their sources and licences."""

from __future__ import annotations

import csv
import gzip
from functools import cache
from pathlib import Path

from stream_masker.core.ontology import Ontology

FOLDER = Path(__file__).resolve().parents[1] / "data"


def data_file(name: str) -> Path:
    """The path of a data file."""
    return FOLDER / name


@cache
def icd9cm() -> Ontology:
    """ICD-9-CM diagnoses, 17,727 concepts."""
    return Ontology.load(data_file("icd9cm-diagnoses.csv.gz"))


@cache
def discharges() -> list[dict[str, str]]:
    """101,766 real discharges by column; ``?`` is a missing value."""
    with gzip.open(data_file("uci-discharges.csv.gz"), "rt", newline="") as lines:
        return list(csv.DictReader(lines))


MUSHROOM_COLUMNS = """
class cap_shape cap_surface cap_color bruises odor gill_attachment gill_spacing gill_size gill_color
stalk_shape stalk_root stalk_surface_above_ring stalk_surface_below_ring stalk_color_above_ring
stalk_color_below_ring veil_type veil_color ring_number ring_type spore_print_color population habitat
"""


@cache
def mushroom() -> list[dict[str, str]]:
    """The 5,644 mushrooms with all 23 values; rows with a missing value are shorter."""
    with gzip.open(data_file("mushroom.csv.gz"), "rt", newline="") as lines:
        names = MUSHROOM_COLUMNS.split()
        return [dict(zip(names, row, strict=True)) for row in csv.reader(lines) if len(row) == len(names)]
