"""The computation of versioned statistics from counts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from stream_masker.core.distance import Distance
from stream_masker.core.dtypes import BoolArray, Float64Array
from stream_masker.core.numeric import Moments, NumericStatistics
from stream_masker.core.ontology import Taxonomy
from stream_masker.core.statistics.counts import Counts, SparseCounts
from stream_masker.core.statistics.covariance import PairTable, nearest_psd
from stream_masker.core.statistics.marginal import Marginal
from stream_masker.core.statistics.mean import mean_from_counts, variance_from_counts
from stream_masker.core.statistics.rollup import novel_share, observed_concepts, pack_observed, roll_up, unpack_observed
from stream_masker.core.statistics.summary import Statistics
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
    """Compute the statistics of the counted events.

    The result depends on the arguments alone. Variances (the diagonal of Σ, 2017: equation 22) cover all rows of an
    attribute. Covariances and correlations cover the rows that have both attributes; they are 0 if there are none.

    * ``attributes``, ``distances``: (p,) in the order of the counts.
    * ``rollup_depth``: the depth of ``Statistics.rollup``, at least 1 (the root).
    * ``previous``: the statistics before. Their observed concepts remain observed, and ``novel`` is measured against
      them; without ``previous``, ``novel`` is 0.
    * ``numeric``: (q,) names of the numeric attributes, in the order of the counts' moments.

    Raises StatisticsError if an attribute has no value (such statistics cannot mask anything) or if ``previous`` has
    other attributes or taxonomies, and ParameterError if the arguments have different lengths.
    """
    names = tuple(attributes)
    _check(counts, names, distances, rollup_depth)
    hints = [_mean_before(previous, name, d.taxonomy) for name, d in zip(names, distances, strict=True)]
    window = _WindowStatistics(counts, tuple(distances), tuple(hints))
    columns = [_column(j, name, window, previous) for j, name in enumerate(names)]
    covariance, correlation = _matrices(window)
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
        observed={column.name: column.observed for column in columns},
        novel={column.name: column.novel for column in columns},
        rows={column.name: column.counts.rows for column in columns},
        numeric=numeric_statistics(counts.numeric, numeric),
    )


def numeric_statistics(moments: Moments | None, names: Sequence[str]) -> NumericStatistics | None:
    """Compute the means and covariances of the numeric attributes; None if there are none.

    Raises ParameterError if the names do not match the moments, and StatisticsError if an attribute has no value.
    """
    if len(names) != (0 if moments is None else moments.attributes):
        raise ParameterError(
            f"the counts and the names are of different numeric attributes: {len(names)} names were given"
        )
    if moments is None or not names:
        return None
    without = [name for name, count in zip(names, np.diag(moments.count), strict=True) if not count]
    if without:
        raise StatisticsError(f"no record of the window has a value of {', '.join(without)}")
    covariance, projection = nearest_psd(moments.covariance)
    return NumericStatistics(tuple(names), np.diag(moments.mean).copy(), covariance, projection)


@dataclass(frozen=True)
class _WindowStatistics:
    """The statistics of counts in which every attribute has a value. Frozen; some are cached.

    * ``distances``: (p,) in the order of the counts.
    * ``hints``: (p,) positions that may be near the means.
    """

    counts: Counts
    distances: tuple[Distance, ...]
    hints: tuple[int, ...]

    @cached_property
    def marginals(self) -> tuple[Marginal, ...]:
        """The marginal of each attribute."""
        return tuple(map(Marginal, self.counts.values, self.distances))

    def mean(self, j: int) -> int:
        """Return the position of attribute j's sMean."""
        return mean_from_counts(self.counts.values[j], self.distances[j], hint=self.hints[j])

    def variance(self, j: int) -> float:
        """sdVar of attribute j (2017: equation 20), not its sVar (equation 14), over all rows that have it."""
        return math.sqrt(self.marginals[j].variance_squared)

    def pair(self, key: tuple[int, int]) -> tuple[float, float]:
        """sdCov and sdCor of two attributes, over the rows that have both; 0 if there are none."""
        if not len(self.counts.pairs[key].keys):
            return 0.0, 0.0
        i, j = key
        marginals = self.marginals[i], self.marginals[j]
        table = PairTable.of(self.counts.pairs[key], self.distances[i], self.distances[j], marginals)
        return table.covariance, table.correlation


@dataclass(frozen=True, slots=True)
class _Column:
    """One attribute: its counts, the position of its mean, and the concepts observed before.

    ``previously_observed`` is None without previous statistics.
    """

    name: str
    counts: SparseCounts
    d: Distance
    mean: int
    unknown: float
    previously_observed: BoolArray | None

    @property
    def taxonomy(self) -> Taxonomy:
        return self.d.taxonomy

    @property
    def variance(self) -> float:
        return variance_from_counts(self.counts, self.d, mean=self.mean)

    @property
    def observed(self) -> str:
        now = observed_concepts(self.counts, len(self.taxonomy))
        return pack_observed(now if self.previously_observed is None else now | self.previously_observed)

    @property
    def novel(self) -> float:
        return 0.0 if self.previously_observed is None else novel_share(self.counts, self.previously_observed)


def _column(j: int, name: str, window: _WindowStatistics, previous: Statistics | None) -> _Column:
    counts, d = window.counts, window.distances[j]
    previously_observed = None if previous is None else _observed_before(previous, name, len(d.taxonomy))
    unknown = _share(counts.unknown[j], counts.given[j])
    return _Column(name, counts.values[j], d, window.mean(j), unknown, previously_observed)


def _share(part: int, whole: int) -> float:
    """Unknown values may be counted in another block than the values given, so a window can have more of them."""
    return min(1.0, part / max(whole, 1))


def _mean_before(previous: Statistics | None, name: str, tau: Taxonomy) -> int:
    """Return the position of the previous mean, a good starting point for the search; the root if it is unknown."""
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


def _matrices(window: _WindowStatistics) -> tuple[Float64Array, Float64Array]:
    """Return Σ before projection, and the correlations: (p, p) each."""
    variances = np.array([window.variance(j) for j in range(len(window.distances))])
    covariance = np.diag(variances)
    correlation = np.diag((variances > 0.0).astype(np.float64))
    for i, j in window.counts.pairs:
        covariance[i, j], correlation[i, j] = window.pair((i, j))
        covariance[j, i], correlation[j, i] = covariance[i, j], correlation[i, j]
    return covariance, correlation


def _observed_before(previous: Statistics, name: str, size: int) -> BoolArray:
    if name not in previous.observed:
        raise StatisticsError(f"the previous statistics do not have the attribute {name}")
    return unpack_observed(previous.observed[name], size)
