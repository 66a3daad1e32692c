"""The tables and figures of 2019, section 4, on any data: what swapping preserves, for each method and interval."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, product
from statistics import fmean
from typing import Any, TypeVar

import numpy as np

from stream_masker.core.batch import Batch
from stream_masker.core.distance import Distance
from stream_masker.core.linkage import record_linkage
from stream_masker.core.mechanisms.swapping.base import Swapping
from stream_masker.core.mechanisms.swapping.data import DataSwapping
from stream_masker.core.mechanisms.swapping.interval import DistributionalRankSwapping
from stream_masker.core.mechanisms.swapping.rank import RankSwapping
from stream_masker.core.ontology import Taxonomy
from stream_masker.core.statistics import (
    Counts,
    SparseCounts,
    correlation_from_counts,
    count_batch,
    distance_variance_from_counts,
    mean_from_counts,
)
from stream_masker.evaluation.dataset import mask_whole

Label = TypeVar("Label", str, tuple[str, str])

SWAPPING_KS = (2, 5, 10, 20, 50, 100)
"""The lengths of the swapping interval in the paper."""

NO_INTERVAL = 0
"""The k of a method without swapping intervals."""

Maker = Callable[[Mapping[str, Taxonomy], int, bytes], Swapping]
"""Creates a mechanism from taxonomies, k and a secret."""

METHODS: Mapping[str, Maker] = {
    "Algorithm 1": lambda taus, k, seed: RankSwapping(taus, k=k, intervals="fixed", seed=seed),
    "Algorithm 2": lambda taus, k, seed: RankSwapping(taus, k=k, seed=seed),
    "Algorithm 3": lambda taus, k, seed: RankSwapping(taus, k=k, multivariate=True, seed=seed),
    "distributional": lambda taus, k, seed: DistributionalRankSwapping(taus, k=k, seed=seed),
}
"""The methods of the paper, and the baseline with swapping intervals."""

BASELINES: Mapping[str, Maker] = {"data swapping": lambda taus, _, seed: DataSwapping(taus, seed=seed)}
"""The baselines without swapping intervals."""


@dataclass(frozen=True, slots=True)
class SwappingRow:
    """What a method preserves of a data set X with intervals of length k or ``NO_INTERVAL`` (2019: section 4.1).

    Metrics 1 to 4; an error of 0 means no loss.
    mean_distance[a]: sd(sμ(X*), sμ(X)). variance_error[a]: |sdVar(X*) - sdVar(X)|. rmse[a]: √(Σ sd(x, x*)² / n).
    correlation[a, b]: sdCor(X*). correlation_error[a, b]: |sdCor(X*) - sdCor(X)|.

    kept[a]: the share of values that were not swapped, because they found no partner. risk: the expected share of
    records that an intruder links; section 3.5 states 1/k for Algorithm 3, which is exceeded from k = 10 on.
    """

    method: str
    k: int
    mean_distance: Mapping[str, float]
    variance_error: Mapping[str, float]
    rmse: Mapping[str, float]
    correlation: Mapping[tuple[str, str], float]
    correlation_error: Mapping[tuple[str, str], float]
    kept: Mapping[str, float]
    risk: float


def swapping_rows(
    batch: Batch,
    taxonomies: Mapping[str, Taxonomy],
    *,
    secrets: Sequence[bytes],
    ks: Sequence[int] = SWAPPING_KS,
    methods: Mapping[str, Maker] = METHODS,
    baselines: Mapping[str, Maker] = BASELINES,
) -> Iterator[SwappingRow]:
    """Yield one row for each method and k, in this order, then one for each baseline.

    Each row is the mean over one masking for each of ``secrets``. ``batch``: the data, columns in the order of
    ``taxonomies``. Raises ParameterError like the mechanisms, for example if k is not less than the number of records.
    """
    cases = [*product(methods.items(), ks), *product(baselines.items(), (NO_INTERVAL,))]
    for (method, make), k in cases:
        yield _mean([_row(method, k, make(taxonomies, k, secret), batch, secret) for secret in secrets])


@dataclass(frozen=True, slots=True)
class _Features:
    """The semantic features of a data set (2019: Table 1): means and variances by attribute, correlations by pair."""

    means: Sequence[int]
    variances: Sequence[float]
    correlations: Sequence[float]

    @classmethod
    def of(cls, batch: Batch, distances: Sequence[Distance]) -> _Features:
        counts = count_batch(batch, [len(d.taxonomy) for d in distances])
        columns = list(zip(counts.values, distances, strict=True))
        return cls(
            [mean_from_counts(values, d) for values, d in columns],
            [distance_variance_from_counts(values, d) for values, d in columns],
            [correlation_from_counts(pair, distances[i], distances[j]) for (i, j), pair in _ordered(counts)],
        )


def _row(method: str, k: int, mechanism: Swapping, batch: Batch, secret: bytes) -> SwappingRow:
    names, distances = mechanism.attributes, mechanism.distances
    masked = mask_whole(mechanism, batch, secret)
    before, after = _Features.of(batch, distances), _Features.of(Batch(batch.size, masked.columns), distances)
    means = zip(before.means, after.means, distances, strict=True)
    distortions = dict(zip(names, masked.distortions, strict=True))
    pairs = list(combinations(names, 2))
    return SwappingRow(
        method=method,
        k=k,
        mean_distance=dict(zip(names, (_distance(a, b, d) for a, b, d in means), strict=True)),
        variance_error=_errors(names, before.variances, after.variances),
        rmse={
            a: math.sqrt(distortion.squared_distance / max(1, distortion.values))
            for a, distortion in distortions.items()
        },
        correlation=dict(zip(pairs, after.correlations, strict=True)),
        correlation_error=_errors(pairs, before.correlations, after.correlations),
        kept={a: distortion.truncated / max(1, distortion.values) for a, distortion in distortions.items()},
        risk=record_linkage(batch, masked.columns, distances).risk,
    )


def _ordered(counts: Counts) -> list[tuple[tuple[int, int], SparseCounts]]:
    return sorted(counts.pairs.items(), key=lambda pair: pair[0])


def _distance(a: int, b: int, d: Distance) -> float:
    return float(d.pairs(np.array([a]), np.array([b]))[0])


def _errors(labels: Sequence[Label], before: Sequence[float], after: Sequence[float]) -> dict[Label, float]:
    return {label: abs(new - old) for label, old, new in zip(labels, before, after, strict=True)}


def _mean(rows: Sequence[SwappingRow]) -> SwappingRow:
    means = {
        name: _mean_of([getattr(row, name) for row in rows])
        for name in ("mean_distance", "variance_error", "rmse", "correlation", "correlation_error", "kept")
    }
    return SwappingRow(rows[0].method, rows[0].k, **means, risk=fmean(row.risk for row in rows))


def _mean_of(measures: Sequence[Mapping[Any, float]]) -> dict[Any, float]:
    return {label: fmean(each[label] for each in measures) for label in measures[0]}
