"""What an attacker learns from masked records: the chance that the best guess of an original code is right.

The attacker knows the mechanism, its parameters, the statistics and the frequencies of the original codes, but not the
secret. Posterior vulnerability: V(A | A*) = Σ_a* max_a P(a, a*), the probability that the most probable original of a
masked code is the true one. It is estimated from repeated masking of the real discharges under different secrets;
``unchanged`` is the share of codes that masking leaves as they are.

``python tests/benchmarks/bench_disclosure.py [--repeats N] [--candidates NAME]``. Needs the data files of
``tests/support/data.py``.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from itertools import product
from pathlib import Path

import numpy as np

sys.path[:0] = [str(Path(__file__).parents[1])]

from support.data import icd9cm
from support.real_codes import as_batch, real_pairs

from stream_masker.core.batch import Batch
from stream_masker.core.distance import WuPalmer
from stream_masker.core.mechanisms import SemanticNoise
from stream_masker.core.mechanisms.noise.semantic import NOISE_CANDIDATES
from stream_masker.core.random.keys import PositionKeys
from stream_masker.core.statistics import count_batch

HEAD = ("rounding", "α", "RMSE", "unchanged", "best guess right")
REPEATS = 100
ALPHAS = (0.1, 0.3, 0.5, 1.0)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=REPEATS, help="times that every record is masked")
    parser.add_argument("--candidates", default="all", choices=NOISE_CANDIDATES, help="the allowed replacements")
    given = parser.parse_args()
    batch = pairs()
    prior = np.bincount(batch.columns[0].codes).max() / batch.size
    print(f"{batch.size:,} records; the most frequent principal code: {prior:.3f}\n")
    print(f"| {' | '.join(HEAD)} |\n|{' --- |' * len(HEAD)}")
    for rounding, alpha in product(("calibrated", "ceil"), ALPHAS):
        figures = disclosure(batch, rounding, alpha, repeats=given.repeats, candidates=given.candidates)
        cells = (f"{figure:.2f}" for figure in figures)
        print(f"| `{rounding}` | {alpha} | {' | '.join(cells)} |", flush=True)


def pairs() -> Batch:
    """The records of the real discharges whose principal and first secondary diagnosis are both known."""
    return as_batch(real_pairs())


def disclosure(
    batch: Batch, rounding: str, alpha: float, *, repeats: int, candidates: str = "all"
) -> tuple[float, float, float]:
    """RMSE, share unchanged and posterior vulnerability of the first attribute, with reference ``pair``."""
    tau = icd9cm().taxonomy()
    noise = SemanticNoise(
        {"a": tau, "b": tau},
        alpha=alpha,
        reference="pair",
        rounding=rounding,
        candidates=candidates,
        seed=b"sixteen bytes or more",
    )
    noise.restore(noise.snapshot_of(noise.compute(count_batch(batch, [len(tau)] * 2), version=1)))
    original = batch.columns[0].codes
    joint, counts = np.zeros(0, np.int64), np.zeros(0, np.int64)
    for masked in repeated(noise, batch, repeats):
        joint, counts = added(joint, counts, masked.astype(np.int64) * len(tau) + original)
    before, after = joint % len(tau), joint // len(tau)
    total = counts.sum()
    distances = WuPalmer(tau).pairs(before.astype(np.int32), after.astype(np.int32))
    best = np.maximum.reduceat(counts, np.flatnonzero(np.diff(after, prepend=-1)))
    return (
        float(np.sqrt((counts * distances**2).sum() / total)),
        float(counts[before == after].sum() / total),
        float(best.sum() / total),
    )


def repeated(noise: SemanticNoise, batch: Batch, repeats: int) -> Iterator[np.ndarray]:
    """The first column of the batch, masked under one secret after the other."""
    offsets = np.arange(batch.size, dtype=np.int64)
    for number in range(repeats):
        keys = PositionKeys(b"secret %d of sixteen bytes" % number, "disclosure", 0, offsets)
        yield noise.mask_batch(batch, keys).columns[0].codes


def added(joint: np.ndarray, counts: np.ndarray, more: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Sorted distinct keys and their counts, with more keys counted."""
    new, amounts = np.unique(more, return_counts=True)
    keys, place = np.unique(np.concatenate([joint, new]), return_inverse=True)
    return keys, np.bincount(place, np.concatenate([counts, amounts])).astype(np.int64)


if __name__ == "__main__":
    main()
