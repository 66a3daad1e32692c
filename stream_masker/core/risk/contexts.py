"""The risk of records whose context an attacker knows: averages over the contexts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from stream_masker.core.distance import Distance
from stream_masker.core.dtypes import Float64Array
from stream_masker.core.risk.meaning import Guess, MeaningRisk, Membership
from stream_masker.core.risk.repeats import RepeatedRisk
from stream_masker.core.risk.risk import Risk
from stream_masker.core.risk.sensitive import present_groups
from stream_masker.core.statistics.counts import Counts, SparseCounts

RiskOfContext: TypeAlias = tuple[Risk, Counts]
"""The risk of the records of one context, and their counts."""

AVERAGED = ("prior", "vulnerability", "certain", "likely", "unchanged", "rank", "entropy")
"""The figures of an attribute that are averages over its values."""


def average_risk(parts: Sequence[RiskOfContext], names: Sequence[str], distances: Sequence[Distance]) -> Risk:
    """Return the risk of the records of all contexts, whose masks are of their own context's law.

    Chances and shares are averages over the contexts; a certainty, an ε and a bound are the greatest.
    """
    weights = _rows(parts, names)
    risks = [risk for risk, _ in parts]
    figures: dict[str, Any] = {f: _means([getattr(risk, f) for risk in risks], weights) for f in AVERAGED}
    records = np.array([counts.records for _, counts in parts], np.float64)
    given = any(risk.meaning_given_record is not None for risk in risks)
    least = [risk.least for risk in risks if risk.least is not None]
    told = _meanings([risk.told for risk in risks], parts, names, distances) if given else None
    of_records: dict[str, Any] = {field: _of_record(risks, field, records) for field in RECORD_FIGURES}
    return Risk(
        **figures,
        certainty={a: max(risk.certainty[a] for risk in risks) for a in names},
        certainty_given_record=_greatest([risk.certainty_given_record for risk in risks], names),
        least=_means(least, weights) if least else None,
        frequency=_greatest([risk.frequency for risk in risks], names),
        epsilon={a: max(risk.epsilon[a] for risk in risks) for a in names},
        rmse={a: float(np.average([r.rmse[a] ** 2 for r in risks], weights=weights[a]) ** 0.5) for a in names},
        meaning=_meanings([risk.meaning for risk in risks], parts, names, distances),
        meaning_given_record=told,
        bound={a: max(risk.bound[a] for risk in risks) for a in names},
        given_record=_given_record(risks, weights),
        **of_records,
        bound_of_record=_bound([risk.bound_of_record for risk in risks], records),
    )


def average_repeated(parts: Sequence[tuple[RepeatedRisk, Counts]], names: Sequence[str]) -> RepeatedRisk:
    """Return the vulnerability after repeats of the records of all contexts."""
    risks = [risk for risk, _ in parts]
    weights = _rows(parts, names)
    value = _means([risk.given_value for risk in risks], weights)
    record = _means([risk.given_record or risk.given_value for risk in risks], weights)
    known = any(risk.given_record is not None for risk in risks)
    records = np.array([counts.records for _, counts in parts], np.float64)
    return RepeatedRisk(value, record if known else None, _bound([risk.bound for risk in risks], records) or 0.0)


RECORD_FIGURES = ("vulnerability_of_record", "prior_of_record", "unchanged_of_record")
"""The figures of records, which are averages over them."""


def _rows(parts: Sequence[tuple[object, Counts]], names: Sequence[str]) -> dict[str, Float64Array]:
    """Return for each attribute its number of values in each context."""
    return {name: np.array([counts.values[j].rows for _, counts in parts], np.float64) for j, name in enumerate(names)}


def _means(each: Sequence[Mapping[str, float]], weights: Mapping[str, Float64Array]) -> dict[str, float]:
    """Return the average of each attribute's figure; ``each``: the figures of every context."""
    return {name: float(np.average([part[name] for part in each], weights=w)) for name, w in weights.items()}


def _given_record(risks: Sequence[Risk], weights: Mapping[str, Float64Array]) -> dict[str, float] | None:
    if all(risk.given_record is None for risk in risks):
        return None
    return _means([risk.given_record or risk.vulnerability for risk in risks], weights)


def _greatest(figures: Sequence[Mapping[str, float] | None], names: Sequence[str]) -> dict[str, float] | None:
    known = [each for each in figures if each is not None]
    return {name: max(each[name] for each in known) for name in names} if known else None


def _of_record(risks: Sequence[Risk], field: str, records: Float64Array) -> float | None:
    known = [
        (figure, w) for risk, w in zip(risks, records, strict=True) if (figure := getattr(risk, field)) is not None
    ]
    return float(np.average([figure for figure, _ in known], weights=[w for _, w in known])) if known else None


def _bound(bounds: Sequence[float | None], records: Float64Array) -> float | None:
    """Return Hoeffding's bound of an average whose parts have these bounds, from independent draws."""
    if all(bound is None for bound in bounds):
        return None
    each = np.array([bound or 0.0 for bound in bounds])
    return float(np.sqrt(((records / records.sum() * each) ** 2).sum()))


def _meanings(
    each: Sequence[Mapping[str, MeaningRisk]],
    parts: Sequence[RiskOfContext],
    names: Sequence[str],
    distances: Sequence[Distance],
) -> dict[str, MeaningRisk]:
    """Return the average of each attribute's; ``each``: that of every context."""
    columns = [[counts.values[j] for _, counts in parts] for j in range(len(names))]
    return {a: _meaning([part[a] for part in each], columns[j], distances[j]) for j, a in enumerate(names)}


def _meaning(meanings: Sequence[MeaningRisk], columns: Sequence[SparseCounts], distance: Distance) -> MeaningRisk:
    """Return the average; that of a sensitive group over its values in each context."""
    rows = np.array([column.rows for column in columns], np.float64)
    levels = {level: _guess([each.levels[level] for each in meanings], rows) for level in meanings[0].levels}
    sensitive = {}
    for group, inside in present_groups(distance.taxonomy).items():
        members = [float(column.counts[inside[column.keys]].sum()) for column in columns]
        held = [(m.sensitive[group], n) for m, n in zip(meanings, members, strict=True) if group in m.sensitive and n]
        if held:
            sensitive[group] = _membership([each for each, _ in held], np.array([n for _, n in held]), rows.sum())
    return MeaningRisk(levels, sensitive)


def _guess(guesses: Sequence[Guess], weights: Float64Array) -> Guess:
    return Guess(
        float(np.average([guess.prior for guess in guesses], weights=weights)),
        float(np.average([guess.chance for guess in guesses], weights=weights)),
        max(guess.certainty for guess in guesses),
    )


def _membership(parts: Sequence[Membership], members: Float64Array, rows: float) -> Membership:
    """Return the figures of a group; ``members``: its values in each context; ``rows``: all values."""
    chance = float(np.average([each.found for each in parts], weights=members))
    return Membership(float(members.sum() / rows), chance, max(each.certainty for each in parts))
