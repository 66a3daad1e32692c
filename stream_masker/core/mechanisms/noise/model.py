"""The noise of semantic noise, and what statistics say about it.

*Held* moments and frequencies: windows fluctuate, so Σ differs a little in every version, and |ε| crosses a level of
distances for some values. Under one noise key, such a value would get several masks, whose average reveals more than
one mask. The moments and frequencies are therefore taken from an earlier version until a variance or covariance, or the
frequencies of an attribute, differ by more than ``TOLERANCE``. Frequencies that masks are not drawn by are held as the
anchors of the table, on which draws among ties depend. The variance of the noise then differs from α times that of the
window by at most this share.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np

from stream_masker.core.arrays import slices
from stream_masker.core.batch import Batch, presence_patterns
from stream_masker.core.dtypes import Float64Array, Int32Array, Int64Array, UInt64Array
from stream_masker.core.mechanisms.noise.law import Distribution
from stream_masker.core.ontology import Taxonomy
from stream_masker.core.random import EXPONENTIALS, Keys, draw_words, normals, record_words
from stream_masker.core.statistics import is_positive_semidefinite
from stream_masker.core.statistics.counts import Counts
from stream_masker.core.statistics.packing import pack_array, read_array, read_model_field
from stream_masker.core.statistics.summary import Statistics
from stream_masker.errors import StatisticsError

TOLERANCE = 0.1
"""The largest difference of two covariances, relative to the geometric mean of the two variances, and the largest total
variation distance of frequencies, for which those of the earlier version are held."""

MAX_NOVEL = 0.01
"""The largest share of values that are no anchors for which the anchors of the earlier version are held."""

HELD, FREQUENCIES = "held", "frequencies"
"""Keys of ``Statistics.model``. ``held`` is missing if the noise uses the version's own moments."""

MIN_PIVOT = 1e-12
"""The smallest pivot, as a share of the attribute's variance, that is not taken for 0.

A smaller one means that the attribute depends linearly on those before it.
"""

ONE = np.ones(1)

KEPT_FACTORS = 64
"""How many combinations of present attributes have their triangular factor kept."""

Frequencies: TypeAlias = tuple[Int32Array, Int64Array]
"""The values of an attribute, ascending positions, and the frequency of each."""


