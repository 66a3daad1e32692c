"""Somebody who sends one person's event again and again does not decide the statistics of the window."""

from __future__ import annotations

from pathlib import Path

import orjson
import pytest
from support.small_configuration import write_small

from stream_masker.core.statistics.counts import merge
from stream_masker.pipeline.records import InputRecord
from stream_masker.service.configuration import load_configuration
from stream_masker.service.files.masking import FileMasking
from stream_masker.service.masking import Masking

CODES = [f"{chapter}{leaf}" for chapter in "ABCDEF" for leaf in range(10)]
OTHERS, FLOOD = 2_000, 19
"""The records of other persons, and those of the flood for each of them."""


def variance(folder: Path, key_share: float, flood: int) -> float:
    """Return sVar of what a worker counts of a stream, in batches of 100 records."""
    rows = ["concept,parent", "R,", *(f"{chapter},R" for chapter in "ABCDEF"), *(f"{c},{c[0]}" for c in CODES)]
    path = write_small(
        folder,
        rows="\n".join(rows) + "\n",
        secret=b"a secret of the tests only",
        attributes={"code": {"path": "code", "ontology": "small", "alpha": 1.0}},
        mechanism={"name": "semantic_noise", "reference": "mean", "correlated": False},
        noise_key="patient",
        calibration={"min_records": 10, "key_share": key_share},
    )
    configuration = load_configuration(path, {})
    masking = Masking(configuration)
    sample = [orjson.dumps({"code": code, "patient": code}) for code in CODES]
    masking.restore(FileMasking(configuration).snapshot(enumerate(sample)))
    values = [
        orjson.dumps(event)
        for number in range(OTHERS)
        for event in (
            {"code": CODES[number % len(CODES)], "patient": number},
            *[{"code": "A0", "patient": "one"}] * flood,
        )
    ]
    records = [InputRecord(offset, value) for offset, value in enumerate(values)]
    parts = [records[start : start + 100] for start in range(0, len(records), 100)]
    results = [masking.masker.mask("discharges", 0, part, statistics_version=1) for part in parts]
    counts = merge(block.original for result in results for block in result.blocks)
    return float(masking.mechanism.compute(counts, version=2).variance["code"])  # type: ignore[attr-defined]


def test_the_noise_stays_that_of_the_others(tmp_path: Path) -> None:
    """Of a stream of which 95 % is one event; without the bound sVar falls to less than a quarter."""
    alone = variance(tmp_path, 1.0, 0)
    assert variance(tmp_path, 1.0, FLOOD) < alone / 4
    assert variance(tmp_path, 0.01, FLOOD) == pytest.approx(alone, rel=0.06)
