"""The assessment of a mechanism: its channels, its law of records, and the measures of both."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import combinations
from typing import Any, Protocol

import numpy as np

from stream_masker.core.batch import Batch, Column, MaskedBatch
from stream_masker.core.distance import Distance
from stream_masker.core.dtypes import Int32Array, Int64Array
from stream_masker.core.random import FieldKeys, Keys, PositionKeys
from stream_masker.core.risk.channel import Channel
from stream_masker.core.risk.events import EventLaw, EventMaskFunction, sample_event_risk
from stream_masker.core.risk.meaning import Told
from stream_masker.core.risk.records import IndependentMasks, MaskLaw, SelectableLaw, Tuples, value_law
from stream_masker.core.risk.repeats import RepeatedRisk, TrialRows, repeated_vulnerability
from stream_masker.core.risk.risk import AttributeRisk, Risk
from stream_masker.core.risk.sampling import MaskFunction, RecordRisk, hoeffding_bound, sample_record_risk
from stream_masker.core.statistics.counts import Counts, marginals, same_counts

SECRET = b"random words of an assessment"
"""The secret of the random words of an assessment. It needs no protection: the masked records are never published."""


VALUE_DRAWS = 1_000
"""The least number of values drawn to estimate the vulnerability after repeats of their own masks."""


class MaskedSource(Protocol):
    """A mechanism with statistics in force, which masks encoded records."""

    @property
    def attributes(self) -> tuple[str, ...]: ...

    @property
    def numeric_attributes(self) -> tuple[str, ...]: ...

    def mask_batch(self, batch: Batch, keys: Keys) -> MaskedBatch:
        """Mask encoded records."""


class ChannelSource(MaskedSource, Protocol):
    """A mechanism with statistics in force."""

    @property
    def distances(self) -> tuple[Distance, ...]: ...

    def attribute_channel(self, j: int, values: Int32Array, counts: Counts | None) -> Channel:
        """Return the transition probabilities of some values of attribute j; ``counts``: of the window."""

    def mask_law(self, tuples: Tuples, channels: tuple[Channel, ...], counts: Counts) -> MaskLaw | None:
        """Return the law of the masks of the given attributes, or None if it cannot be computed."""

    def record_risk(self, tuples: Tuples, *, draws: int, repeats: int) -> RecordRisk | None:
        """Return the risk of records of the given attributes, or None if the mechanism does not compute it."""

    def told(self) -> tuple[Told, ...] | None:
        """Return what all masks of a record tell of each attribute's value, if it is known."""

    def trial_rows(self, j: int, channel: Channel, counts: Counts) -> TrialRows:
        """Return the transition probabilities of attribute j's channel, as drawn and as an attacker knows them."""


def assess(source: ChannelSource, counts: Counts, *, draws: int, repeats: int) -> Risk:
    """Return the risk of a mechanism with its statistics in force; ``counts``: those of the window.

    * ``draws``: the number of records drawn to estimate the figures of records.
    * ``repeats``: how often a record's masks were seen.
    """
    names = source.attributes
    channels = tuple(source.attribute_channel(j, value_law(counts.values[j])[0], counts) for j in range(len(names)))
    attributes = {name: _attribute_risk(source, j, channels[j], counts) for j, name in enumerate(names)}
    if repeats == 1:
        alone = {name: risk.vulnerability for name, risk in attributes.items()}
    else:
        alone = _after_repeats(source, channels, counts, draws=draws, repeats=repeats)
    return Risk.of(
        attributes,
        **_told(attributes, source.told() if repeats == 1 else None),
        **_record_figures(source, channels, alone, counts, draws=draws, repeats=repeats),
    )


def _told(attributes: Mapping[str, AttributeRisk], told: tuple[Told, ...] | None) -> dict[str, Any]:
    """Return what all masks of a record tell, under the names of ``Risk``."""
    if told is None:
        return {}
    pairs = dict(zip(attributes, told, strict=True))
    return {
        "certainty_given_record": {name: risk.certainty for name, risk in pairs.items()},
        "frequency": {name: risk.frequency for name, risk in pairs.items()},
        "meaning_given_record": {name: risk.meaning or attributes[name].meaning for name, risk in pairs.items()},
    }


def assess_repeats(source: ChannelSource, counts: Counts, *, draws: int, repeats: int) -> RepeatedRisk:
    """Return the vulnerability after ``repeats`` masks with independent random words; otherwise as ``assess``."""
    channels = tuple(source.attribute_channel(j, value_law(c)[0], counts) for j, c in enumerate(counts.values))
    given_value = _after_repeats(source, channels, counts, draws=draws, repeats=repeats)
    figures = _record_figures(source, channels, given_value, counts, draws=draws, repeats=repeats)
    return RepeatedRisk(given_value, figures.get("given_record"), hoeffding_bound(draws))


def _after_repeats(
    source: ChannelSource, channels: tuple[Channel, ...], counts: Counts, *, draws: int, repeats: int
) -> dict[str, float]:
    """Return the chance of the best guess of each attribute's value from ``repeats`` masks of it."""
    vulnerabilities = {}
    for j, name in enumerate(source.attributes):
        prior, rows = value_law(counts.values[j])[1], source.trial_rows(j, channels[j], counts)
        vulnerabilities[name] = repeated_vulnerability(prior, rows, repeats=repeats, draws=max(draws, VALUE_DRAWS))
    return vulnerabilities


def _attribute_risk(source: ChannelSource, j: int, channel: Channel, counts: Counts) -> AttributeRisk:
    return AttributeRisk.of(channel, value_law(counts.values[j])[1], source.distances[j])


