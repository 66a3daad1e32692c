"""The noise that semantic noise draws, as the statistics of a window determine it.

Σ differs a little in every version, so that |ε| crosses a level of distances for some values. Such a value would get
several masks under one noise key, and their average reveals more than one mask does. The model of an earlier version is
therefore *held*, that is, kept in use, until a variance, a covariance or the frequencies of an attribute differ by more
than ``TOLERANCE``. The variance of the noise then differs from α times that of the window by at most this share.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import numpy as np

from stream_masker.core.arrays import Float64Array, Int32Array, Int64Array, UInt64Array, slices
from stream_masker.core.batch import Batch
from stream_masker.core.random import EXPONENTIALS, Keys, draw_words, exponential_roots, key_words, normals
from stream_masker.core.statistics.counts import Counts
from stream_masker.core.statistics.summary import Statistics, pack_counts, unpack_counts
from stream_masker.errors import StatisticsError

TOLERANCE = 0.1
"""The largest difference of two covariances, relative to the geometric mean of the two variances, and the largest total
variation distance of frequencies, for which the model of the earlier version is held."""

RIDGE = 1e-12
"""What is added to variances, as a share of the greatest one, so that a Σ without full rank has a Cholesky factor."""


@dataclass(frozen=True)
class NoiseSampler:
    """The noise of p attributes: ε ~ N(0, α·Σ), or the multivariate Laplace distribution with the same covariance.

    * ``sigma``: (p, p) float64 Σ; for uncorrelated noise the diagonal matrix of sVar, which differs from the sdVar on
      the diagonal of 2017's equation 22. At most one array attribute can have covariances other than 0.
    * ``alpha``: (p,) float64, α of each attribute. ``distribution``: a name of ``law.SCALES``.
    * ``correlated``: whether one √W scales all noise of a record; otherwise each value has its own.
    """

    sigma: Float64Array
    alpha: Float64Array
    correlated: bool
    distribution: str

    def draw(self, keys: Keys, batch: Batch, words: Sequence[UInt64Array]) -> list[Float64Array]:
        """Draw ε of every value: (k,) float64 for each column. The noise of an absent value is meaningless: without it,
        that of the others follows their marginal distribution.

        Sums are made term by term, so that no bit depends on the size of the batch.
        """
        noise, columns = slices(normals(np.concatenate(words)), map(len, words)), batch.columns
        scalars, rows = self._factor(tuple(column.is_array for column in columns))
        variates = [noise[j] for j in scalars]
        for j, (*weights, own) in rows.items():
            noise[j] = own * noise[j]
            for weight, variate in zip(weights, variates, strict=False):
                noise[j] += weight * (np.repeat(variate, columns[j].lengths) if columns[j].is_array else variate)
        if self.distribution == "laplace":
            noise = [root * each for root, each in zip(self._roots(keys, batch), noise, strict=True)]
        return noise

    @cached_property
    def _factor(self) -> Callable[[tuple[bool, ...]], tuple[list[int], dict[int, list[float]]]]:
        """The scalars, and the rows of the Cholesky factor of α·Σ by attribute, scalars first; they are kept.

        Its argument: which attributes are arrays.
        """
        scales, ridge = np.sqrt(self.alpha), RIDGE * self.sigma.max() * np.eye(self.alpha.size)
        sigma = (self.sigma + ridge) * np.outer(scales, scales)

        def factor(arrays: tuple[bool, ...]) -> tuple[list[int], dict[int, list[float]]]:
            order = sorted(range(len(arrays)), key=arrays.__getitem__)
            lower = np.linalg.cholesky(sigma[np.ix_(order, order)]).tolist()
            return order[: arrays.count(False)], {j: lower[i][: i + 1] for i, j in enumerate(order)}

        return lru_cache(factor)

    def _roots(self, keys: Keys, batch: Batch) -> list[Float64Array]:
        """Return √W of every value, by column. Records of one key share it if ``correlated``."""
        if not self.correlated:
            return [exponential_roots(words[:, 0]) for words in draw_words(keys, batch, EXPONENTIALS)]
        shared = exponential_roots(key_words(keys))
        return [np.repeat(shared, column.lengths) for column in batch.columns]


def model_of(counts: Counts, statistics: Statistics) -> dict[str, Any]:
    """Return what the noise of a window depends on, JSON-serialisable (``NoiseModel``)."""
    columns = zip(statistics.attributes, counts.values, strict=True)
    return {
        "variance": [statistics.variance[name] for name in statistics.attributes],
        "covariance": statistics.covariance.tolist(),
        "frequencies": {name: pack_counts(column.keys, column.counts) for name, column in columns},
    }


@dataclass(frozen=True, slots=True, eq=False)
class NoiseModel:
    """What masks are drawn from: the moments and frequencies of the window of a version, this one or an earlier one.

    * ``variances``: (p,) sVar. ``covariance``: (p, p) Σ.
    * ``frequencies``: for each attribute its values, ascending positions, and the frequency of each.
    """

    variances: Float64Array
    covariance: Float64Array
    frequencies: tuple[tuple[Int32Array, Int64Array], ...]

    @classmethod
    def read(cls, data: Mapping[str, Any], names: Sequence[str]) -> NoiseModel:
        """Read what ``model_of`` returns; ``names``: of the attributes.

        Raises StatisticsError for anything else, and for an attribute without variance.
        """
        p = len(names)
        try:
            variances = np.array(data["variance"], np.float64).reshape(p)
            covariance = np.array(data["covariance"], np.float64).reshape(p, p)
            model = cls(variances, covariance, tuple(unpack_counts(data["frequencies"][name]) for name in names))
        except (KeyError, TypeError, ValueError) as error:
            raise StatisticsError(f"the model does not have the expected format ({type(error).__name__})") from None
        least = np.minimum(np.diag(covariance), variances)
        if constant := [name for name, variance in zip(names, least, strict=True) if not variance > 0]:
            raise StatisticsError(
                f"{', '.join(constant)}: all values are equal, so the noise would be 0 and later values would pass "
                "unmasked; calibrate on records with different values"
            )
        return model

    def is_near(self, new: NoiseModel) -> bool:
        """Return whether masks of a later window may be drawn from this model."""
        scale = np.sqrt(np.outer(np.diag(self.covariance), np.diag(self.covariance)))
        moved = [
            *np.ravel(np.abs(new.covariance - self.covariance) / scale),
            *np.abs(new.variances / self.variances - 1.0),
            *(_total_variation(*both) for both in zip(self.frequencies, new.frequencies, strict=True)),
        ]
        return bool(max(moved) <= TOLERANCE)


def _total_variation(first: tuple[Int32Array, Int64Array], second: tuple[Int32Array, Int64Array]) -> float:
    """Return the total variation distance of two laws of concepts, from their values and frequencies."""
    size = 1 + int(max(values[-1] for values, _ in (first, second)))
    shares = [np.bincount(values, counts / counts.sum(), size) for values, counts in (first, second)]
    return float(np.abs(shares[0] - shares[1]).sum()) / 2.0
