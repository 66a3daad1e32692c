"""The transition probabilities of one attribute: from the values of the window to classes of masked values.

The measures are in closed form (Alvim and others 2020, The Science of Quantitative Information Flow). With the prior p
over n originals and the transition probabilities P(a* | a), (n, K), the joint law is p(a)·P(a* | a). Every measure
takes this joint law as an (n, K) array whose entries sum to 1, unless stated otherwise.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from stream_masker.core.dtypes import Float64Array, Int32Array
from stream_masker.core.risk.classes import OutputClasses


@dataclass(frozen=True, slots=True, eq=False)
class Channel:
    """P(a* | a) of n values of one attribute, over K classes of masked values. Immutable.

    * ``values``: (n,) int32, positions without repetition.
    * ``rows``: (n, K) float64; each row sums to 1.
    * ``classes``: the classes. P(c | a) is an entry of a row, divided among the concepts of the class by their weights.
    * ``bound``: 0 if the rows are exact. Otherwise, with confidence 0.95, no entry differs from its true value by more
      than this.
    """

    values: Int32Array
    rows: Float64Array
    classes: OutputClasses
    bound: float = 0.0

    @property
    def unchanged(self) -> Float64Array:
        """(n,) float64: P(a | a), the probability that each value stays unchanged."""
        classes = self.classes.class_of[self.values]
        kept = self.rows[np.arange(self.values.size), classes]
        return np.where(classes >= 0, kept, 0.0)


def joint_law(prior: Float64Array, rows: Float64Array) -> Float64Array:
    """Return (n, K) float64: p(a)·P(a* | a)."""
    return np.asarray(prior[:, None] * rows)


def vulnerability(joint: Float64Array) -> float:
    """V(A | A*) = Σ_{a*} max_a p(a)·P(a* | a): the probability that the best guess of the original is right."""
    return float(joint.max(axis=0, initial=0.0).sum())


def greatest_posterior(joint: Float64Array) -> float:
    """Return the greatest posterior of an original, over all masks that can be written."""
    total = joint.sum(axis=0)
    written = total > np.finfo(np.float64).tiny
    return float((joint.max(axis=0, initial=0.0)[written] / total[written]).max(initial=0.0))


def confident_share(joint: Float64Array, threshold: float) -> float:
    """Return the share of records whose best guess is right with a probability above ``threshold``."""
    total, best = joint.sum(axis=0), joint.max(axis=0, initial=0.0)
    return float(total[best > threshold * total].sum())


def conditional_entropy(joint: Float64Array) -> float:
    """H(A | A*) in bits: the uncertainty about the original that remains once the masked value is known."""
    return max(0.0, _sum_of_logs(joint.sum(axis=0)) - _sum_of_logs(joint))


def doubts(joint: Float64Array) -> Float64Array:
    """Return (n,) float64 in [0, 1]: the probability of other originals, averaged over the masks of each original.

    An original without weight has the doubt 1.
    """
    weights, total = joint.sum(axis=1), joint.sum(axis=0)
    inverse = np.divide(1.0, total, out=np.zeros_like(total), where=total > np.finfo(np.float64).tiny)
    right = np.einsum("ac,ac,c->a", joint, joint, inverse)
    share = np.divide(right, weights, out=np.zeros_like(weights), where=weights > 0.0)
    doubt: Float64Array = np.clip(1.0 - share, 0.0, 1.0)
    return doubt


def expected_rank(joint: Float64Array) -> float:
    """Return the expected number of guesses, most probable first, until the original is found.

    Ties are in random order.
    """
    return float(sum(_column_rank(column[column > 0.0]) for column in joint.T))


def differential_epsilon(rows: Float64Array) -> float:
    """ε = max over a*, a, a' of ln P(a* | a) − ln P(a* | a'); ``rows``: (n, K) P(a* | a).

    Infinite if a masked value excludes an original.
    """
    most, least = rows.max(axis=0, initial=0.0), rows.min(axis=0, initial=1.0)
    reached = most > 0.0
    if (least[reached] <= 0.0).any():
        return float("inf")
    return float(np.max(np.log(most[reached]) - np.log(least[reached]), initial=0.0))


def _sum_of_logs(probabilities: Float64Array) -> float:
    positive = probabilities[probabilities > 0.0]
    return float((positive * np.log2(positive)).sum())


def _column_rank(weights: Float64Array) -> float:
    """Return Σ w·rank(w), where rank 1 is the largest weight. Equal weights have the same sum in any order."""
    return float(np.sort(weights) @ np.arange(weights.size, 0, -1))
