"""Thirteen ways in which real discharges change: (2, n) positions in ICD-9-CM, principal and secondary diagnoses."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache

import numpy as np
from numpy.typing import NDArray
from support.data import icd9cm
from support.real_codes import as_batch, in_force, real_pairs

from stream_masker import SemanticNoise
from stream_masker.core.batch import Batch
from stream_masker.core.distance import WuPalmer
from stream_masker.core.mechanisms.expected import expected_masks
from stream_masker.core.random import PositionKeys
from stream_masker.core.statistics import Statistics, compute_statistics, count_batch
from stream_masker.core.statistics.counts import Counts
from stream_masker.core.statistics.drift import Drift, Utility, drift_between, utility

Codes = NDArray[np.int32]
Shift = Callable[[Codes, np.random.Generator], Codes]

NAMES = ("principal", "secondary")
INFLUENZA, RESPIRATORY = "487.1", "460-519"


@cache
def distance() -> WuPalmer:
    return WuPalmer(icd9cm().taxonomy())


def counted(codes: Codes) -> Counts:
    tau = distance().taxonomy
    return count_batch(as_batch(codes), [len(tau)] * 2)


def statistics(codes: Codes, version: int) -> Statistics:
    return compute_statistics(counted(codes), NAMES, [distance()] * 2, version=version)


def drift_of(before: Codes, now: Codes, seed: int = 0) -> Drift:
    older, newer = (statistics(codes, 2 * seed + 1 + i) for i, codes in enumerate((before, now)))
    return drift_between(older, newer, [distance()] * 2, counted(now))


def masked_utility(before: Codes, now: Codes, *, alpha: float = 1.0) -> Utility:
    """The utility of a window that is masked with the statistics of the window before, as a worker masks it.

    The default noise; ``alpha``: the noise level of the worker. The calibrator's is 1.
    """
    taus = dict.fromkeys(NAMES, distance().taxonomy)
    worker, calibrator = (SemanticNoise(taus, alpha=level, seed=b"sixteen bytes or more") for level in (alpha, 1.0))
    counts, batch = counted(now), as_batch(now)
    masked = in_force(worker, as_batch(before)).mask_batch(
        batch, PositionKeys(b"a secret of a worker", "t", 0, np.arange(now.shape[1]))
    )
    original = calibrator.compute(counts, version=2)
    masks = count_batch(Batch(batch.size, masked.columns), [len(distance().taxonomy)] * 2)
    made = expected_masks(calibrator.with_statistics(original, counts), counts)
    after, expected = (compute_statistics(each, NAMES, [distance()] * 2, version=2) for each in (masks, made))
    return utility(original, after, masked.distortions, 1.0, [distance()] * 2, expected=expected, counts=masks)


def windows(size: int, seed: int) -> tuple[Codes, Codes]:
    """Two windows of this size, of different random discharges."""
    pairs, rng = real_pairs(), np.random.default_rng([size, seed])
    some = rng.choice(pairs.shape[1], 2 * size, replace=False)
    return pairs[:, some[:size]], pairs[:, some[size:]]


@cache
def _parents() -> Codes:
    """(m,) the parent of each concept of the tree; the root's is itself."""
    return np.append(0, distance().taxonomy.parents).astype(np.int32)


@cache
def _children() -> Codes:
    """(m,) the first child of each concept; a leaf's is itself."""
    child = np.arange(len(distance().taxonomy), dtype=np.int32)
    for position in range(child.size - 1, 0, -1):
        child[_parents()[position]] = position
    return child


@cache
def _chapters() -> Codes:
    """(m,) the chapter of each concept; the root's is itself."""
    depth, chapter = distance().taxonomy.depth, np.arange(len(distance().taxonomy), dtype=np.int32)
    while (depth[chapter] > 2).any():
        chapter = np.where(depth[chapter] > 2, _parents()[chapter], chapter)
    return chapter


def _outbreak(share: float) -> Shift:
    def shift(codes: Codes, rng: np.random.Generator) -> Codes:
        ill, changed = rng.random(codes.shape[1]) < share, codes.copy()
        changed[0, ill] = distance().taxonomy.position(INFLUENZA)
        return changed

    return shift


def _uniform(codes: Codes, rng: np.random.Generator) -> Codes:
    changed, chapters = codes.copy(), _chapters()
    for row in changed:
        used = np.unique(row)
        for chapter in np.unique(chapters[used]):
            some = chapters[row] == chapter
            row[some] = rng.choice(used[chapters[used] == chapter], np.count_nonzero(some))
    return changed


def _shuffled(share: float) -> Shift:
    def shift(codes: Codes, rng: np.random.Generator) -> Codes:
        some, changed = np.flatnonzero(rng.random(codes.shape[1]) < share), codes.copy()
        changed[1, some] = changed[1, rng.permutation(some)]
        return changed

    return shift


def _without(share: float) -> Shift:
    def shift(codes: Codes, rng: np.random.Generator) -> Codes:
        lost = _chapters()[codes[0]] == distance().taxonomy.position(RESPIRATORY)
        return codes[:, ~lost | (rng.random(codes.shape[1]) >= share)]

    return shift


def _replaced(codes: Codes, rng: np.random.Generator) -> Codes:
    values, counts = np.unique(codes[0], return_counts=True)
    most = values[counts.argmax()]
    return np.where(codes == most, _parents()[most], codes).astype(np.int32)


def _random(codes: Codes, rng: np.random.Generator) -> Codes:
    wrong = rng.random(codes.shape) < 0.05
    return np.where(wrong, rng.integers(1, len(distance().taxonomy), codes.shape), codes).astype(np.int32)


SHIFTS: Mapping[str, Shift] = {
    "an outbreak of influenza, 10 % of principal diagnoses": _outbreak(0.1),
    "an outbreak of influenza, 2 % of principal diagnoses": _outbreak(0.02),
    "all codes recoded to a child": lambda codes, _: _children()[codes],
    "all codes recoded to their parent": lambda codes, _: _parents()[codes],
    "codes uniform within their chapter": _uniform,
    "half of the secondary diagnoses shuffled": _shuffled(0.5),
    "all secondary diagnoses shuffled": _shuffled(1.0),
    "the respiratory chapter lost": _without(1.0),
    "half of the respiratory chapter lost": _without(0.5),
    "principal and secondary diagnosis swapped": lambda codes, _: codes[::-1],
    "5 % of the codes random": _random,
    "the most frequent code replaced by its category": _replaced,
    "every record twice": lambda codes, _: codes[:, np.arange(codes.shape[1]) // 2],
}
