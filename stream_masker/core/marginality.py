"""Marginality: the sum of distances of a nominal value to all others of its sample, and statistics of it (2013).

The caller chooses the distance; the paper uses ``LogTaxonomic`` (2013: equation 1). Values are concept ids, or
positions as an integer array. Everything here raises StatisticsError for an empty sample, and UnknownConceptError for a
value outside the taxonomy.
"""

from __future__ import annotations

import numpy as np

from stream_masker.core.distance import ConceptsLike, Distance
from stream_masker.core.dtypes import Float64Array
from stream_masker.core.statistics.counts import SparseCounts
from stream_masker.core.statistics.statistics import Marginal, value_counts
from stream_masker.core.table import least_total


def marginality(values: ConceptsLike, d: Distance) -> Float64Array:
    """Return (n,) float64: m(xⱼ) = Σ d(xⱼ, xₗ) over the sample without xⱼ itself (2013: equation 2).

    Other occurrences of the same value have distance 0, so frequent values are less marginal.
    """
    positions = d.encode(values)
    sample = Marginal.of(value_counts(positions, d), d)
    return sample.sums[np.searchsorted(sample.positions, positions)]


def marginality_mean(values: ConceptsLike, d: Distance) -> str:
    """Return the id of the least marginal value of the sample (2013: equation 3).

    Ties, which the paper does not resolve: the smallest depth, then the smallest id.
    """
    return d.taxonomy.ids[mean_and_variance(value_counts(values, d), d)[0]]


def marginality_variance(values: ConceptsLike, d: Distance) -> float:
    """Return Σ m(xⱼ) / n over n values (2013: equation 5); it grows with n like marginalities."""
    return mean_and_variance(value_counts(values, d), d)[1]


def mean_and_variance(counts: SparseCounts, d: Distance) -> tuple[int, float]:
    """Return the position of the least marginal value, and the variance, from the counts of the values."""
    sample = Marginal.of(counts, d)
    mean = least_total(sample.positions, sample.sums, d.taxonomy)
    return mean, float(counts.counts @ sample.sums) / counts.rows
