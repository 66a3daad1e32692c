"""Numeric attributes: what values they take, and their moments over a window (2017: section 3)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stream_masker.core.dtypes import Float64Array, Int64Array
from stream_masker.errors import ParameterError, StatisticsError

LARGEST_NUMBER = 2.0**53
"""The greatest magnitude of a value: up to it every integer is a float of its own."""

BEYOND_RANGE = ("clamp", "reflect")


@dataclass(frozen=True, slots=True, kw_only=True)
class Numeric:
    """The values that a numeric attribute takes: finite numbers of magnitude up to 2⁵³ in [minimum, maximum].

    minimum, maximum: None for no bound. integer: whole numbers only. beyond: what becomes of a masked value that lies
    beyond a bound b: ``clamp`` makes it b, ``reflect`` makes it 2b − z (again at the other bound if need be). Both
    pull means inwards by what lies beyond: by E[(b − z)⁺] and, reflected, by twice that; a clamped attribute gets more
    values equal to its bounds, a reflected one does not.
    """

    minimum: float | None = None
    maximum: float | None = None
    integer: bool = False
    beyond: str = "clamp"

    def __post_init__(self) -> None:
        if not isinstance(self.integer, bool):
            raise ParameterError(f"integer is a {type(self.integer).__name__}: use a bool")
        if self.beyond not in BEYOND_RANGE:
            raise ParameterError(f"beyond={self.beyond!r} is not allowed: use {' or '.join(BEYOND_RANGE)}")
        for name, bound in (("minimum", self.minimum), ("maximum", self.maximum)):
            if bound is not None and (not _is_number(bound) or not self._allows(np.array([bound])).all()):
                raise ParameterError(f"{name}={bound!r} is not allowed: use {self._kind} up to 2**53, or None")
        if self.minimum is not None and self.maximum is not None and not self.minimum < self.maximum:
            raise ParameterError(f"minimum={self.minimum} is not below maximum={self.maximum}")

    @property
    def lower(self) -> float:
        """The minimum; −∞ for none."""
        return -math.inf if self.minimum is None else float(self.minimum)

    @property
    def upper(self) -> float:
        """The maximum; ∞ for none."""
        return math.inf if self.maximum is None else float(self.maximum)

    def admits(self, values: Float64Array) -> NDArray[np.bool_]:
        """(n,) bool: which of n numbers are values of the attribute; NaN is none."""
        return self._allows(values) & (values >= self.lower) & (values <= self.upper)

    def fit(self, values: Float64Array, uniforms: Float64Array) -> Float64Array:
        """(n,) float64: masked numbers made values of the attribute; NaN (absent) stays.

        First the bounds (see ``beyond``), then, of an integer attribute, stochastic rounding: z becomes ⌊z⌋ + 1 where
        ``uniforms`` (n,) in [0, 1) lies below z − ⌊z⌋, and else ⌊z⌋, so that its expectation is z; this adds at most
        1/4 to the variance.
        """
        inside = self._inside(np.clip(values, -LARGEST_NUMBER, LARGEST_NUMBER))
        whole = np.floor(inside)
        return np.where(uniforms < inside - whole, whole + 1.0, whole) if self.integer else inside

    @property
    def _kind(self) -> str:
        return "a whole number" if self.integer else "a number"

    def _allows(self, values: Float64Array) -> NDArray[np.bool_]:
        with np.errstate(invalid="ignore"):
            small = np.abs(values) <= LARGEST_NUMBER
        return small & (np.floor(values) == values) if self.integer else small

    def _inside(self, values: Float64Array) -> Float64Array:
        if self.beyond == "clamp":
            return np.clip(values, self.lower, self.upper)
        if self.minimum is None or self.maximum is None:
            values = self.lower + np.abs(values - self.lower) if self.minimum is not None else values
            return self.upper - np.abs(self.upper - values) if self.maximum is not None else values
        width = self.upper - self.lower
        return self.lower + (width - np.abs(np.mod(values - self.lower, 2.0 * width) - width))


@dataclass(frozen=True, slots=True, eq=False)
class Moments:
    """Moments of q numeric attributes over n records; immutable, mergeable.

    count: (q, q) int64, the records that have values of both attributes. mean: (q, q); ``mean[i, j]`` of attribute i
    over the records that have attribute j too. products: (q, q), Σ (xᵢ − mean[i, j])·(xⱼ − mean[j, i]) over them.
    Where no record has both, mean and products are 0.

    Sums of blocks agree with a direct computation to about 1e-14 of each figure (Chan, Golub and LeVeque 1979).
    """

    count: Int64Array
    mean: Float64Array
    products: Float64Array

    @classmethod
    def of(cls, values: Float64Array) -> Moments:
        """Of (n, q) float64, NaN where a record has no value; O(n·q²)."""
        present = ~np.isnan(values)
        columns = [_centred(values[:, j], present[:, j]) for j in range(values.shape[1])]
        parts = [[_moments(columns[i], columns[j]) for j in range(len(columns))] for i in range(len(columns))]
        return cls(*(_matrix(parts, k, dtype) for k, dtype in enumerate((np.int64, np.float64, np.float64))))

    @property
    def attributes(self) -> int:
        """q."""
        return len(self.count)

    @property
    def covariance(self) -> Float64Array:
        """(q, q): covariances over the records that have both values (1/n, of the window as a whole); 0 for none."""
        return np.asarray(self.products / np.maximum(self.count, 1))

    def __add__(self, other: Moments) -> Moments:
        count = self.count + other.count
        share = other.count / np.maximum(count, 1)
        step = other.mean - self.mean
        spread = self.products + other.products + step * step.T * (self.count * share)
        return Moments(count, np.where(self.count > 0, self.mean + step * share, other.mean), spread)

    def __sub__(self, part: Moments) -> Moments:
        """What remains without a part. Where the part was by far the greater one, digits are lost: where records are
        at hand, compute anew. Raises StatisticsError when the part has more records."""
        count = self.count - part.count
        if (count < 0).any():
            raise StatisticsError("the moments to subtract are not part of the total")
        left = count > 0
        mean = np.where(left, self.mean + (self.mean - part.mean) * part.count / np.maximum(count, 1), 0.0)
        step = part.mean - mean
        spread = self.products - part.products - step * step.T * (count * part.count / np.maximum(self.count, 1))
        spread[np.diag_indices_from(spread)] = np.maximum(np.diag(spread), 0.0)
        return Moments(count, mean, np.where(left, spread, 0.0))

    def to_dict(self) -> dict[str, Any]:
        """JSON-serialisable form; ``from_dict`` gives it back, every float to the last bit."""
        return {"count": self.count.tolist(), "mean": self.mean.tolist(), "products": self.products.tolist()}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Moments:
        """The inverse of ``to_dict``. Raises StatisticsError for another shape, or what are no moments."""
        try:
            count = np.array(data["count"], dtype=np.int64)
            moments = cls(count, *(np.array(data[name], dtype=np.float64) for name in ("mean", "products")))
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            raise StatisticsError(f"these are no moments ({type(error).__name__})") from None
        moments._check()
        return moments

    def _check(self) -> None:
        square = (len(self.count),) * 2
        if not self.count.shape == self.mean.shape == self.products.shape == square:
            raise StatisticsError("moments are square matrices of one size")
        if (self.count < 0).any() or not np.isfinite(self.mean).all() or not np.isfinite(self.products).all():
            raise StatisticsError("a moment is negative or no number")


@dataclass(frozen=True, slots=True, eq=False)
class NumericStatistics:
    """Of q numeric attributes over one window. names: (q,); mean: (q,); covariance: (q, q), positive semidefinite,
    variances on its diagonal (1/n); projection: the Frobenius norm of what made it so (0 when nothing was needed, which
    is always so where every record has every value)."""

    names: tuple[str, ...]
    mean: Float64Array
    covariance: Float64Array
    projection: float = 0.0

    @property
    def correlation(self) -> Float64Array:
        """(q, q): Pearson's ρ, 1 on the diagonal; 0 of a constant attribute."""
        deviation = np.sqrt(np.diag(self.covariance))
        scale = np.where(deviation > 0.0, deviation, np.inf)
        return np.asarray(self.covariance / np.outer(scale, scale))

    def to_dict(self) -> dict[str, Any]:
        """JSON-serialisable form; ``from_dict`` gives back equal statistics, every float to the last bit."""
        return {
            "attributes": list(self.names),
            "mean": self.mean.tolist(),
            "covariance": self.covariance.tolist(),
            "projection": self.projection,
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> NumericStatistics:
        """The inverse of ``to_dict``. Raises KeyError, TypeError or ValueError for anything else."""
        names = tuple(str(name) for name in data["attributes"])
        q = len(names)
        mean = np.array(data["mean"], dtype=np.float64).reshape(q)
        covariance = np.array(data["covariance"], dtype=np.float64).reshape(q, q)
        return cls(names, mean, covariance, float(data["projection"]))


def merge_moments(parts: Sequence[Moments | None]) -> Moments | None:
    """The moments of all records together; None of counts without numeric attributes. Raises StatisticsError."""
    there = [part for part in parts if part is not None]
    if len(there) not in (0, len(parts)) or len({part.attributes for part in there}) > 1:
        raise StatisticsError("only counts of the same numeric attributes can be merged")
    total = there[0] if there else None
    for part in there[1:]:
        total = part if total is None else total + part
    return total


def subtract_moments(total: Moments | None, part: Moments | None) -> Moments | None:
    """What remains of a total without a part; None of counts without numeric attributes. Raises StatisticsError."""
    merge_moments([total, part])
    return None if total is None or part is None else total - part


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _centred(values: Float64Array, present: NDArray[np.bool_]) -> tuple[NDArray[np.bool_], float, Float64Array]:
    """Which values are there, their mean, and each one less the mean (0 of those that are not there).

    The mean is taken of differences to one of the values, so that equal values have no variance at all.
    """
    first = float(values[present.argmax()]) if present.any() else 0.0
    mean = first + float((values[present] - first).mean()) if present.any() else 0.0
    return present, mean, np.where(present, values - mean, 0.0)


def _moments(
    first: tuple[NDArray[np.bool_], float, Float64Array], second: tuple[NDArray[np.bool_], float, Float64Array]
) -> tuple[int, float, float]:
    """Count, the first one's mean, and sum of products, over the records that have both."""
    both = first[0] & second[0]
    n = int(np.count_nonzero(both))
    if not n:
        return 0, 0.0, 0.0
    a, b = first[2] * both, second[2] * both
    return n, first[1] + float(a.sum()) / n, float((a * b).sum() - a.sum() * b.sum() / n)


def _matrix(parts: Sequence[Sequence[tuple[int, float, float]]], k: int, dtype: type) -> NDArray[Any]:
    return np.array([[part[k] for part in row] for row in parts], dtype=dtype).reshape(len(parts), len(parts))
