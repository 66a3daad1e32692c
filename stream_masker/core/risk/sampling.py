"""The measures of whole records, by Rao–Blackwell Monte Carlo.

A record and its masks are drawn. The posterior over all combinations of the window's values is computed exactly, and
its maximum is averaged over the draws. Each term lies in [0, 1], so the mean of n terms differs from its expectation by
more than √(ln(2/δ) / 2n) with a probability of at most δ (Hoeffding 1963).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from stream_masker.core.dtypes import Float64Array, Int32Array, Int64Array
from stream_masker.core.risk.records import MaskLaw, Tuples

ERROR_PROBABILITY = 0.05
"""δ: the probability with which an estimate may miss its bound."""

BISECTIONS = 60
"""The number of bisections of ``upper_bound``."""

MaskFunction = Callable[[tuple[Int32Array, ...], int], tuple[Int32Array, ...]]
"""A function that masks records, given as positions by attribute. The number distinguishes independent repetitions."""


@dataclass(frozen=True, slots=True)
class RecordRisk:
    """The risk of records with one or two attributes, when the attacker has all of their masks.

    If one of two attributes is an array, its value is one of its elements (``core.risk.events``).

    * ``vulnerability``: the chance that the best guess of all values together is right.
    * ``of_attributes``: for each attribute, the chance that the best guess of its value is right.
    * ``unchanged``: the share of records with no value changed, by any of the repetitions.
    * ``bound``: with confidence 0.95, none of these differs from its true value by more.
    """

    vulnerability: float
    of_attributes: tuple[float, ...]
    unchanged: float
    bound: float


def hoeffding_bound(draws: int, error: float = ERROR_PROBABILITY) -> float:
    """Return √(ln(2/δ) / 2n), the bound of the mean of n independent terms in [0, 1], with confidence 1 − δ."""
    return math.sqrt(math.log(2.0 / error) / (2.0 * draws))


def upper_bound(mean: float, terms: int, error: float = ERROR_PROBABILITY) -> float:
    """Return an upper bound, with confidence 1 − δ, of the expectation of n independent terms in [0, 1].

    It is the number q above their mean with n·D(mean, q) = ln(1/δ), where D is the relative entropy of two Bernoulli
    laws (Hoeffding 1963: equation 2.1). It is far below mean + ``hoeffding_bound`` if the mean is near 0.
    """
    limit = math.log(1.0 / error) / terms
    low, high = mean, 1.0
    for _ in range(BISECTIONS):
        middle = (low + high) / 2.0
        low, high = (middle, high) if _relative_entropy(mean, middle) <= limit else (low, middle)
    return high


def _relative_entropy(p: float, q: float) -> float:
    """Return p·ln(p/q) + (1 − p)·ln((1 − p)/(1 − q)), for p in [0, 1] and q in [p, 1]."""
    first = p * math.log(p / q) if p > 0.0 else 0.0
    if p == 1.0:
        return first
    return first + (1.0 - p) * math.log((1.0 - p) / (1.0 - q)) if q < 1.0 else math.inf


def sample_record_risk(
    tuples: Tuples, law: MaskLaw, mask: MaskFunction, *, draws: int, repeats: int = 1, seed: int = 0
) -> RecordRisk:
    """Estimate the risk of a record whose masks were seen ``repeats`` times, with independent random words."""
    drawn = tuples.draw(np.random.default_rng(seed), draws)
    originals = tuple(codes[drawn] for codes in tuples.codes)
    masks = [mask(originals, repetition) for repetition in range(repeats)]
    groups = [np.unique(codes, return_inverse=True)[1] for codes in tuples.codes]
    best = np.zeros((draws, 1 + len(groups)))
    for i in range(draws):
        seen = [tuple(int(column[i]) for column in columns) for columns in masks]
        best[i] = _best_guesses(_posterior(tuples, law, seen), groups)
    same = [np.logical_and.reduce([a == b for a, b in zip(originals, m, strict=True)]) for m in masks]
    means = best.mean(axis=0).tolist()
    return RecordRisk(
        vulnerability=means[0],
        of_attributes=tuple(means[1:]),
        unchanged=float(np.logical_and.reduce(same).mean()),
        bound=hoeffding_bound(draws),
    )


def _posterior(tuples: Tuples, law: MaskLaw, seen: list[tuple[int, ...]]) -> Float64Array:
    """Return (t,) float64: the posterior over all combinations."""
    weights = tuples.prior.copy()
    for masked in seen:
        weights *= law.likelihood(masked)
        weights /= weights.sum()
    return weights


def _best_guesses(posterior: Float64Array, groups: list[Int64Array]) -> list[float]:
    """Return the chance of the best guess of the combination, and of the value of each attribute."""
    return [float(posterior.max()), *(float(np.bincount(group, posterior).max()) for group in groups)]
