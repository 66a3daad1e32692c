"""Numeric attributes: their allowed values, and their moments over a window, for microaggregation."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from stream_masker.core.dtypes import BoolArray, Float64Array, Int64Array
from stream_masker.errors import ParameterError, StatisticsError

LARGEST_NUMBER = 2.0**53
"""The greatest magnitude of a value. Up to it, float64 represents every integer exactly."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Numeric:
    """The allowed values of a numeric attribute: finite numbers of magnitude up to 2⁵³ in [minimum, maximum].

    minimum, maximum: None for no bound. integer: only whole numbers are allowed. Raises ParameterError.
    """

    minimum: float | None = None
    maximum: float | None = None
    integer: bool = False

    def __post_init__(self) -> None:
        if not isinstance(self.integer, bool):
            raise ParameterError(f"integer is a {type(self.integer).__name__}: use a bool")
        kind = "a whole number" if self.integer else "a number"
        for name, bound in (("minimum", self.minimum), ("maximum", self.maximum)):
            if bound is not None and (not _is_number(bound) or not self._is_representable(np.array([bound])).all()):
                raise ParameterError(f"{name}={bound!r} is not allowed: use {kind} up to 2**53, or None")
        if self.minimum is not None and self.maximum is not None and not self.minimum < self.maximum:
            raise ParameterError(f"minimum={self.minimum} is not below maximum={self.maximum}")

    @property
    def lower(self) -> float:
        """The minimum, or −∞ if there is none."""
        return -math.inf if self.minimum is None else float(self.minimum)

    @property
    def upper(self) -> float:
        """The maximum, or ∞ if there is none."""
        return math.inf if self.maximum is None else float(self.maximum)

    def admits(self, values: Float64Array) -> BoolArray:
        """Return (n,) bool: whether each number is an allowed value; NaN is not."""
        return self._is_representable(values) & (values >= self.lower) & (values <= self.upper)

    def _is_representable(self, values: Float64Array) -> BoolArray:
        with np.errstate(invalid="ignore"):
            small = np.abs(values) <= LARGEST_NUMBER
        return small & (np.floor(values) == values) if self.integer else small


@dataclass(frozen=True, slots=True, eq=False)
class Moments:
    """Moments of q numeric attributes over n records. Immutable; moments of disjoint records can be added.

    count: (q, q) int64, the number of records with values of both attributes i and j.
    mean: (q, q) float64; ``mean[i, j]`` is the mean of attribute i over these records.
    products: (q, q) float64, Σ (xᵢ − mean[i, j])·(xⱼ − mean[j, i]) over these records.
    If no record has both values, mean and products are 0.

    Sums of moments agree with a direct computation to a relative error of about 1e-14 (Chan, Golub and LeVeque 1979).
    """

    count: Int64Array
    mean: Float64Array
    products: Float64Array

    @classmethod
    def of(cls, values: Float64Array) -> Moments:
        """Return the moments of (n, q) float64 values, NaN if a record has no value; in O(n·q²).

        Values are centred by differences to one of them, so that equal values have a variance of exactly 0.
        """
        present = ~np.isnan(values)
        some = values[present.argmax(axis=0), np.arange(values.shape[1])] if len(values) else np.zeros(values.shape[1])
        some = np.nan_to_num(some)
        steps = np.where(present, values - some, 0.0)
        centre = some + steps.sum(axis=0) / np.maximum(present.sum(axis=0), 1)
        centred, count = np.where(present, values - centre, 0.0), present.T.astype(np.int64) @ present
        sums = centred.T @ present
        mean = np.where(count > 0, centre[:, None] + sums / np.maximum(count, 1), 0.0)
        return cls(count, mean, centred.T @ centred - sums * sums.T / np.maximum(count, 1))

    @property
    def attributes(self) -> int:
        """The number of attributes, q."""
        return len(self.count)

    @property
    def covariance(self) -> Float64Array:
        """(q, q) float64: the population covariances (1/n) over the records with both values; 0 if none."""
        return np.asarray(self.products / np.maximum(self.count, 1))

    def __add__(self, other: Moments) -> Moments:
        count = self.count + other.count
        share = other.count / np.maximum(count, 1)
        step = other.mean - self.mean
        spread = self.products + other.products + step * step.T * (self.count * share)
        return Moments(count, np.where(self.count > 0, self.mean + step * share, other.mean), spread)

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON-serialisable form, which preserves every bit."""
        return {"count": self.count.tolist(), "mean": self.mean.tolist(), "products": self.products.tolist()}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Moments:
        """Restore what ``to_dict`` returns. Raises StatisticsError if the data are not moments."""
        try:
            count = np.array(data["count"], dtype=np.int64)
            moments = cls(count, *(np.array(data[name], dtype=np.float64) for name in ("mean", "products")))
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            raise StatisticsError(f"these are not moments ({type(error).__name__})") from None
        if not count.shape == moments.mean.shape == moments.products.shape == (len(count),) * 2:
            raise StatisticsError("moments must be square matrices of the same size")
        if (count < 0).any() or not np.isfinite(moments.mean).all() or not np.isfinite(moments.products).all():
            raise StatisticsError("a moment is negative or not finite")
        return moments


@dataclass(frozen=True, slots=True, eq=False)
class NumericStatistics:
    """Statistics of q numeric attributes over one window.

    names: (q,). mean: (q,). covariance: (q, q), positive semidefinite, population covariances (1/n). projection: the
    Frobenius norm of the change that made it positive semidefinite; 0 if every record has every value.
    """

    names: tuple[str, ...]
    mean: Float64Array
    covariance: Float64Array
    projection: float = 0.0

    @property
    def correlation(self) -> Float64Array:
        """(q, q): Pearson's ρ; 0 for a constant attribute."""
        deviation = np.sqrt(np.diag(self.covariance))
        scale = np.where(deviation > 0.0, deviation, np.inf)
        return np.asarray(self.covariance / np.outer(scale, scale))

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON-serialisable form, which preserves every bit."""
        return {
            "attributes": list(self.names),
            "mean": self.mean.tolist(),
            "covariance": self.covariance.tolist(),
            "projection": self.projection,
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> NumericStatistics:
        """Restore what ``to_dict`` returns. Raises KeyError, TypeError or ValueError for other data."""
        names = tuple(str(name) for name in data["attributes"])
        q = len(names)
        mean = np.array(data["mean"], dtype=np.float64).reshape(q)
        covariance = np.array(data["covariance"], dtype=np.float64).reshape(q, q)
        return cls(names, mean, covariance, float(data["projection"]))


def merge_moments(parts: Sequence[Moments | None]) -> Moments | None:
    """Return the sum of moments; None if all parts are None. Raises StatisticsError unless all have the same
    attributes."""
    present = [part for part in parts if part is not None]
    if len(present) not in (0, len(parts)) or len({part.attributes for part in present}) > 1:
        raise StatisticsError("only counts of the same numeric attributes can be merged")
    total = present[0] if present else None
    for part in present[1:]:
        total = part if total is None else total + part
    return total


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
