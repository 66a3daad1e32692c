"""Measures of a masked or synthetic table of two diagnoses and two outcomes, most of which are not this project's.

Literature: Cramér 1946 with the bias correction of Bergsma 2013; total variation distance; area under the ROC curve of
a naive Bayes model that learns from one half, masked, and is tested on the other half, unmasked.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np

sys.path[:0] = [str(Path(__file__).parents[1]), str(Path(__file__).parents[2])]

from support.data import discharges, icd9cm
from support.real_codes import as_batch, correlation_of, real_codes, real_rows

from peers.downstream import (
    AncestorFeatures,
    NaiveBayes,
    accuracy_of,
    ancestor_features,
    ancestors_at,
    chapters,
)
from stream_masker.core.distance import WuPalmer
from stream_masker.core.linkage import record_linkage

ATTRIBUTES = ("principal", "secondary")
LEVELS = {"code": 0, "block": 3, "chapter": 2}
"""Depths of the taxonomy, 0 for the concept itself."""

LONG_STAY = 5
"""The least number of days of a long stay, which about half of the records have."""

LINKED = 10_000
"""The number of records among which the intruder links."""


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

    @property
    def chapter_outcomes(self) -> np.ndarray:
        """(n,) int64: a key of the chapter of the principal diagnosis and whether the patient was readmitted."""
        return chapters(self.codes[0], icd9cm().taxonomy()) * 2 + self.readmitted

    def part(self, rows: np.ndarray) -> Records:
        """Return some records."""
        return Records(np.ascontiguousarray(self.codes[:, rows]), self.readmitted[rows], self.stay[rows])

    def with_codes(self, codes: np.ndarray) -> Records:
        """Return the records with other diagnoses and their own outcomes."""
        return replace(self, codes=codes)


def real_records() -> Records:
    """The 101,388 discharges with both diagnoses; readmitted: within 30 days."""
    diagnoses = ("diag_1", "diag_2")
    rows = [discharges()[number] for number in real_rows(diagnoses)]
    outcomes = np.array([[row["readmitted"] == "<30", int(row["time_in_hospital"])] for row in rows], np.int64)
    return Records(real_codes(diagnoses), *np.ascontiguousarray(outcomes.T))


def association(codes: np.ndarray) -> float:
    """Cramér's V of two columns, with Bergsma's correction of its bias."""
    n = codes.shape[1]
    (rows, a), (columns, b) = (np.unique(column, return_inverse=True) for column in codes)
    cells, counts = np.unique(a.astype(np.int64) * columns.size + b, return_counts=True)
    expected = np.bincount(a)[cells // columns.size] * np.bincount(b)[cells % columns.size] / n
    r, c = rows.size, columns.size
    phi = max(0.0, (counts**2 / expected).sum() / n - 1 - (r - 1) * (c - 1) / (n - 1))
    least = min(size - (size - 1) ** 2 / (n - 1) - 1 for size in (r, c))
    return float(np.sqrt(phi / least)) if least > 0 else 0.0


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
        "ΔV": association(masked.codes) - association(original.codes),
        "TV of one": variation(original.codes[0], masked.codes[0]),
        "TV of two": variation(original.pairs, masked.pairs),
        "TV of chapter × readmission": variation(original.chapter_outcomes, masked.chapter_outcomes),
        "AUC of readmission": auc(original, masked, "readmitted"),
        "AUC of stay": auc(original, masked, "stay"),
        "chapter right": chapter_accuracy(original, masked),
    }


def auc(original: Records, masked: Records, outcome: str) -> float:
    """The area under the ROC curve of a model of the outcome: readmission, or a long stay."""
    learn, test = np.arange(masked.size) % 2 == 0, np.arange(original.size) % 2 == 1
    encoders = [AncestorFeatures.of(icd9cm().taxonomy())] * 2
    sizes = [size for encoder in encoders for size in encoder.sizes]
    features = ancestor_features(encoders, list(masked.codes.astype(np.int64)), learn)
    model = NaiveBayes.fit(features, labels(masked, outcome)[learn], sizes)
    scores = model.scores(ancestor_features(encoders, list(original.codes.astype(np.int64)), test))
    return area(scores[:, 1] - scores[:, 0], labels(original, outcome)[test])


def area(scores: np.ndarray, truth: np.ndarray) -> float:
    """The share of pairs of a record of the outcome and another in which the former has the higher score."""
    _, which, counts = np.unique(scores, return_inverse=True, return_counts=True)
    ranks = (np.cumsum(counts) - (counts - 1) / 2)[which]
    positive = truth == 1
    n = positive.sum()
    return float((ranks[positive].sum() - n * (n + 1) / 2) / (n * (truth.size - n)))


def labels(records: Records, outcome: str) -> np.ndarray:
    return records.readmitted if outcome == "readmitted" else (records.stay >= LONG_STAY).astype(np.int64)


def chapter_accuracy(original: Records, masked: Records) -> float:
    """How often a model is right about the chapter of the secondary diagnosis, from the principal one."""
    tau = icd9cm().taxonomy()
    learn, test = np.arange(masked.size) % 2 == 0, np.arange(original.size) % 2 == 1
    (x, y), (known, truth) = masked.codes.astype(np.int64), original.codes.astype(np.int64)
    return accuracy_of([x], chapters(y, tau), [known], chapters(truth, tau), [tau], learn, test)


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


def linked(original: Records, masked: Records) -> float:
    """The share of records that an intruder links, who knows both diagnoses and takes the nearest masked record."""
    chosen = np.random.default_rng(0).permutation(original.size)[:LINKED]
    before, after = (as_batch(records.codes[:, chosen]) for records in (original, masked))
    return record_linkage(before, after.columns, [WuPalmer(icd9cm().taxonomy())] * 2).risk


def uniques_kept(original: Records, masked: Records) -> float:
    """The share of the pairs of one single record that are in the other table too."""
    pairs, counts = np.unique(original.pairs, return_counts=True)
    return float(np.isin(pairs[counts == 1], masked.pairs).mean())


def least_group(masked: Records) -> int:
    """k: the least number of records with the same pair."""
    return int(np.unique(masked.pairs, return_counts=True)[1].min())


def disclosure(original: Records, masked: Records, trials: Sequence[np.ndarray]) -> Mapping[str, float]:
    """What masked records tell; ``trials``: the principal diagnoses of other runs."""
    found = attack(original.codes[0], trials, masked.codes[0])
    return {f"right: {level}": share for level, share in found.items()} | {"linked": linked(original, masked)}
