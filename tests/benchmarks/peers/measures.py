"""Measures of a masked or synthetic table of two diagnoses."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np

sys.path[:0] = [str(Path(__file__).parents[1]), str(Path(__file__).parents[2])]

from support.data import discharges, icd9cm
from support.downstream import ancestors_at
from support.real_codes import correlation_of, real_codes, real_rows

from stream_masker.core.distance import WuPalmer

ATTRIBUTES = ("principal", "secondary")
LEVELS = {"code": 0, "block": 3, "chapter": 2}
"""Depths of the taxonomy, 0 for the concept itself."""


@dataclass(frozen=True, eq=False)
class Records:
    """n records. codes: (2, n) int32 positions of both diagnoses. readmitted: (n,), 0 or 1. stay: (n,) days."""

    codes: np.ndarray
    readmitted: np.ndarray
    stay: np.ndarray

    @property
    def size(self) -> int:
        return self.codes.shape[1]

    @cached_property
    def pairs(self) -> np.ndarray:
        """(n,) int64: a key of both diagnoses."""
        return self.codes[0].astype(np.int64) << 32 | self.codes[1]

    def with_codes(self, codes: np.ndarray) -> Records:
        """Return the records with other diagnoses and their own outcomes."""
        return replace(self, codes=codes)


def real_records() -> Records:
    """The 101,388 discharges with both diagnoses; readmitted: within 30 days."""
    diagnoses = ("diag_1", "diag_2")
    rows = [discharges()[number] for number in real_rows(diagnoses)]
    outcomes = np.array([[row["readmitted"] == "<30", int(row["time_in_hospital"])] for row in rows], np.int64)
    return Records(real_codes(diagnoses), *np.ascontiguousarray(outcomes.T))


def variation(first: np.ndarray, second: np.ndarray) -> float:
    """The total variation distance of the laws of two columns of keys."""
    keys, place = np.unique(np.concatenate([first, second]), return_inverse=True)
    laws = [np.bincount(part, minlength=keys.size) / part.size for part in (place[: first.size], place[first.size :])]
    return float(np.abs(laws[0] - laws[1]).sum() / 2)


def utility(original: Records, masked: Records) -> dict[str, float]:
    """The measures of a table that has codes of the taxonomy."""
    before, after = correlation_of(original.codes), correlation_of(masked.codes)
    return {
        "ΔsdCor": after - before,
        "TV of one": variation(original.codes[0], masked.codes[0]),
        "TV of two": variation(original.pairs, masked.pairs),
    }


def rmse(original: Records, masked: Records) -> float:
    """√(Σ sd(a, a*)² / n) of the principal diagnosis."""
    distances = WuPalmer(icd9cm().taxonomy()).pairs(original.codes[0], masked.codes[0])
    return float(np.sqrt((distances**2).mean()))


def attack(truth: np.ndarray, trials: Sequence[np.ndarray], masked: np.ndarray) -> dict[str, float]:
    """How often an attacker is right about the principal diagnosis, by level of the taxonomy.

    The attacker has masked the same records several times (``trials``), so knows what became of which code, and guesses
    the most frequent original of each mask; at least as often right as by guessing the most frequent value of all.
    """
    return {level: _guessed(at_level(truth, depth), trials, masked) for level, depth in LEVELS.items()}


def at_level(codes: np.ndarray, depth: int) -> np.ndarray:
    """(n,) int64: the ancestors at a depth; -1 for a concept above it. The codes themselves for depth 0."""
    return ancestors_at(icd9cm().taxonomy(), depth)[codes] if depth else codes.astype(np.int64)


def _guessed(truth: np.ndarray, trials: Sequence[np.ndarray], masked: np.ndarray) -> float:
    values, which = np.unique(truth, return_inverse=True)
    masks, seen = np.unique(np.concatenate([*trials, masked]), return_inverse=True)
    learned, asked = seen[: -masked.size], seen[-masked.size :]
    cells, counts = np.unique(learned * values.size + np.tile(which, len(trials)), return_counts=True)
    guess = np.full(masks.size, np.bincount(which).argmax())
    order = np.argsort(counts, kind="stable")
    guess[cells[order] // values.size] = cells[order] % values.size
    return max(float((guess[asked] == which).mean()), float(np.bincount(which).max() / which.size))


def least_group(masked: Records) -> int:
    """k: the least number of records with the same pair."""
    return int(np.unique(masked.pairs, return_counts=True)[1].min())


def disclosure(original: Records, masked: Records, trials: Sequence[np.ndarray]) -> Mapping[str, float]:
    """What masked records tell; ``trials``: the principal diagnoses of other runs."""
    found = attack(original.codes[0], trials, masked.codes[0])
    return {f"right: {level}": share for level, share in found.items()}
