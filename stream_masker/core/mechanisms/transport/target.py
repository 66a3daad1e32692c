"""What a transport has to meet: a distance, a vulnerability or an ε, and what no masked record may tell."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from stream_masker.core.dtypes import Float64Array, Float64Matrix
from stream_masker.core.mechanisms.options import MAX_ALPHA, per_attribute
from stream_masker.core.mechanisms.transport.limits import Groups
from stream_masker.core.ontology.taxonomy import Taxonomy
from stream_masker.core.risk.sensitive import SENSITIVE_LISTS, present_groups, sensitive_groups
from stream_masker.core.statistics.summary import Statistics
from stream_masker.core.validation import number_between
from stream_masker.errors import ParameterError, StatisticsError

TARGET_BOUNDS = {
    "alpha": (1e-4, MAX_ALPHA),
    "rmse": (1e-3, 1.0),
    "vulnerability": (1e-3, 1.0),
    "epsilon": (1e-3, 150.0),
}
"""The targets, with the numbers that each allows. The exponents of kernels are bounded, so that no ε exceeds 144."""

DISTANCE_TARGETS = ("alpha", "rmse")
"""The targets that give each attribute a mean squared distance; the others are of whole records."""

CERTAINTY_BOUNDS = (0.01, 1.0)
"""The limits that a posterior may have; 1 limits nothing."""

DEFAULT_TARGET: Mapping[str, float] = {"alpha": 1.0, "certainty": 0.5}
"""The noise of the papers at its full size, and the promise that no value can be known with more than 0.5."""

MAX_NOISE = 0.995
"""The greatest noise of a given α, as a share of the mean squared distances of independent records.

