"""The semantic mean and variance of nominal values (2017: equations 13 and 14)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from stream_masker.core.distance import Concepts, Distance
from stream_masker.core.statistics.counts import SparseCounts, count_keys
from stream_masker.core.statistics.marginal import Marginal

TIE = 1e-12
"""Totals that differ by no more than this, relative to the least, are equal."""


def semantic_mean(values: Concepts, d: Distance) -> str:
    """sMean(A) = argmin over every c in τ of Σ sd(c, a_i) (2017: equation 13); a concept id.

    ``values``: n concept ids or positions. Ties (the paper takes any): smallest depth, then smallest id. Raises
    StatisticsError for no values, UnknownConceptError for a value outside the taxonomy.
    """
    return d.taxonomy.ids[mean_from_counts(value_counts(values, d), d)]


def semantic_variance(values: Concepts, d: Distance) -> float:
    """sVar(A) = (1/n) Σ sd(a_i, sMean(A))², in [0, 1] (2017: equation 14). Raises as ``semantic_mean``."""
    return variance_from_counts(value_counts(values, d), d)


def value_counts(values: Concepts, d: Distance) -> SparseCounts:
    """How often each concept occurs among n ids or positions. Raises UnknownConceptError."""
    return count_keys(d.encode(values).astype(np.int64))


def mean_from_counts(counts: SparseCounts, d: Distance) -> int:
    """The position of sMean, from the counts of an attribute's values.

    In a tree O(τ·H²) whatever the number of distinct values; in a DAG one pass over τ per distinct value.
    """
    totals = _totals(Marginal(counts, d))
    least = np.flatnonzero(totals <= totals.min() * (1.0 + TIE))
    shallow = least[d.taxonomy.depth[least] == d.taxonomy.depth[least].min()]
    return int(min(shallow, key=lambda c: d.taxonomy.ids[c]))


def variance_from_counts(counts: SparseCounts, d: Distance, *, mean: int | None = None) -> float:
    """sVar from the counts of an attribute's values; ``mean``: the position of sMean where it is known already."""
    values = Marginal(counts, d)
    centre = mean_from_counts(counts, d) if mean is None else mean
    distances = d.between(np.array([centre], dtype=np.int32), values.positions)[0]
    return float(values.weights @ distances**2) / values.rows


def _totals(values: Marginal) -> NDArray[np.float64]:
    """(m,): Σ sd(c, a_i) of every concept c of τ."""
    m = len(values.d.taxonomy)
    if values.d.taxonomy.is_tree:
        return values.tree_sums(np.arange(m, dtype=np.int32))[0]
    totals = np.zeros(m)
    for position, weight in zip(values.positions.tolist(), values.weights.tolist(), strict=True):
        totals += weight * values.d.to_all(position)
    return totals
