"""The disclosure risk of a statistics version, and the limits that it must stay below."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from stream_masker.core.distance import Distance
from stream_masker.core.linkage import linked_share
from stream_masker.core.mechanisms.base import Mechanism
from stream_masker.core.risk.floor import MIN_CHANGED, check_collapse, check_variance, reduced_counts, required_change
from stream_masker.core.risk.records import value_law
from stream_masker.core.risk.risk import CERTAIN, Risk
from stream_masker.core.statistics.counts import Counts
from stream_masker.core.statistics.summary import Statistics

MAX_VALUES = 2_000
MAX_CELLS = 1 << 27
"""The maximum number of assessed values of an attribute, and of values times concepts of the taxonomy."""

MAX_SAMPLED_RECORDS = 1_000
MIN_SAMPLED_RECORDS = 100
MAX_LIKELIHOODS = 4_000_000
"""The maximum number of drawn records, and of drawn records times distinct pairs of values."""


ROUNDING_ERROR = 1e-6
"""By how much a figure may exceed its limit: kernels are stored with seven digits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RiskLimits:
    """The limits of a version's risk.

    * ``max_vulnerability``: that of every attribute, by its own mask and given all masks of the record; in (0, 1]. What
      is estimated counts with its error.
    * ``max_certain``: the largest share of an attribute's values that are guessed from their masks with a probability
      above 0.9, unless a value is so frequent; in [0, 1].
    * ``max_certainty``: the greatest posterior of a value given any masked record, unless its prior is greater; in
      (0, 1]. None: what the mechanism promises, or 0.9; nothing, if it does not tell what all masks of a record tell.
    * ``min_changed``: the least share of values that changes (``core.risk.floor``); in [0, 1].
    * ``min_variance``: the least sVar of an attribute; ``min_variance_share``: the least sVar, as a share of the
      baseline's. Statistics below them are refused in any case.
    * ``hold``: whether a version beyond a limit is withheld; otherwise it is published, and reported.
    * ``repeats``: the number of masks of a value in ``VersionRisk.repeated``. ``fresh_noise``: whether they are
      independent (``noise_key: position``). Otherwise records with equal values have equal masks.
    """

    max_vulnerability: float = 1.0
    max_certain: float = 0.05
    max_certainty: float | None = None
    min_changed: float = MIN_CHANGED
    min_variance: float = 0.0
    min_variance_share: float = 0.0
    hold: bool = False
    repeats: int = 5
    fresh_noise: bool = True


@dataclass(frozen=True, slots=True)
class VersionRisk:
    """The risk of a version. ``risk`` is None if it is unknown because the counts of its window are unknown.

    * ``bound``: with a probability of at least 0.95, no figure of records differs from its true value by more than
      this. The figures of attributes differ by no more than ``left_out``, the share of the window's rows that were left
      out.
    * ``crossed``: a sentence about every limit that is crossed.
    * ``unique``: the share of the window's rows whose pair of values no other row has, ``original`` and, if there are
      masked values, ``masked``.
    * ``repeated``: the chance that the best guess of each attribute's value is right after ``RiskLimits.repeats``
      masks, given the ``value``'s own masks and, where their law is known, all masks of the ``record``.
    * ``linked``: the expected share of 1,000 random records that are linked to their masks
      (``core.linkage.linked_share``).
    """

    risk: Risk | None
    left_out: float
    bound: float
    crossed: tuple[str, ...]
    unique: Mapping[str, float] = field(default_factory=dict)
    repeated: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    linked: float | None = None