α·sdVar can exceed what the window's values allow; as for semantic noise, the noise is then truncated.
"""

EXAMPLE = "{'alpha': 1, 'certainty': 0.5}"


@dataclass(frozen=True, slots=True)
class Sensitive:
    """A limit of a sensitive group; ``roots``: its concepts, None for the built-in list of that name."""

    limit: float
    roots: tuple[str, ...] | None


@dataclass(frozen=True, slots=True)
class Target:
    """A target. Immutable.

    * ``kind``: a key of ``TARGET_BOUNDS``.
    * ``value``: by attribute; equal for all attributes if the target is of whole records.
    * ``certainty``: β, which the posterior of no value may exceed given the masks of a record (``transport.limits``);
      None for no limit. ``sensitive``: the limits of groups of values, by name.
    """

    kind: str
    value: Mapping[str, float]
    certainty: float | None
    sensitive: Mapping[str, Sensitive]

    @classmethod
    def of(cls, given: object, attributes: tuple[str, ...]) -> Target:
        """Validate ``{kind: value}`` with ``certainty`` and ``sensitive``, or these alone, for which α is 1.

        ``alpha`` and ``rmse`` take one value for all attributes or for each. ``sensitive`` takes a limit by the name of
        a list of ``core.risk.sensitive``, or ``{"limit": β, "roots": [concepts]}`` by a name of one's own.
        Raises ParameterError.
        """
        known = {*TARGET_BOUNDS, "certainty", "sensitive"}
        if not isinstance(given, Mapping) or not given or not set(given) <= known:
            raise ParameterError(
                f"target={given!r} is not allowed: use one of {', '.join(TARGET_BOUNDS)} with its value, and certainty "
                f"and sensitive as limits, such as {EXAMPLE}"
            )
        kinds = [kind for kind in given if kind in TARGET_BOUNDS]
        if len(kinds) > 1:
            raise ParameterError(f"target={given!r} is not allowed: use only one of {', '.join(kinds)}")
        kind = kinds[0] if kinds else "alpha"
        value = given.get(kind, DEFAULT_TARGET["alpha"])
        if kind not in DISTANCE_TARGETS and isinstance(value, Mapping):
            raise ParameterError(f"target={given!r} is not allowed: {kind} is one number for all attributes")
        each = per_attribute(kind, value, attributes)
        limit = given.get("certainty")
        return cls(
            kind,
            {name: number_between(f"target {kind}", x, *TARGET_BOUNDS[kind]) for name, x in each.items()},
            None if limit is None else number_between("target certainty", limit, *CERTAINTY_BOUNDS),
            _sensitive(given.get("sensitive", {})),
        )

    @property
    def limited(self) -> bool:
        """Whether there is a limit to what a masked record tells."""
        return self.certainty is not None or bool(self.sensitive)

    @property
    def by_distance(self) -> bool:
        """Whether each attribute has a mean squared distance to meet."""
        return self.kind in DISTANCE_TARGETS

    def mean_squares(self, spread: Float64Array) -> Float64Array:
        """Return (p,) float64: the mean squared distances to meet: α·sdVar, or the square of the RMSE.

        ``spread``: (p,) float64, the sdVar of each attribute.
        """
        values = np.array(list(self.value.values()))
        result: Float64Array = values * spread if self.kind == "alpha" else values**2
        return result

    def groups(self, taxonomies: Sequence[Taxonomy]) -> tuple[Groups, ...]:
        """Return the sensitive groups of each taxonomy that holds any of their concepts.

        Raises ParameterError for a group that no taxonomy holds.
        """
        result: tuple[dict[str, tuple[np.ndarray[tuple[int], np.dtype[np.bool_]], float]], ...]
        result = tuple({} for _ in taxonomies)
        for name, each in self.sensitive.items():
            for groups, taxonomy in zip(result, taxonomies, strict=True):
                members = _members(taxonomy, name, each.roots)
                if members is not None:
                    groups[name] = (members, each.limit)
            if not any(name in groups for groups in result):
                raise ParameterError(f"target sensitive {name!r}: no attribute's ontology holds any of its concepts")
        return result

    @property
    def level(self) -> float:
        """The value of a target of whole records."""
        return next(iter(self.value.values()))


def _sensitive(given: object) -> dict[str, Sensitive]:
    if not isinstance(given, Mapping) or not all(isinstance(name, str) for name in given):
        raise ParameterError(f"target sensitive={given!r} is not allowed: give a limit by the name of each group")
    return {name: _one_sensitive(name, entry) for name, entry in given.items()}


def _one_sensitive(name: str, given: object) -> Sensitive:
    limit, roots = given, None
    if isinstance(given, Mapping):
        if set(given) != {"limit", "roots"} or isinstance(given["roots"], str) or not given["roots"]:
            raise ParameterError(f"target sensitive {name!r}: give its limit, and its roots as a list of concepts")
        limit, roots = given["limit"], tuple(given["roots"])
    elif name not in SENSITIVE_LISTS:
        raise ParameterError(
            f"target sensitive {name!r}: use one of {', '.join(SENSITIVE_LISTS)}, or give its limit and its roots"
        )
    return Sensitive(number_between(f"target sensitive {name}", limit, *CERTAINTY_BOUNDS), roots)


def _members(
    taxonomy: Taxonomy, name: str, roots: tuple[str, ...] | None
) -> np.ndarray[tuple[int], np.dtype[np.bool_]] | None:
    if roots is None:
        return present_groups(taxonomy).get(name)
    held = [root for root in roots if root in taxonomy]
    return sensitive_groups(taxonomy, {name: held})[name] if held else None


def greatest_noise(law: Float64Array, written: Float64Array, squares: Float64Matrix) -> float:
    """Return the mean squared distance of independent values, times ``MAX_NOISE``; 0 without masks.

    * ``law``, ``written``: (k,) the law of values, and that of masks, up to a factor. ``squares``: (k, k) sd².
    """
    masks = float(written.sum())
    means = np.array([np.dot(row, written) for row in squares])
    return MAX_NOISE * np.dot(law, means) / masks if masks > 0.0 else 0.0


def wanted_squares(target: Target, statistics: Statistics) -> Float64Array:
    """Return (p,) float64: the mean squared distances to meet; for a target of whole records, the ratios of 1 / λ.

    Raises StatisticsError for an attribute with a single value.
    """
    spread = np.diag(statistics.covariance)
    constant = [name for name, s in zip(statistics.attributes, spread, strict=True) if not s > 0.0]
    if constant:
        raise StatisticsError(
            f"{', '.join(constant)}: all values are equal, so nothing could be masked; calibrate on records with "
            "different values"
        )
    return target.mean_squares(spread) if target.by_distance else np.asarray(spread)
