"""Drift: the differences between the statistics of two windows."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import combinations
from typing import Any

from stream_masker.core.distance import Distance
from stream_masker.core.statistics.summary import Statistics
from stream_masker.errors import ParameterError, StatisticsError


@dataclass(frozen=True, slots=True)
class AttributeDrift:
    """Drift of one attribute. Every measure is in [0, 1], and 0 means no drift.

    mean: sd(sMean, sMean'). variance: |ΔsVar|. distance_variance: |ΔsdVar|. divergence: the Jensen–Shannon divergence
    (base 2) of the rolled-up values. unknown: the share of unknown values in the newer window. novel: the share of
    values in the newer window whose concept was never observed before.
    """

    mean: float
    variance: float
    distance_variance: float
    divergence: float
    unknown: float
    novel: float


@dataclass(frozen=True, slots=True)
class PairDrift:
    """Drift of a pair of attributes. covariance: |ΔsdCov|. correlation: |ΔsdCor|. Both are in [0, 1]."""

    covariance: float
    correlation: float


@dataclass(frozen=True, slots=True)
class Drift:
    """Drift from the statistics of version ``since`` to those of ``version``. ``pairs``: attributes i < j."""

    version: int
    since: int
    attributes: Mapping[str, AttributeDrift]
    pairs: Mapping[tuple[str, str], PairDrift]

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON-serialisable form: attributes by name, pairs as a list."""
        return {
            "version": self.version,
            "since": self.since,
            "attributes": {a: asdict(drift) for a, drift in self.attributes.items()},
            "pairs": [{"attributes": list(pair), **asdict(drift)} for pair, drift in self.pairs.items()],
        }


def drift_between(new: Statistics, old: Statistics, distances: Sequence[Distance]) -> Drift:
    """Return the drift from ``old`` to ``new``. ``distances``: one per attribute, in their order.

    Raises StatisticsError if the two have different attributes, or contain a concept that the taxonomy does not hold
    (of another version of the ontology).
    """
    check_same_attributes(new, old, distances)
    return Drift(
        version=new.version,
        since=old.version,
        attributes={a: _attribute_drift(a, new, old, d) for a, d in zip(new.attributes, distances, strict=True)},
        pairs={
            (new.attributes[i], new.attributes[j]): PairDrift(
                covariance=abs(float(new.covariance[i, j] - old.covariance[i, j])),
                correlation=abs(float(new.correlation[i, j] - old.correlation[i, j])),
            )
            for i, j in combinations(range(len(new.attributes)), 2)
        },
    )


def jensen_shannon(p: Mapping[str, float], q: Mapping[str, float]) -> float:
    """JSD(p, q) = ½·KL(p ‖ m) + ½·KL(q ‖ m) with m = (p + q)/2, base 2; in [0, 1] (Lin 1991: equation 4.1)."""
    keys = sorted(p.keys() | q.keys())
    shares = [(p.get(key, 0.0), q.get(key, 0.0)) for key in keys]
    return min(1.0, max(0.0, math.fsum(_half(x, x + y) + _half(y, x + y) for x, y in shares)))


def check_same_attributes(new: Statistics, old: Statistics, distances: Sequence[Distance]) -> None:
    """Raise StatisticsError unless the attributes are equal, ParameterError unless each attribute has a distance."""
    if new.attributes != old.attributes:
        raise StatisticsError("only statistics of the same attributes, in the same order, can be compared")
    if len(distances) != len(new.attributes):
        raise ParameterError(f"there are {len(new.attributes)} attributes and {len(distances)} distances")


def mean_distance(attribute: str, new: Statistics, old: Statistics, d: Distance) -> float:
    """sd(sMean, sMean') of an attribute. Raises StatisticsError if the taxonomy does not hold both means."""
    means = (new.mean[attribute], old.mean[attribute])
    _check_in_taxonomy(attribute, means, d)
    return d(*means)


def _half(x: float, both: float) -> float:
    return 0.5 * x * math.log2(2.0 * x / both) if x > 0.0 else 0.0


def _attribute_drift(attribute: str, new: Statistics, old: Statistics, d: Distance) -> AttributeDrift:
    i = new.attributes.index(attribute)
    _check_in_taxonomy(attribute, (*new.rollup[attribute], *old.rollup[attribute]), d)
    return AttributeDrift(
        mean=mean_distance(attribute, new, old, d),
        variance=abs(new.variance[attribute] - old.variance[attribute]),
        distance_variance=abs(float(new.covariance[i, i] - old.covariance[i, i])),
        divergence=jensen_shannon(new.rollup[attribute], old.rollup[attribute]),
        unknown=new.unknown[attribute],
        novel=new.novel[attribute],
    )


def _check_in_taxonomy(attribute: str, concepts: Sequence[str], d: Distance) -> None:
    missing = sum(concept not in d.taxonomy for concept in concepts)
    if missing:
        raise StatisticsError(
            f"the statistics of {attribute} name {missing} concepts that its taxonomy does not hold: "
            "they were computed with another ontology or root"
        )
