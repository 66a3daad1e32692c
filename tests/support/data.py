"""Real data: the files of ``tests/data``, whose README names their sources and licences."""

from __future__ import annotations

import csv
import gzip
from functools import cache
from pathlib import Path
from random import Random

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


OF_WOMEN = ((174, 175), (179, 185), (218, 222), (256, 257), (614, 680))
OF_MEN = ((175, 176), (185, 188), (222, 223), (257, 258), (600, 609))
"""The categories of ICD-9-CM that only one sex has, as ranges: of its breast and genital organs, and of pregnancy."""


def sex_of_code(code: str) -> str | None:
    """``F`` or ``M`` for a code that only one sex has; otherwise None."""
    category = int(code[:3]) if code[:3].isdigit() else 0
    for sex, ranges in (("F", OF_WOMEN), ("M", OF_MEN)):
        if any(first <= category < end for first, end in ranges):
            return sex
    return None


@cache
def discharges_with_sex() -> list[dict[str, str]]:
    """The discharges with a column ``sex``, which the excerpt lacks: that of their codes, otherwise drawn."""
    rng = Random(4)
    rows = []
    for row in discharges():
        drawn = "F" if rng.random() < 0.54 else "M"
        of_codes = [sex_of_code(row[name].zfill(3)) for name in ("diag_1", "diag_2", "diag_3")]
        rows.append({**row, "sex": next((sex for sex in of_codes if sex), drawn)})
    return rows


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
def mushroom() -> list[dict[str, str]]:
    """The 5,644 mushrooms with all 23 values; rows with a missing value are shorter."""
    with gzip.open(data_file("mushroom.csv.gz"), "rt", newline="") as lines:
        return [dict(zip(MUSHROOM, row, strict=True)) for row in csv.reader(lines) if len(row) == len(MUSHROOM)]
