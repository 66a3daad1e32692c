"""The tables of 2019 and 2013 on any data: what swapping preserves and microaggregation loses in one group."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from stream_masker.core.anonymity import least_class
from stream_masker.core.batch import Batch
from stream_masker.core.linkage import record_linkage
from stream_masker.core.mechanisms import Microaggregation, RankSwapping
from stream_masker.evaluation.candidates import SWAPPING_VARIANTS
from stream_masker.evaluation.dataset import DataSet, sum_of_squared_errors, utility_of


@dataclass(frozen=True, slots=True)
class SwappingRow:
    """What an algorithm preserves of a data set X with intervals of length k (2019: section 4.1).

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


def swapping_row(data: DataSet, method: str, k: int) -> SwappingRow:
    """Return what an algorithm of ``SWAPPING_VARIANTS`` preserves of the nominal attributes.

    Raises ParameterError like the mechanisms, for example if k is not less than the number of records.
    """
    nominal, options = data.nominal, SWAPPING_VARIANTS[method]
    mechanism = nominal.calibrated(RankSwapping(nominal.taxonomies, **options, k=k, seed=nominal.secret))
    masked = nominal.mask(mechanism)
    after = nominal.statistics_of(Batch(nominal.whole.size, masked.columns))
    utility = utility_of(mechanism, nominal, masked, after)
    moved = np.abs(np.diag(after.covariance) - np.diag(nominal.statistics.covariance))
    return SwappingRow(
        method=method,
        k=k,
        mean_distance={a: u.mean_distance for a, u in utility.attributes.items()},
        variance_error=dict(zip(data.attributes, moved.tolist(), strict=True)),
        rmse={a: u.rmse_actual for a, u in utility.attributes.items()},
        correlation={pair: u.correlation for pair, u in utility.pairs.items()},
        correlation_error={pair: u.correlation_error for pair, u in utility.pairs.items()},
        kept={a: d.share(d.truncated) for a, d in zip(data.attributes, masked.distortions, strict=True)},
        risk=record_linkage(nominal.whole, masked.columns, data.distances).risk,
    )


SSE_KS = (2, 4, 6, 8, 10, 12, 14, 16, 18, 20)
"""The values of k in tables 2 to 5 of the paper."""


@dataclass(frozen=True, slots=True)
class SseRow:
    """The result of masking a data set. sse: by attribute. anonymity: the least number of equal masked records."""

    k: int
    variant: str
    sse: Mapping[str, float]
    anonymity: int


def sse_row(data: DataSet, k: int, variant: str, *, scaling: str = "paper") -> SseRow:
    """Return a cell of tables 2 to 5 of 2013, on any data. Raises ParameterError like the mechanism."""
    mechanism = Microaggregation(
        data.taxonomies, numeric=data.numeric, k=k, variant=variant, scaling=scaling, seed=data.secret
    )
    whole = replace(data, batches=(data.whole,))
    masked = whole.mask(whole.calibrated(mechanism))
    errors = sum_of_squared_errors(data.whole, masked, mechanism.distances)
    released = Batch(data.whole.size, masked.columns, numeric=masked.numeric)
    names = (*data.taxonomies, *data.numeric)
    return SseRow(k, variant, dict(zip(names, errors, strict=True)), least_class(released))