def assess_version(
    mechanism: Mechanism,
    statistics: Statistics,
    counts: Counts,
    distances: Sequence[Distance],
    limits: RiskLimits,
    *,
    brief: bool = False,
) -> VersionRisk:
    """Return the risk of statistics, in bounded time, without ``VersionRisk.unique``.

    ``counts``: those of their window. ``brief``: whether to leave out ``repeated`` and ``linked``.
    """
    sizes = [len(d.taxonomy) for d in distances]
    reduced, left_out = reduced_counts(counts, sizes, [min(MAX_VALUES, max(1, MAX_CELLS // size)) for size in sizes])
    installed, draws = mechanism.with_statistics(statistics, reduced), _draws(reduced)
    risk = installed.risk(draws=draws)
    crossed = (*_crossed(risk, reduced, limits, left_out), *_beyond_promise(risk, limits, mechanism.promise))
    return VersionRisk(
        risk,
        left_out,
        left_out + (risk.bound_of_record or max(risk.bound.values())),
        crossed,
        repeated={} if brief else _repeated(installed, risk, max(MIN_SAMPLED_RECORDS, draws // 2), limits),
        linked=None if brief else linked_share(installed, reduced, distances),
    )


def _repeated(mechanism: Mechanism, risk: Risk, draws: int, limits: RiskLimits) -> dict[str, Mapping[str, float]]:
    """Return ``VersionRisk.repeated``. The masks of groups change with the group, whatever the noise key is."""
    if limits.fresh_noise or mechanism.needs_group:
        repeated = mechanism.repeated_risk(repeats=limits.repeats, draws=draws)
        figures = {"value": repeated.given_value, "record": repeated.given_record}
    else:
        figures = {"value": risk.vulnerability, "record": risk.given_record}
    return {given: by_attribute for given, by_attribute in figures.items() if by_attribute is not None}


def check_floor(statistics: Statistics, baseline: Statistics | None, limits: RiskLimits) -> None:
    """Raise StatisticsError if the variances of a version are too small, or have collapsed since the baseline."""
    check_variance(statistics, limits.min_variance)
    if baseline is not None:
        check_collapse(statistics, baseline, limits.min_variance_share)


def unknown_risk(reason: str) -> VersionRisk:
    """Return the risk of a version whose counts are not known, which crosses every limit."""
    return VersionRisk(None, 1.0, 1.0, (reason,))


def _draws(counts: Counts) -> int:
    pairs = sum(pair.keys.size for pair in counts.pairs.values())
    return min(MAX_SAMPLED_RECORDS, max(MIN_SAMPLED_RECORDS, MAX_LIKELIHOODS // max(pairs, 1)))


def _crossed(risk: Risk, counts: Counts, limits: RiskLimits, left_out: float) -> Iterator[str]:
    """Yield a sentence about every limit that is crossed. A figure that is not exact counts with its error."""
    for j, name in enumerate(risk.vulnerability):
        worst = _vulnerability_bound(risk, name, left_out)
        if worst > limits.max_vulnerability + ROUNDING_ERROR:
            shown = math.ceil(worst * 100) / 100
            yield f"{name}: the vulnerability {shown:.2f} is above risk.max_vulnerability {limits.max_vulnerability:g}"
        if risk.certain[name] > limits.max_certain and risk.prior[name] <= CERTAIN:
            yield (
                f"{name}: {risk.certain[name]:.0%} of the values are guessed with a probability above {CERTAIN:g}, "
                f"and risk.max_certain is {limits.max_certain:g}"
            )
        required = required_change(value_law(counts.values[j])[1], limits.min_changed)
        changed = 1.0 - risk.unchanged[name] - risk.bound[name]
        if changed < required:
            shown = math.floor(changed * 100) / 100
            yield f"{name}: the share of changed values {shown:.2f} is below {required:.2f} (risk.min_changed)"


def _beyond_promise(risk: Risk, limits: RiskLimits, promise: float | None) -> Iterator[str]:
    """Yield a sentence about every attribute with a value that some masked record tells too surely."""
    limit, certainty = limits.max_certainty, risk.certainty_given_record
    if limit is None and certainty is None:
        return
    allowed = limit or promise or CERTAIN
    for name, greatest in (certainty or risk.certainty).items():
        if greatest > max(allowed, (risk.frequency or risk.prior)[name]) + ROUNDING_ERROR:
            shown = math.ceil(greatest * 100) / 100
            yield f"{name}: a masked record tells a value with a probability of {shown:.2f}, above {allowed:g}"


def _vulnerability_bound(risk: Risk, name: str, left_out: float) -> float:
    """Return a bound of the vulnerability of an attribute, by its own mask and by all masks of the record."""
    alone = risk.vulnerability[name] + risk.bound[name]
    given = 0.0 if risk.given_record is None else risk.given_record[name] + (risk.bound_of_record or 0.0)
    return min(max(alone, given) + left_out, 1.0)
