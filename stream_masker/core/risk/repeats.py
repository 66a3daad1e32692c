"""The vulnerability after repeats: an attacker has several masks of the same value, with independent random words.

A value and its masks are drawn, and the posterior is computed from the prior and the transition probabilities. If these
are exact, the posterior's maximum is averaged (Rao–Blackwell). If they are estimates from random groups, the masks are
those of one half of the groups, and the attacker has learned from the other half. The figure is then the share of right
guesses of this attack, which the exact vulnerability can exceed. In both cases the terms lie in [0, 1], and
``hoeffding_bound`` holds for the drawing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from stream_masker.core.dtypes import Float64Array, Int64Array

SMOOTHINGS = (1.0, 4.0, 16.0, 64.0, 256.0)
"""The numbers of observations that an attacker may add to those of each value."""


@dataclass(frozen=True, slots=True, eq=False)
class TrialRows:
    """What an attacker knows of a channel, and the masks that they see.

    * ``known``: (n, K) float64, the transition probabilities that the attacker knows. Positive if they are estimates.
    * ``seen``: (n, K) int64, the numbers of observed masks of each value, from which masks are drawn without
      replacement; None to draw from ``known``.
    """

    known: Float64Array
    seen: Int64Array | None = None


@dataclass(frozen=True, slots=True)
class RepeatedRisk:
    """The chance that the best guess of an attribute's value is right after repeats, by attribute.

    * ``given_value``: from the value's own masks, in records whose other values are independent.
    * ``given_record``: from all masks of the records, which have equal values (``Risk.given_record``); None if the law
      of all masks is not known.
    * ``bound``: with confidence 0.95, the error of each figure by drawing, which is smaller for ``given_value``.
    """

    given_value: Mapping[str, float]
    given_record: Mapping[str, float] | None
    bound: float


def repeated_vulnerability(prior: Float64Array, rows: TrialRows, *, repeats: int, draws: int, seed: int = 0) -> float:
    """Return the chance that the best guess of a value is right, from ``repeats`` masks of it.

    If fewer masks of a value were observed, the attacker sees these alone.

    ``prior``: (n,) the share of each value. ``draws``: the number of values drawn. Takes O(draws · (K + repeats · n)).
    """
    generator = np.random.default_rng(seed)
    total = 0.0
    for value in generator.choice(prior.size, draws, p=prior).tolist():
        if rows.seen is None:
            masks = generator.multinomial(repeats, rows.known[value])
            total += float(_posterior(prior, rows.known, masks).max())
        else:
            observed = rows.seen[value]
            masks = generator.multivariate_hypergeometric(
                observed, min(repeats, int(observed.sum())), method="marginals"
            )
            total += _right(_posterior(prior, rows.known, masks), value)
    return total / draws


def _posterior(prior: Float64Array, rows: Float64Array, masks: Int64Array) -> Float64Array:
    """Return (n,) float64: the posterior, given the number of each mask, (K,) int64."""
    weights = prior.copy()
    for mask in np.repeat(np.arange(masks.size), masks).tolist():
        weights *= rows[:, mask]
        weights /= weights.sum()
    return weights


def _right(posterior: Float64Array, value: int) -> float:
    """Return the chance that a best guess is the value: one of equally probable ones is chosen at random."""
    best = posterior == posterior.max()
    return float(best[value]) / float(np.count_nonzero(best))


def learned_rows(counts: Int64Array) -> Float64Array:
    """Return the transition probabilities that an attacker learns from counts of masks, (n, K), each positive.

    To those of each value, c observations are added that are distributed as the masks of all values. c is the one of
    ``SMOOTHINGS`` by which each observation is the most probable, given all others (leave-one-out).
    """
    marginal = counts.sum(axis=0) + 1.0 / counts.shape[1]
    base, totals = marginal / marginal.sum(), counts.sum(axis=1, keepdims=True)
    rows, columns = np.nonzero(counts)
    cells, sizes = counts[rows, columns], totals[rows, 0]
    fits = [cells @ np.log((cells - 1 + c * base[columns]) / (sizes - 1 + c)) for c in SMOOTHINGS]
    smoothing = SMOOTHINGS[int(np.argmax(fits))]
    return np.asarray((counts + smoothing * base) / (totals + smoothing))
