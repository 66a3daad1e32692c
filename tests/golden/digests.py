"""Digests of outcomes: how they are computed, and the file that holds the expected ones."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from golden.adapter import calibrate_and_mask
from golden.cases import CASES

FILE = Path(__file__).with_name("digests.json")
PARTS = ("events", "masked", "rejected", "blocks", "statistics")
SIGNIFICANT = 9
"""The digits to which floats of blocks and statistics are rounded."""

NEGLIGIBLE = 1e-12
"""Floats below this are written as 0: they are rounding errors in differences of equal numbers."""

Digests = dict[str, str]
Lines = Mapping[str, Sequence[bytes]]


def expected() -> dict[str, Digests]:
    """The expected digests of each case, from the file."""
    found: dict[str, Digests] = json.loads(FILE.read_text())
    return found


def save(digests: Mapping[str, Digests]) -> None:
    """Writes the digests of all cases to the file, sorted by name."""
    FILE.write_text(json.dumps({name: digests[name] for name in sorted(digests)}, indent=1) + "\n")


def mark() -> str:
    """The text by which the changelog names the set: the first digits of the hash of the file."""
    return f"golden set {hashlib.sha256(FILE.read_bytes()).hexdigest()[:8]}"


def lines_of(name: str, folder: Path) -> Lines:
    """The parts of a case as lines. ``folder`` holds the files that the configurations name."""
    case = CASES[name]
    rounds = case.rounds()
    outcome = calibrate_and_mask(case.configuration, rounds, folder)
    return {
        "events": [repr(event).encode() for some in rounds for part in some.values() for event in part],
        "masked": outcome.masked,
        "rejected": outcome.rejected,
        "blocks": [rounded(line) for line in outcome.blocks],
        "statistics": [rounded(line) for line in outcome.statistics],
    }


def digests_of(lines: Lines) -> Digests:
    """The SHA-256 of each part, in hexadecimal digits."""
    return {part: _digest(lines[part]) for part in PARTS}


def _digest(lines: Iterable[bytes]) -> str:
    return hashlib.sha256(b"".join(line + b"\n" for line in lines)).hexdigest()


def rounded(line: bytes) -> bytes:
    """JSON with its floats rounded; integers stay exact."""
    return json.dumps(_rounded(json.loads(line)), separators=(",", ":")).encode()


def _rounded(value: Any) -> Any:
    if isinstance(value, float):
        return float(f"{value:.{SIGNIFICANT}g}") if abs(value) >= NEGLIGIBLE else 0.0
    if isinstance(value, list):
        return [_rounded(one) for one in value]
    return {key: _rounded(one) for key, one in value.items()} if isinstance(value, dict) else value