@dataclass(frozen=True)
class NoiseSampler:
    """The noise of p attributes: ε ~ N(0, α·Σ), or the multivariate Laplace distribution with the same covariance.

    * ``sigma``: (p, p) float64 Σ; for uncorrelated noise the diagonal matrix of sVar, which differs from the sdVar on
      the diagonal of 2017's equation 22. At most one array attribute can have covariances other than 0.
    * ``alpha``: (p,) float64, the configured α; a record's own α replaces it.
    * ``correlated``: whether one √W scales all noise of a record; otherwise each value has its own.
    """

    sigma: Float64Array
    alpha: Float64Array
    correlated: bool
    distribution: Distribution
    _factors: dict[tuple[int, ...], Float64Array] = field(default_factory=dict, compare=False, repr=False)

    def draw(self, keys: Keys, batch: Batch, words: Sequence[UInt64Array]) -> list[Float64Array]:
        """Draw ε of every value: (k,) float64 for each column. The noise of an absent value is meaningless.

        An absent scalar is left out: the noise of the others follows their marginal distribution.
        """
        variates = slices(normals(np.concatenate(words)), map(len, words))
        result = [np.zeros(len(z)) for z in variates]
        scalars = [j for j, column in enumerate(batch.columns) if not column.is_array]
        arrays = [j for j, column in enumerate(batch.columns) if column.is_array]
        shared, specific = np.zeros((2, len(arrays), batch.size))
        has_value = np.array([batch.columns[j].codes >= 0 for j in scalars], np.bool_).reshape(len(scalars), batch.size)
        for rows, pattern in presence_patterns(has_value):
            present = [scalars[i] for i in pattern]
            lower = self._factor((*present, *arrays))
            drawn = [variates[j][rows] for j in present]
            for i, j in enumerate(present):
                result[j][rows] = _combine(lower[i, : i + 1], drawn[: i + 1])
            for k in range(len(arrays)):
                i = len(present) + k
                shared[k, rows], specific[k, rows] = _combine(lower[i, : len(present)], drawn), lower[i, i]
        for k, j in enumerate(arrays):
            lengths = batch.columns[j].lengths
            result[j] = np.repeat(shared[k], lengths) + np.repeat(specific[k], lengths) * variates[j]
        scales = self._scales(keys, batch)
        return [scales[j] * self._alpha_roots(batch, j) * noise for j, noise in enumerate(result)]

    @cached_property
    def alpha_roots(self) -> Float64Array:
        """√α of each attribute."""
        return np.asarray(np.sqrt(self.alpha))

    def _factor(self, attributes: tuple[int, ...]) -> Float64Array:
        """Return L of the covariances of some attributes; the first ``KEPT_FACTORS`` are kept."""
        factor = self._factors.get(attributes)
        if factor is None:
            factor = triangular_factor(self.sigma[np.ix_(attributes, attributes)])
            if len(self._factors) < KEPT_FACTORS:
                self._factors[attributes] = factor
        return factor

    def _alpha_roots(self, batch: Batch, j: int) -> Float64Array:
        """Return √α of the values of column j."""
        if batch.alpha is None:
            return np.asarray(self.alpha_roots[j])
        alpha = np.where(np.isnan(batch.alpha), self.alpha[j], batch.alpha)
        return np.asarray(np.sqrt(np.repeat(alpha, batch.columns[j].lengths)))

    def _scales(self, keys: Keys, batch: Batch) -> list[Float64Array]:
        """Return √W of every value, by column; 1 for normal noise.

        Elements of a record whose scalars are all absent have their own.
        """
        if not self.distribution.scaled:
            return [ONE] * len(batch.columns)
        own = [self.distribution.roots(words[:, 0].copy()) for words in draw_words(keys, batch, EXPONENTIALS)]
        if not self.correlated:
            return own
        shared = self.distribution.roots(record_words(keys, batch))
        absent = [column.codes < 0 for column in batch.columns if not column.is_array]
        alone = np.broadcast_to(np.all(absent, axis=0), batch.size)
        return [
            np.where(np.repeat(alone, column.lengths), scale, np.repeat(shared, column.lengths))
            if column.is_array
            else shared
            for column, scale in zip(batch.columns, own, strict=True)
        ]


def _combine(weights: Float64Array, variates: Sequence[Float64Array]) -> Float64Array | float:
    """Return Σ weights[k]·variates[k], summed term by term so that no bit depends on the size of the batch."""
    total: Float64Array | float = 0.0
    for weight, variate in zip(weights, variates, strict=True):
        total = total + weight * variate
    return total


def triangular_factor(sigma: Float64Array) -> Float64Array:
    """Return the (p, p) lower triangular L with L·Lᵀ = Σ, for a positive semidefinite Σ.

    This is the Cholesky factor, with a column of zeros where a pivot vanishes: the noise of that attribute is a linear
    function of the noise of those before it.
    """
    lower = np.zeros_like(sigma)
    for j in range(len(sigma)):
        rest = [sigma[i, j] - math.fsum((lower[i, :j] * lower[j, :j]).tolist()) for i in range(j, len(sigma))]
        if rest[0] > MIN_PIVOT * sigma[j, j]:
            lower[j:, j] = np.array(rest) / math.sqrt(rest[0])
    return lower


def check_statistics(statistics: Statistics) -> None:
    """Raise StatisticsError unless noise can be drawn from the moments, and every attribute has variance."""
    variances = np.array([statistics.variance[name] for name in statistics.attributes])
    if not np.isfinite(np.append(statistics.covariance, variances)).all() or variances.min(initial=0.0) < 0:
        raise StatisticsError("a variance is negative, or a variance or covariance is not finite")
    if not is_positive_semidefinite(statistics.covariance):
        raise StatisticsError("the covariance matrix is not symmetric and positive semidefinite")
    least = np.minimum(np.diag(statistics.covariance), variances)
    constant = [name for name, variance in zip(statistics.attributes, least, strict=True) if not variance > 0]
    if constant:
        raise StatisticsError(
            f"{', '.join(constant)}: all values are equal, so the noise would be 0 and later values would pass "
            "unmasked; calibrate on records with different values"
        )


