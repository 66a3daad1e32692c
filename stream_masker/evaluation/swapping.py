"""The tables and figures of 2019, section 4, on any data: what swapping preserves, for each method and interval."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from itertools import product
from statistics import fmean
from typing import Any

import numpy as np

from stream_masker.core.batch import Batch
from stream_masker.core.linkage import record_linkage
from stream_masker.core.mechanisms import MECHANISMS
from stream_masker.evaluation.candidates import SWAPPING_INTERVALS, SWAPPING_VARIANTS
from stream_masker.evaluation.dataset import DataSet
from stream_masker.evaluation.measurement import utility_of

NO_INTERVAL = 0
"""The k of a method without swapping intervals."""

Methods = Mapping[str, tuple[str, Mapping[str, Any]]]
"""Methods of the paper: the name of the mechanism and its parameters, beside k."""

METHODS: Methods = {
    **{method: ("rank_swapping", options) for method, options in SWAPPING_VARIANTS.items()},
    "distributional": ("distributional_rank_swapping", {}),
}
"""The methods of the paper, and the baseline with swapping intervals."""

BASELINES: Methods = {"data swapping": ("data_swapping", {})}
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
    data: DataSet,
    *,
    secrets: Sequence[bytes],
    ks: Sequence[int] = SWAPPING_INTERVALS,
    methods: Methods = METHODS,
    baselines: Methods = BASELINES,
) -> Iterator[SwappingRow]:
    """Yield one row for each method and k, in this order, then one for each baseline.

    Each row is the mean over one masking of the records of ``data``, as one group, for each of ``secrets``. Raises
    ParameterError like the mechanisms, for example if k is not less than the number of records.
    """
    cases = [*product(methods.items(), ks), *product(baselines.items(), (NO_INTERVAL,))]
    for (method, (mechanism, options)), k in cases:
        given = {**options, "k": k} if k else options
        yield _mean([_row(method, k, mechanism, given, data, secret) for secret in secrets])


def _row(method: str, k: int, mechanism: str, options: Mapping[str, Any], data: DataSet, secret: bytes) -> SwappingRow:
    made = MECHANISMS[mechanism](data.taxonomies, **options, seed=secret)
    masked = data.mask(data.calibrated(made), secret)
    after = data.statistics_of(Batch(data.whole.size, masked.columns))
    utility = utility_of(made, data, masked, after)
    moved = np.abs(np.diag(after.covariance) - np.diag(data.statistics.covariance))
    distortions = dict(zip(data.attributes, masked.distortions, strict=True))
    return SwappingRow(
        method=method,
        k=k,
        mean_distance={a: u.mean_distance for a, u in utility.attributes.items()},
        variance_error=dict(zip(data.attributes, moved.tolist(), strict=True)),
        rmse={a: u.rmse_actual for a, u in utility.attributes.items()},
        correlation={pair: u.correlation for pair, u in utility.pairs.items()},
        correlation_error={pair: u.correlation_error for pair, u in utility.pairs.items()},
        kept={a: distortion.truncated / max(1, distortion.values) for a, distortion in distortions.items()},
        risk=record_linkage(data.whole, masked.columns, data.distances).risk,
    )


def _mean(rows: Sequence[SwappingRow]) -> SwappingRow:
    means = {
        measure.name: {label: fmean(getattr(row, measure.name)[label] for row in rows) for label in first}
        for measure in fields(SwappingRow)
        if isinstance(first := getattr(rows[0], measure.name), Mapping)
    }
    return SwappingRow(rows[0].method, rows[0].k, **means, risk=fmean(row.risk for row in rows))