def _record_figures(
    source: ChannelSource,
    channels: tuple[Channel, ...],
    alone: dict[str, float],
    counts: Counts,
    *,
    draws: int,
    repeats: int,
) -> dict[str, Any]:
    """Return the figures of records under the names of ``Risk``: the highest over all pairs of attributes.

    ``alone``: by attribute, the chance of the best guess from its own masks. It is that of attributes in no pair.
    """
    sizes = tuple(len(d.taxonomy) for d in source.distances)
    given: dict[str, float] = {}
    risks: list[tuple[RecordRisk, float]] = []
    for combination in _combinations(counts):
        tuples = Tuples.of(counts, combination, sizes)
        risk = source.record_risk(tuples, draws=draws, repeats=repeats)
        whole = len(combination) == 1 and repeats == 1
        law = None if risk else source.mask_law(tuples, tuple(channels[j] for j in combination), counts)
        if law is not None:
            events = _event_law(source, tuples, law, channels, counts)
            if events is None and whole and isinstance(law, IndependentMasks):
                risk = _of_value(channels[0], alone[source.attributes[0]], tuples)
            elif events is None:
                risk = sample_record_risk(tuples, law, _masker(source, combination), draws=draws, repeats=repeats)
            else:
                risk = sample_event_risk(events, _event_masker(source, events), draws=draws, repeats=repeats)
        if risk is None:
            continue
        risks.append((risk, float(tuples.prior.max())))
        for j, value in zip(combination, risk.of_attributes, strict=True):
            given[source.attributes[j]] = max(given.get(source.attributes[j], 0.0), value)
    if not risks:
        return {}
    highest, prior = max(risks, key=lambda pair: pair[0].vulnerability)
    return {
        "given_record": {name: given.get(name, chance) for name, chance in alone.items()},
        "vulnerability_of_record": highest.vulnerability,
        "prior_of_record": prior,
        "unchanged_of_record": highest.unchanged,
        "bound_of_record": highest.bound,
    }


def _of_value(channel: Channel, chance: float, tuples: Tuples) -> RecordRisk:
    """Return the risk of records with a single value; ``chance``: that of its best guess."""
    return RecordRisk(chance, (chance,), float(tuples.prior @ channel.unchanged), channel.bound)


def _combinations(counts: Counts) -> list[tuple[int, ...]]:
    p = len(counts.values)
    return [(0,)] if p == 1 else [pair for pair in combinations(range(p), 2) if len(counts.pairs[pair].keys)]


def _masker(source: ChannelSource, combination: tuple[int, ...]) -> MaskFunction:
    """Return the function that masks records whose only values are those of the chosen attributes."""

    def mask(originals: tuple[Int32Array, ...], repetition: int) -> tuple[Int32Array, ...]:
        size = originals[0].size
        keys = FieldKeys(SECRET, [b"%d %d" % (repetition, i) for i in range(size)])
        masked = source.mask_batch(batch_of_values(source, dict(zip(combination, originals, strict=True)), size), keys)
        return tuple(masked.columns[j].codes for j in combination)

    return mask


def _event_law(
    source: ChannelSource, tuples: Tuples, law: MaskLaw, channels: tuple[Channel, ...], counts: Counts
) -> EventLaw | None:
    """Return the law of events, or None if no event of the window has several values of the attributes."""
    arrays = [
        k for k, j in enumerate(tuples.attributes) if j in counts.lengths and counts.lengths[j].keys.max(initial=0) > 1
    ]
    if len(tuples.attributes) == 1 or not arrays or not isinstance(law, SelectableLaw):
        return None
    array = arrays[0]
    j, rows = tuples.attributes[1 - array], counts.pairs[tuples.attributes[0], tuples.attributes[1]]
    column = marginals(rows, len(source.distances[tuples.attributes[1]].taxonomy))[1 - array]
    scalar = channels[j]
    if not same_counts(column, counts.values[j]):
        values = (*counts.values[:j], column, *counts.values[j + 1 :])
        scalar = source.attribute_channel(j, value_law(column)[0], replace(counts, values=values))
    return EventLaw(tuples, array, law, scalar, counts.lengths[tuples.attributes[array]])


def _event_masker(source: ChannelSource, law: EventLaw) -> EventMaskFunction:
    """Return the function that masks events with a scalar and an array only, each value with its own words."""
    scalar, array = law.tuples.attributes[1 - law.array], law.tuples.attributes[law.array]

    def mask(
        scalars: Int32Array, elements: Int32Array, offsets: Int64Array, repetition: int
    ) -> tuple[Int32Array, Int32Array]:
        batch = batch_of_values(source, {scalar: scalars}, scalars.size)
        columns = list(batch.columns)
        columns[array] = Column(elements, offsets)
        keys = PositionKeys(SECRET, "", repetition, np.arange(scalars.size))
        masked = source.mask_batch(replace(batch, columns=tuple(columns)), keys)
        return masked.columns[scalar].codes, masked.columns[array].codes

    return mask


def batch_of_values(source: MaskedSource, values: dict[int, Int32Array], size: int) -> Batch:
    """Return a batch of scalars, given by attribute; the values of other attributes are absent."""
    absent = np.full(size, -1, np.int32)
    columns = tuple(Column(values.get(j, absent)) for j in range(len(source.attributes)))
    numeric = np.full((size, len(source.numeric_attributes)), np.nan) if source.numeric_attributes else None
    return Batch(size, columns, numeric=numeric)
