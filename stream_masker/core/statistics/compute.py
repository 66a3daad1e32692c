"""From counts to versioned statistics."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from stream_masker.core.distance import Distance
from stream_masker.core.dtypes import BoolArray, Float64Array
from stream_masker.core.numeric import Moments, NumericStatistics
from stream_masker.core.ontology import Taxonomy
from stream_masker.core.statistics.counts import Counts, SparseCounts
from stream_masker.core.statistics.mean import variance_from_counts
from stream_masker.core.statistics.observed import novel_share, occurring, pack_mask, unpack_mask
from stream_masker.core.statistics.psd import nearest_psd
from stream_masker.core.statistics.rollup import roll_up
from stream_masker.core.statistics.summary import Statistics
from stream_masker.core.statistics.window_statistics import IncrementalStatistics, WindowStatistics
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
    following: IncrementalStatistics | None = None,
) -> Statistics:
    """The statistics of the counted events; a function of its other arguments alone.

    ``attributes``, ``distances``: (p,) in the order of the counts. Variances (the diagonal of Σ, 2017: equation 22) are
    of all of an attribute's rows; covariances and correlations of the rows that have both attributes, 0 where there
    are none. ``previous``: its seen concepts remain seen, and ``novel`` is measured against them (0 without).
    ``numeric``: (q,) names of the numeric attributes, in the order of the counts' moments. ``following``: what followed
    the windows before, with the same distances: where most of the window is as it was, the statistics come quicker.

    Raises StatisticsError when an attribute has no value at all (nothing can be masked by such statistics), or
    when ``previous`` is of other attributes or taxonomies; ParameterError for arguments of different lengths.
    """
    names = tuple(attributes)
    _check(counts, names, distances, rollup_depth)
    near = [_mean_before(previous, name, d.taxonomy) for name, d in zip(names, distances, strict=True)]
    figures = following.figures(counts, near) if following else WindowStatistics(counts, tuple(distances), tuple(near))
    columns = [_column(j, name, figures, previous) for j, name in enumerate(names)]
    covariance, correlation = _matrices(figures)
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
    """One attribute: its counts, the position of their mean, and which concepts were seen before (None: no matter)."""

    name: str
    counts: SparseCounts
    d: Distance
    mean: int
    unknown: float
    before: BoolArray | None

    @property
    def taxonomy(self) -> Taxonomy:
        return self.d.taxonomy

    @property
    def variance(self) -> float:
        return variance_from_counts(self.counts, self.d, mean=self.mean)

    @property
    def seen(self) -> str:
        now = occurring(self.counts, len(self.taxonomy))
        return pack_mask(now if self.before is None else now | self.before)

    @property
    def novel(self) -> float:
        return 0.0 if self.before is None else novel_share(self.counts, self.before)


def _column(j: int, name: str, figures: WindowStatistics, previous: Statistics | None) -> _Column:
    counts, d = figures.counts, figures.distances[j]
    before = None if previous is None else _seen_before(previous, name, len(d.taxonomy))
    unknown = _share(counts.unknown[j], counts.given[j])
    return _Column(name, counts.values[j], d, figures.mean(j), unknown, before)


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


def _matrices(figures: WindowStatistics) -> tuple[Float64Array, Float64Array]:
    """Σ as the equations give it, and the correlations."""
    variances = np.array([figures.variance(j) for j in range(len(figures.distances))])
    covariance = np.diag(variances)
    correlation = np.diag((variances > 0.0).astype(np.float64))
    for i, j in figures.counts.pairs:
        covariance[i, j], correlation[i, j] = figures.pair((i, j))
        covariance[j, i], correlation[j, i] = covariance[i, j], correlation[i, j]
    return covariance, correlation


def _seen_before(previous: Statistics, name: str, size: int) -> BoolArray:
    if name not in previous.seen:
        raise StatisticsError(f"the previous statistics do not have the attribute {name}")
    return unpack_mask(previous.seen[name], size)
