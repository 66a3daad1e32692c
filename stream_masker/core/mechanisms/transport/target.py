"""What a transport has to meet: a noise level, a distance, a vulnerability or an ε."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from stream_masker.core.dtypes import Float64Array
from stream_masker.core.mechanisms.options import MAX_ALPHA, per_attribute
from stream_masker.core.statistics.summary import Statistics
from stream_masker.core.validation import number_between
from stream_masker.errors import ParameterError, StatisticsError

TARGET_BOUNDS = {
    "alpha": (1e-4, MAX_ALPHA),
    "rmse": (1e-3, 1.0),
    "vulnerability": (1e-3, 1.0),
    "epsilon": (1e-3, 150.0),
}
"""The targets, with the numbers that each allows. The greatest ε of a kernel with bounded exponents is 160."""

DISTANCE_TARGETS = ("alpha", "rmse")
"""The targets that give each attribute a mean squared distance; the others are of whole records."""


POWERS = {"alpha": 4.0, "rmse": 4.0, "vulnerability": 4.0, "epsilon": 2.0}
"""γ of the kernel exp(−λ·sd^γ) for each target.

γ = 2 has the least mutual information at a given RMSE. γ = 4 makes near values more alike, so that at the same RMSE and
the same law the best guess of an attacker is right less often. ε is smaller for γ = 2.
"""


@dataclass(frozen=True, slots=True)
class Target:
    """A target. Immutable.

    * ``kind``: a key of ``TARGET_BOUNDS``.
    * ``value``: by attribute; equal for all attributes if the target is of whole records.
    """

    kind: str
    value: Mapping[str, float]

    @classmethod
    def of(cls, given: object, attributes: tuple[str, ...]) -> Target:
        """Validate ``{kind: value}``; ``alpha`` and ``rmse`` take one value for all attributes or for each.

        Raises ParameterError.
        """
        if not isinstance(given, Mapping) or len(given) != 1 or not set(given) <= set(TARGET_BOUNDS):
            raise ParameterError(
                f"target={given!r} is not allowed: use one of {', '.join(TARGET_BOUNDS)} with its value, such as "
                "{'alpha': 0.3}"
            )
        ((kind, value),) = given.items()
        if kind not in DISTANCE_TARGETS and isinstance(value, Mapping):
            raise ParameterError(f"target={given!r} is not allowed: {kind} is one number for all attributes")
        each = per_attribute(kind, value, attributes)
        return cls(kind, {name: number_between(f"target {kind}", x, *TARGET_BOUNDS[kind]) for name, x in each.items()})

    @property
    def by_distance(self) -> bool:
        """Whether each attribute has a mean squared distance to meet."""
        return self.kind in DISTANCE_TARGETS

    def mean_squares(self, statistics: Statistics) -> Float64Array:
        """Return (p,) float64: the mean squared distances to meet: α·sdVar, or the square of the RMSE."""
        values = np.array([self.value[name] for name in statistics.attributes])
        result: Float64Array = values * np.diag(statistics.covariance) if self.kind == "alpha" else values**2
        return result

    @property
    def power(self) -> float:
        """γ of the kernel."""
        return POWERS[self.kind]

    @property
    def array_power(self) -> float:
        """γ of the kernel of array elements that follow their scalar.

        At the same RMSE, γ = 2 leaves the most noise to them: the mean squared distance of what follows is the least.
        """
        return 2.0 if self.by_distance else self.power

    @property
    def level(self) -> float:
        """The value of a target of whole records."""
        return next(iter(self.value.values()))

    def out_of_range(self, least: float, greatest: float) -> StatisticsError:
        """Return the error for a target of whole records that a window does not allow; it allows what is given."""
        return StatisticsError(
            f"target {self.kind}={self.level:g} cannot be met: this window allows {least:.3f} to {greatest:.3f}"
        )
