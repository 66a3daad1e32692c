"""Mechanisms that swap within intervals, and how long these are: k records, or p per cent of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import ceil, floor
from numbers import Real
from typing import TypeAlias

from stream_masker.core.mechanisms.options import for_each
from stream_masker.core.mechanisms.swapping.base import MIN_VALUES, Swapping
from stream_masker.core.mechanisms.windowed import DistanceChoice, Prepared
from stream_masker.core.ontology import Taxonomy
from stream_masker.errors import ParameterError

DEFAULT_K = 10

Lengths: TypeAlias = int | Mapping[str, int] | None
Shares: TypeAlias = float | Mapping[str, float] | None


@dataclass(frozen=True, slots=True)
class SwapInterval:
    """The length of one attribute's swapping intervals: ``k``, or ⌊p·n/100⌋ of n values (2019: section 3.3)."""

    k: int | None = None
    p: float | None = None

    @property
    def fewest(self) -> int:
        """The fewest values that it can be used on: k < n, and k ≥ 1."""
        if self.k is not None:
            return self.k + 1
        n = max(2, ceil(100 / self._share))
        return n if self.of(n) else n + 1

    def of(self, n: int) -> int:
        """The length among n values."""
        return self.k if self.k is not None else floor(self._share * n / 100)

    @property
    def _share(self) -> float:
        return self.p or 0.0


class IntervalSwapping(Swapping[Prepared]):
    """Swaps within intervals of k values, or p per cent of them, of every attribute or of each its own."""

    def __init__(
        self,
        taxonomies: Mapping[str, Taxonomy],
        *,
        k: Lengths = None,
        p: Shares = None,
        distance: DistanceChoice = "wu_palmer",
        window: int = 10_000,
        window_age: float | None = None,
        rollup_depth: int = 2,
        seed: bytes,
    ) -> None:
        """Everything is checked here: ParameterError says what was given and what is allowed.

        k: length of the swapping interval in records, from 1 to less than ``window``, of all attributes or of each; by
        default 10. p: instead of k, in per cent of the group's values, in (0, 100). The others: as
        ``WindowedMechanism``.
        """
        super().__init__(
            taxonomies, distance=distance, window=window, window_age=window_age, rollup_depth=rollup_depth, seed=seed
        )
        self._intervals = checked_intervals(k, p, self._attributes, window=window)

    @property
    def group_minimum(self) -> int:
        return max(interval.fewest for interval in self._intervals)

    def _length(self, j: int, size: int) -> int:
        """The k of attribute j among so many values, or records of values. Raises ParameterError where it is more."""
        interval = self._intervals[j]
        fewest = max(interval.fewest, MIN_VALUES)
        if size < fewest:
            raise self._too_few(j, size, interval.of(fewest))
        return interval.of(size)

    def _too_few(self, j: int, size: int, k: int) -> ParameterError:
        return ParameterError(
            f"the group has {size} values of {self._attributes[j]!r}: a swapping interval of {k} needs more than {k}"
        )


def checked_intervals(k: Lengths, p: Shares, attributes: tuple[str, ...], *, window: int) -> tuple[SwapInterval, ...]:
    """Each attribute's interval. Raises ParameterError: says what was given and what is allowed."""
    if k is not None and p is not None:
        raise ParameterError(f"k={k!r} and p={p!r} are two lengths of one interval: give k (records) or p (per cent)")
    if p is not None:
        return tuple(SwapInterval(p=_checked_p(name, share)) for name, share in for_each("p", p, attributes).items())
    lengths = for_each("k", DEFAULT_K if k is None else k, attributes)
    return tuple(SwapInterval(k=_checked_k(name, length, window)) for name, length in lengths.items())


def _checked_k(name: str, k: object, window: int) -> int:
    if isinstance(k, bool) or not isinstance(k, int) or not 1 <= k < window:
        raise ParameterError(
            f"k={k!r} of {name!r} is not allowed: use a whole number of records from 1 to {window - 1}, "
            f"fewer than the window of {window}"
        )
    return k


def _checked_p(name: str, p: object) -> float:
    if isinstance(p, bool) or not isinstance(p, Real) or not 0 < float(p) < 100:
        raise ParameterError(f"p={p!r} of {name!r} is not allowed: use a number of per cent in (0, 100)")
    return float(p)
