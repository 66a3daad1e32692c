"""The semantic mean and variance of nominal values (2017: equations 13 and 14)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from stream_masker.core.distance import ConceptsLike, Distance
from stream_masker.core.dtypes import Int32Array
from stream_masker.core.statistics.counts import SparseCounts, count_keys
from stream_masker.core.statistics.marginal import Marginal
from stream_masker.core.statistics.mean_search import MeanSearch

MEAN_TIE = 1e-12
"""Totals that differ by no more than this, relative to the least, are equal."""


def semantic_mean(values: ConceptsLike, d: Distance) -> str:
    """sMean(A) = argmin over every c in τ of Σ sd(c, a_i) (2017: equation 13); a concept id.

    ``values``: n concept ids or positions. Ties (the paper takes any): smallest depth, then smallest id. Raises
    StatisticsError for no values, UnknownConceptError for a value outside the taxonomy.
    """
    return d.taxonomy.ids[mean_from_counts(value_counts(values, d), d)]


def semantic_variance(values: ConceptsLike, d: Distance) -> float:
    """sVar(A) = (1/n) Σ sd(a_i, sMean(A))², in [0, 1] (2017: equation 14). Raises as ``semantic_mean``."""
    return variance_from_counts(value_counts(values, d), d)


def value_counts(values: ConceptsLike, d: Distance) -> SparseCounts:
    """How often each concept occurs among n ids or positions. Raises UnknownConceptError."""
    return count_keys(d.encode(values).astype(np.int64))


def mean_from_counts(counts: SparseCounts, d: Distance, *, near: int = 0) -> int:
    """The position of sMean, from the counts of an attribute's values.

    In a tree O(τ·H²) whatever the number of distinct values; in a DAG by a search that tries few concepts (``search``).
    ``near``: a position that may be near the mean, such as that of a window before: the search is shorter then.
    """
    values = Marginal(counts, d)
    if values.by_depths:
        everything = np.arange(len(d.taxonomy), dtype=np.int32)
        return choose_mean(everything, values.tree_sums(everything)[0], d)
    found = MeanSearch(d, values.positions, values.weights).least(near=near)
    return choose_mean(found.concepts, found.totals, d)


def choose_mean(concepts: Int32Array, totals: NDArray[np.float64], d: Distance) -> int:
    """Of k concepts with their total distances, the one of the least; ties as in ``semantic_mean``."""
    least = concepts[totals <= totals.min() * (1.0 + MEAN_TIE)]
    depth = d.taxonomy.depth[least]
    return int(min(least[depth == depth.min()], key=lambda c: d.taxonomy.ids[c]))


def variance_from_counts(counts: SparseCounts, d: Distance, *, mean: int | None = None) -> float:
    """sVar from the counts of an attribute's values; ``mean``: the position of sMean where it is known already."""
    values = Marginal(counts, d)
    centre = mean_from_counts(counts, d) if mean is None else mean
    distances = d.between(np.array([centre], dtype=np.int32), values.positions)[0]
    return float(values.weights @ distances**2) / values.rows