def noise_model(
    counts: Counts,
    statistics: Statistics,
    previous: Statistics | None,
    taxonomies: Mapping[str, Taxonomy],
    *,
    drawn_by_frequency: bool,
) -> dict[str, Any]:
    """Return the model of statistics: the held moments, unless they differ too much, and the frequencies.

    * ``counts``, ``statistics``: of the window. ``previous``: those in force, or None if they cannot be held.
    * ``drawn_by_frequency``: whether masks are drawn by the frequencies. Otherwise these only say which concepts are
      anchors, and are held unless too many values of the window are none.
    """
    own = [(column.keys.astype(np.int32), column.counts) for column in counts.values]
    held = None if previous is None else noise_statistics(previous)
    if previous is None or held is None or not _is_near(held, statistics):
        return {FREQUENCIES: _packed(own, taxonomies)}
    moments = {"version": held.version, "variance": dict(held.variance), "covariance": held.covariance.tolist()}
    known = read_frequencies(previous.model, taxonomies)
    measure, most = (total_variation, TOLERANCE) if drawn_by_frequency else (novel_share, MAX_NOVEL)
    steady = all(measure(a, b) <= most for a, b in zip(known, own, strict=True))
    return {HELD: moments, FREQUENCIES: previous.model[FREQUENCIES] if steady else _packed(own, taxonomies)}


def noise_statistics(statistics: Statistics) -> Statistics:
    """Return the statistics from which the noise is drawn: those with the held moments. Raises StatisticsError."""
    held = statistics.model.get(HELD)
    if held is None:
        return statistics
    try:
        return replace(
            statistics,
            version=int(held["version"]),
            variance={a: float(held["variance"][a]) for a in statistics.attributes},
            covariance=np.array(held["covariance"], np.float64).reshape(statistics.covariance.shape),
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise StatisticsError(f"the held moments do not have the expected format ({type(error).__name__})") from None


def read_frequencies(model: Mapping[str, Any], taxonomies: Mapping[str, Taxonomy]) -> list[Frequencies]:
    """Return the frequencies of a model, by attribute. Raises StatisticsError if they are missing or invalid."""
    return [
        _unpacked(read_model_field(read_model_field(model, FREQUENCIES), name), len(tau))
        for name, tau in taxonomies.items()
    ]


def total_variation(a: Frequencies, b: Frequencies) -> float:
    """Return the total variation distance of two laws of concepts, in [0, 1]."""
    size = int(max(a[0][-1], b[0][-1])) + 1
    first, second = (np.bincount(positions, counts / counts.sum(), size) for positions, counts in (a, b))
    return float(np.abs(first - second).sum()) / 2


def novel_share(a: Frequencies, b: Frequencies) -> float:
    """Return the share of b's values, in [0, 1], that a does not have."""
    return float(b[1][~np.isin(b[0], a[0])].sum() / b[1].sum())


def _is_near(held: Statistics, new: Statistics) -> bool:
    variances = [np.diag([statistics.variance[a] for a in new.attributes]) for statistics in (held, new)]
    for before, after in ((held.covariance, new.covariance), (variances[0], variances[1])):
        scale = np.sqrt(np.diag(before))
        if not (np.abs(after - before) <= TOLERANCE * np.outer(scale, scale)).all():
            return False
    return True


def _packed(frequencies: Sequence[Frequencies], names: Mapping[str, Taxonomy]) -> dict[str, Any]:
    pairs = zip(names, frequencies, strict=True)
    return {name: {"values": pack_array(values), "counts": pack_array(counts)} for name, (values, counts) in pairs}


def _unpacked(model: object, concepts: int) -> Frequencies:
    values = read_array(model, "values", np.int32, low=0, high=concepts - 1)
    counts = read_array(model, "counts", np.int64, values.size, low=1)
    if not values.size or (np.diff(values) <= 0).any():
        raise StatisticsError("the values of the model are not distinct and ascending")
    return values, counts
