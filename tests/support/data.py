"""The real data, where it is there; a test that asks for it skips, naming the file, where it is not."""

from __future__ import annotations

import csv
import gzip
from functools import cache
from pathlib import Path

import pytest

from stream_masker.core.ontology import Ontology

FOLDER = Path(__file__).resolve().parents[3] / "shared" / "data"


def data_file(name: str) -> Path:
    """The path of a data file; skips the test where it is absent."""
    path = FOLDER / name
    if not path.exists():
        pytest.skip(f"needs the data file {name}")
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
    """101,766 real discharges, as the columns of their file; ``?`` is missing."""
    return _discharges(data_file("uci-discharges.csv.gz"))
