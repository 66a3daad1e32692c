"""Real data: the files of ``tests/data``, whose README names their sources and licences."""

from __future__ import annotations

import csv
import gzip
from functools import cache
from pathlib import Path

from stream_masker.core.ontology import Ontology

FOLDER = Path(__file__).resolve().parents[1] / "data"


SMALL = {path.name: path.read_text() for path in sorted((FOLDER / "small").iterdir())}
"""The text of one small ontology in each format: OBO, OBO Graph and OWL, by file name."""


def load(path: Path, text: str) -> Ontology:
    """Write a text to a file, gzipped if its name ends in .gz, and load it."""
    path.write_bytes(gzip.compress(text.encode()) if path.suffix == ".gz" else text.encode())
    return Ontology.load(path)


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
