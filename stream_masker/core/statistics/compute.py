"""From counts to versioned statistics."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from stream_masker.core.distance import Distance
from stream_masker.core.numeric import Moments, NumericStatistics
from stream_masker.core.ontology import Taxonomy
from stream_masker.core.statistics.counts import Counts, SparseCounts
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
    numeric: Sequence[str] = (),
) -> Statistics:
    """The statistics of the counted events; a function of its arguments alone.

    ``attributes``, ``distances``: (p,) in the order of the counts. Variances (the diagonal of Σ, 2017: equation 22) are
    of all of an attribute's rows; covariances and correlations of the rows that have both attributes, 0 where there
    are none. ``previous``: its seen concepts remain seen, and ``novel`` is measured against them (0 without).
    ``numeric``: (q,) names of the numeric attributes, in the order of the counts' moments.

    Raises StatisticsError when an attribute has no value at all (nothing can be masked by such statistics), or
    when ``previous`` is of other attributes or taxonomies; ParameterError for arguments of different lengths.
    """
    names = tuple(attributes)
    _check(counts, names, distances, rollup_depth)
    columns = [_column(j, name, d, counts, previous) for j, (name, d) in enumerate(zip(names, distances, strict=True))]
    covariance, correlation = _matrices(counts, [column.values for column in columns])
    covariance, projection = nearest_psd(covariance)
    return Statistics(
        version=version,
        records=counts.records,
        attributes=names,
        mean={column.name: column.taxonomy.ids[column.mean] for column in columns},
        variance={column.name: column.variance for column in columns},
        covariance=covariance,
        correlation=correlation,
        projection=projection,
        rollup={column.name: roll_up(column.counts, column.taxonomy, rollup_depth) for column in columns},
        unknown={column.name: column.unknown for column in columns},
        seen={column.name: column.seen for column in columns},
        novel={column.name: column.novel for column in columns},
        numeric=numeric_statistics(counts.numeric, numeric),
    )


def numeric_statistics(moments: Moments | None, names: Sequence[str]) -> NumericStatistics | None:
    """Means and covariances of the numeric attributes; None where there are none.

    Raises ParameterError for other attributes than there are moments of, StatisticsError for one without any value.
    """
    if len(names) != (0 if moments is None else moments.attributes):
        raise ParameterError(f"there are {len(names)} names for the moments of the numeric attributes")
    if moments is None or not names:
        return None
    without = [name for name, count in zip(names, np.diag(moments.count), strict=True) if not count]
    if without:
        raise StatisticsError(f"no record of the window has a value of {', '.join(without)}")
    covariance, projection = nearest_psd(moments.covariance)
    return NumericStatistics(tuple(names), np.diag(moments.mean).copy(), covariance, projection)


@dataclass(frozen=True, slots=True)
class _Column:
    """One attribute: its values, the position of their mean, and which concepts were seen before (None: no matter)."""

    name: str
    values: Marginal
    mean: int
    unknown: float
    before: Mask | None

    @property
    def taxonomy(self) -> Taxonomy:
        return self.values.d.taxonomy

    @property
    def counts(self) -> SparseCounts:
        return self.values.counts

    @property
    def variance(self) -> float:
        return variance_from_counts(self.counts, self.values.d, mean=self.mean)

    @property
    def seen(self) -> str:
        now = occurring(self.counts, len(self.taxonomy))
        return pack(now if self.before is None else now | self.before)

    @property
    def novel(self) -> float:
        return 0.0 if self.before is None else novel_share(self.counts, self.before)


def _column(j: int, name: str, d: Distance, counts: Counts, previous: Statistics | None) -> _Column:
    mean = mean_from_counts(counts.values[j], d, near=_mean_before(previous, name, d.taxonomy))
    before = None if previous is None else _seen_before(previous, name, len(d.taxonomy))
    return _Column(name, Marginal(counts.values[j], d), mean, _share(counts.unknown[j], counts.given[j]), before)


def _share(part: int, whole: int) -> float:
    return part / whole if part else 0.0


def _mean_before(previous: Statistics | None, name: str, tau: Taxonomy) -> int:
    """Where the mean was, for the mean is often near it; the root where it is not known."""
    concept = "" if previous is None else previous.mean.get(name, "")
    return tau.position(concept) if concept in tau else 0


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


def _seen_before(previous: Statistics, name: str, size: int) -> Mask:
    if name not in previous.seen:
        raise StatisticsError(f"the previous statistics do not have the attribute {name}")
    return unpack(previous.seen[name], size)
