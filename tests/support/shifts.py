"""Ways in which real discharges change: (2, n) positions in ICD-9-CM, principal and secondary diagnoses."""

from __future__ import annotations

from functools import cache, partial

import numpy as np
from numpy.typing import NDArray
from support.data import icd9cm
from support.real_codes import as_batch, in_force, real_pairs

from stream_masker import SemanticNoise
from stream_masker.core.batch import Batch
from stream_masker.core.distance import WuPalmer
from stream_masker.core.random import PositionKeys
from stream_masker.core.risk.law import expected_masks
from stream_masker.core.statistics import Statistics, compute_statistics, count_batch
from stream_masker.core.statistics.counts import Counts
from stream_masker.core.statistics.drift import Drift, drift_between
from stream_masker.core.statistics.utility import Utility, utility

Codes = NDArray[np.int32]

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
    made = expected_masks(calibrator.with_statistics(original, counts), counts, [len(distance().taxonomy)] * 2)
    after, expected = (compute_statistics(each, NAMES, [distance()] * 2, version=2) for each in (masks, made))
    return utility(original, after, masked.distortions, 1.0, [distance()] * 2, expected=expected, counts=masks)


def windows(size: int, seed: int) -> tuple[Codes, Codes]:
    """Two windows of this size, of different random discharges."""
    pairs, rng = real_pairs(), np.random.default_rng([size, seed])
    some = rng.choice(pairs.shape[1], 2 * size, replace=False)
    return pairs[:, some[:size]], pairs[:, some[size:]]


def outbreak(share: float, codes: Codes, rng: np.random.Generator) -> Codes:
    changed = codes.copy()
    changed[0, rng.random(codes.shape[1]) < share] = distance().taxonomy.position(INFLUENZA)
    return changed


def recoded(codes: Codes) -> Codes:
    """Every code becomes its first child; a leaf stays."""
    tau = distance().taxonomy
    children, below = np.arange(len(tau), dtype=np.int32), np.repeat(np.arange(len(tau)), np.diff(tau.parent_offsets))
    children[tau.parents[::-1]] = below[::-1]
    return children[codes]


def shuffled(codes: Codes, rng: np.random.Generator) -> Codes:
    """Half of the secondary diagnoses change their records."""
    some, changed = np.flatnonzero(rng.random(codes.shape[1]) < 0.5), codes.copy()
    changed[1, some] = changed[1, rng.permutation(some)]
    return changed


def without(codes: Codes, rng: np.random.Generator) -> Codes:
    """Half of the records with a principal diagnosis of the respiratory chapter are lost."""
    tau = distance().taxonomy
    lost = np.array([RESPIRATORY in tau.ancestors_of(tau.ids[code]) for code in np.unique(codes[0])])
    lost = lost[np.unique(codes[0], return_inverse=True)[1]]
    return codes[:, ~lost | (rng.random(codes.shape[1]) >= 0.5)]


def randomised(codes: Codes, rng: np.random.Generator) -> Codes:
    wrong = rng.random(codes.shape) < 0.05
    return np.where(wrong, rng.integers(1, len(distance().taxonomy), codes.shape), codes).astype(np.int32)


SHIFTS = {
    "an outbreak of influenza, 10 % of principal diagnoses": (0, partial(outbreak, 0.1)),
    "an outbreak of influenza, 2 % of principal diagnoses": (1, partial(outbreak, 0.02)),
    "all codes recoded to a child": (2, lambda codes, _: recoded(codes)),
    "half of the secondary diagnoses shuffled": (5, shuffled),
    "half of the respiratory chapter lost": (8, without),
    "5 % of the codes random": (10, randomised),
    "every record twice": (12, lambda codes, _: codes[:, np.arange(codes.shape[1]) // 2]),
}
"""The seed of the windows of each shift, and the shift."""
