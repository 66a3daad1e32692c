"""The semantic mean and variance of nominal values (2017: equations 13 and 14)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from stream_masker.core.distance import ConceptsLike, Distance, require_distance
from stream_masker.core.dtypes import Int32Array
from stream_masker.core.statistics.counts import SparseCounts, count_keys
from stream_masker.core.statistics.marginal import Marginal
from stream_masker.core.statistics.mean_search import MeanSearch

MEAN_TIE = 1e-12
"""Totals are tied if they differ by no more than this, relative to the smallest one."""


def semantic_mean(values: ConceptsLike, d: Distance) -> str:
    """sMean(A) = argmin over every c in τ of Σ sd(c, a_i) (2017: equation 13), a concept id.

    ``values`` are n concept ids or positions. The paper takes any concept of a tie; here it is the one of smallest
    depth, then of smallest id. Raises StatisticsError if there are no values, and UnknownConceptError for a value
    outside the taxonomy.
    """
    mean = mean_from_counts(value_counts(values, d), d)
    return d.taxonomy.ids[mean]


def semantic_variance(values: ConceptsLike, d: Distance) -> float:
    """sVar(A) = (1/n) Σ sd(a_i, sMean(A))², in [0, 1] (2017: equation 14). Raises as ``semantic_mean``."""
    return variance_from_counts(value_counts(values, d), d)


def value_counts(values: ConceptsLike, d: Distance) -> SparseCounts:
    """Count how often each concept occurs among n ids or positions. Raises UnknownConceptError."""
    require_distance("the distance", d)
    return count_keys(d.encode(values).astype(np.int64))


def mean_from_counts(counts: SparseCounts, d: Distance, *, hint: int = 0) -> int:
    """Return the position of sMean, from the counts of an attribute's values.

    In a tree it takes O(τ·H²), independent of the number of distinct values. In a DAG a search (``mean_search``)
    evaluates few concepts; ``hint`` is a position that may be near the mean, such as the previous window's mean, and
    shortens it.
    """
    values = Marginal(counts, d)
    if values.depth_based:
        all_concepts = np.arange(len(d.taxonomy), dtype=np.int32)
        return choose_mean(all_concepts, values.tree_sums(all_concepts)[0], d)
    minimal = MeanSearch(d, values.positions, values.weights).minimal(hint=hint)
    return choose_mean(minimal.concepts, minimal.totals, d)


def choose_mean(concepts: Int32Array, totals: NDArray[np.float64], d: Distance) -> int:
    """Return the concept of smallest total distance; ties as in ``semantic_mean``. ``concepts``, ``totals``: (k,)."""
    least = concepts[totals <= totals.min() * (1.0 + MEAN_TIE)]
    depth = d.taxonomy.depth[least]
    return int(min(least[depth == depth.min()], key=lambda c: d.taxonomy.ids[c]))


def variance_from_counts(counts: SparseCounts, d: Distance, *, mean: int | None = None) -> float:
    """sVar from the counts of an attribute's values; ``mean``: the position of sMean, if it is already known."""
    values = Marginal(counts, d)
    centre = mean_from_counts(counts, d) if mean is None else mean
    distances = d.between(np.array([centre], dtype=np.int32), values.positions)[0]
    return float(values.weights @ distances**2) / values.rows
