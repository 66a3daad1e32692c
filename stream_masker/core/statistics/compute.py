"""From counts to versioned statistics."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from stream_masker.core.distance import Distance
from stream_masker.core.statistics.counts import Counts
from stream_masker.core.statistics.covariance import PairTable
from stream_masker.core.statistics.marginal import Marginal
from stream_masker.core.statistics.mean import mean_from_counts, variance_from_counts
from stream_masker.core.statistics.psd import nearest_psd
from stream_masker.core.statistics.rollup import roll_up
from stream_masker.core.statistics.seen import Mask, novel_share, occurring, pack, unpack
from stream_masker.core.statistics.summary import Matrix, Statistics
from stream_masker.errors import ParameterError, StatisticsError


def compute_statistics(
    counts: Counts,
    attributes: Sequence[str],
    distances: Sequence[Distance],
    *,
    version: int,
    rollup_depth: int = 2,
    previous: Statistics | None = None,
) -> Statistics:
    """The statistics of the counted events; a function of its arguments alone.

    ``attributes``, ``distances``: (p,) in the order of the counts. Variances (the diagonal of Σ, 2017: equation 22) are
    of all of an attribute's rows; covariances and correlations of the rows that have both attributes, 0 where there
    are none. ``previous``: its seen concepts remain seen, and ``novel`` is measured against them (0 without).
    ``unknown[a]`` = u / (u + values of a in the counts), of u unknown ones.

    Raises StatisticsError when an attribute has no value at all (nothing can be masked by such statistics), or
    when ``previous`` is of other attributes or taxonomies; ParameterError for arguments of different lengths.
    """
    names = tuple(attributes)
    _check(counts, names, distances, rollup_depth)
    marginals = [Marginal(column, d) for column, d in zip(counts.values, distances, strict=True)]
    means = [mean_from_counts(values.counts, values.d) for values in marginals]
    covariance, correlation = _matrices(counts, marginals)
    covariance, projection = nearest_psd(covariance)
    before = [_seen_before(previous, name, values) for name, values in zip(names, marginals, strict=True)]
    return Statistics(
        version=version,
        records=counts.records,
        attributes=names,
        mean={a: v.d.taxonomy.ids[c] for a, v, c in zip(names, marginals, means, strict=True)},
        variance={
            a: variance_from_counts(v.counts, v.d, mean=c) for a, v, c in zip(names, marginals, means, strict=True)
        },
        covariance=covariance,
        correlation=correlation,
        projection=projection,
        rollup={a: roll_up(v.counts, v.d.taxonomy, rollup_depth) for a, v in zip(names, marginals, strict=True)},
        unknown={a: u / (u + v.counts.rows) for a, u, v in zip(names, counts.unknown, marginals, strict=True)},
        seen={a: _seen_now(v, mask) for a, v, mask in zip(names, marginals, before, strict=True)},
        novel={
            a: 0.0 if mask is None else novel_share(v.counts, mask)
            for a, v, mask in zip(names, marginals, before, strict=True)
        },
    )


def _check(counts: Counts, names: tuple[str, ...], distances: Sequence[Distance], rollup_depth: int) -> None:
    if not len(names) == len(distances) == len(counts.values):
        raise ParameterError(
            f"there are counts of {len(counts.values)} attributes, {len(names)} names and {len(distances)} distances"
        )
    if rollup_depth < 1:
        raise ParameterError(f"rollup_depth={rollup_depth} is not allowed: use 1 (the root) or more")
    without = [name for name, column in zip(names, counts.values, strict=True) if not len(column.keys)]
    if without:
        raise StatisticsError(f"no record of the window has a value of {', '.join(without)}")


def _matrices(counts: Counts, marginals: Sequence[Marginal]) -> tuple[Matrix, Matrix]:
    """Σ as the equations give it, and the correlations."""
    variances = np.sqrt([values.variance_squared for values in marginals])
    covariance = np.diag(variances)
    correlation = np.diag((variances > 0.0).astype(np.float64))
    for (i, j), pair in counts.pairs.items():
        if len(pair.keys):
            known = (marginals[i], marginals[j])
            table = PairTable.of(pair, known[0].d, known[1].d, known)
            covariance[i, j] = covariance[j, i] = table.covariance
            correlation[i, j] = correlation[j, i] = table.correlation
    return covariance, correlation


def _seen_before(previous: Statistics | None, name: str, values: Marginal) -> Mask | None:
    if previous is None:
        return None
    if name not in previous.seen:
        raise StatisticsError(f"the previous statistics do not have the attribute {name}")
    return unpack(previous.seen[name], len(values.d.taxonomy))


def _seen_now(values: Marginal, before: Mask | None) -> str:
    now = occurring(values.counts, len(values.d.taxonomy))
    return pack(now if before is None else now | before)
