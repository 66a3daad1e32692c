"""The disclosure risk of a statistics version, and the limits that it must stay below."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

import numpy as np

from stream_masker.core.mechanisms import Mechanism, alternative
from stream_masker.core.risk.risk import CERTAIN, Risk
from stream_masker.core.statistics.counts import Counts
from stream_masker.core.statistics.statistics import Statistics
from stream_masker.errors import ParameterError, StatisticsError

MAX_VALUES = 5_000
MAX_CELLS = 1 << 27
"""The maximum number of assessed values of an attribute, and of values times concepts that can be masks."""

SAMPLED_RECORDS = (100, 1_000)
MAX_LIKELIHOODS = 4_000_000
"""The least and the most drawn records, and the most drawn records times distinct pairs of values."""

ROUNDING_ERROR = 1e-6
"""By how much a figure may exceed its limit: kernels are stored with seven digits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RiskLimits:
    """The limits of a version's risk.

    * ``max_vulnerability``: V of every attribute, by its own mask and given all masks of the record; in (0, 1]. What is
      estimated counts with its error.
    * ``max_certain``: the largest share of an attribute's values that are guessed from their masks with a probability
      above 0.9, unless a value is so frequent; in [0, 1].
    * ``hold``: whether a version beyond a limit is withheld; otherwise it is published, and reported.
    """

    max_vulnerability: float = 1.0
    max_certain: float = 0.15
    hold: bool = False


@dataclass(frozen=True, slots=True)
class VersionRisk:
    """The risk of a version; crossed: a sentence about every limit that is crossed."""

    risk: Risk
    crossed: tuple[str, ...]


def assess_version(mechanism: Mechanism, statistics: Statistics, counts: Counts, limits: RiskLimits) -> VersionRisk:
    """Return the risk of statistics, in bounded time; ``counts``: of their window.

    With a probability of at least 0.95, no chance or share differs from its true value by more than its error and the
    share of the rows that are left out, together.
    """
    risk, left_out = _bounded_risk(mechanism, statistics, counts)
    return VersionRisk(risk, tuple(_crossed(risk, limits, left_out)))


def _bounded_risk(mechanism: Mechanism, statistics: Statistics, counts: Counts) -> tuple[Risk, float]:
    """Return the risk of the most frequent values, and the share of the rows that are left out."""
    sizes = [len(d.taxonomy) for d in mechanism.distances]
    masks = [column.keys.size for column in counts.values] if mechanism.masks_are_observed else sizes
    reduced, left_out = most_frequent(counts, sizes, masks)
    pairs = sum(pair.keys.size for pair in reduced.pairs.values())
    draws = int(np.clip(MAX_LIKELIHOODS // max(pairs, 1), *SAMPLED_RECORDS))
    return mechanism.with_statistics(statistics, reduced).risk(draws=draws), left_out


def guess_chances(mechanism: Mechanism, counts: Counts, risk: Risk) -> dict[str, float]:
    """Return the chance of the best guess of a code, by mechanism: the one that runs, and semantic noise or transport
    instead of it, unless it cannot be used for these counts.

    ``risk``: that of the mechanism for the counts of its window.
    """
    chances = {mechanism.name: best_guess(risk)}
    with suppress(StatisticsError, ParameterError):
        if (other := alternative(mechanism, counts.lengths)) is not None:
            chances[other.name] = best_guess(_bounded_risk(other, other.compute(counts, version=1), counts)[0])
    return chances


def best_guess(risk: Risk) -> float:
    """Return the chance of the best guess of a code, that of the attribute which is guessed best."""
    return max(guess.vulnerability for guess in risk.strongest.values())


def _crossed(risk: Risk, limits: RiskLimits, left_out: float) -> Iterator[str]:
    """Yield a sentence about every limit that is crossed. A figure that is not exact counts with its error."""
    for name, value in risk.value.items():
        record = risk.strongest[name]
        worst = min(max(each.vulnerability + each.error for each in (value, record)) + left_out, 1.0)
        if worst > limits.max_vulnerability + ROUNDING_ERROR:
            shown = math.ceil(worst * 100) / 100
            yield f"{name}: the vulnerability {shown:.2f} is above risk.max_vulnerability {limits.max_vulnerability:g}"
        if value.certain > limits.max_certain and value.prior <= CERTAIN:
            yield (
                f"{name}: {value.certain:.0%} of the values are guessed with a probability above {CERTAIN:g}, "
                f"and risk.max_certain is {limits.max_certain:g}"
            )


def most_frequent(counts: Counts, sizes: Sequence[int], masks: Sequence[int]) -> tuple[Counts, float]:
    """Return the counts of the rows that have only the most frequent values, and the share of the rows left out.

    A probability that is an average over all rows differs by at most this share from the average over the remaining
    rows. Each attribute and each pair is reduced separately, and the share is the largest of them. The lengths of
    arrays stay those of all events.

    ``sizes``: the number of concepts of each taxonomy. ``masks``: of those that can be masks.
    """
    values, shares, pairs = [], [], {}
    for column, number in zip(counts.values, masks, strict=True):
        most = min(MAX_VALUES, MAX_CELLS // max(1, number))
        values.append(column.select(np.sort(np.argsort(-column.counts, kind="stable")[:most])))
        shares.append(1.0 - values[-1].rows / max(column.rows, 1))
    for (i, j), pair in counts.pairs.items():
        first, second = np.divmod(pair.keys, sizes[j])
        pairs[i, j] = pair.select(np.isin(first, values[i].keys) & np.isin(second, values[j].keys))
        shares.append(1.0 - pairs[i, j].rows / max(pair.rows, 1))
    return replace(counts, values=tuple(values), pairs=pairs), max(shares)
