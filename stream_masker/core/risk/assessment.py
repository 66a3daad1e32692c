"""The risk of a mechanism with its statistics in force.

For what all masks of a record tell, records are drawn and masked, and the posterior of each is computed exactly
(Rao–Blackwell): each draw is a column of the joint law. Mechanisms that have the joint law itself do not need this.

The counts of a window hold pairs of a scalar a and an element b of an array, and how many elements events have. So an
event has the law P(n)·P(a)·Π P(b_i | a), and the posterior of its scalar is proportional to
P(a)·P(a* | a)·Π P(b_i* | a, a*). This is exact if the masks of elements are independent given a and a*. Otherwise it is
that of an attacker who neglects what the masks of several elements tell together about the noise of the scalar.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias

import numpy as np

from stream_masker.core.arrays import offsets_from_lengths, ratio
from stream_masker.core.batch import Column
from stream_masker.core.distance import Distance
from stream_masker.core.dtypes import Float64Array, Int32Array, Int64Array
from stream_masker.core.risk.channel import Channel
from stream_masker.core.risk.records import (
    MaskLaw,
    RecordMasker,
    Tuples,
    hoeffding_bound,
    masked_columns,
    value_law,
)
from stream_masker.core.risk.risk import Disclosure, Risk, disclosure
from stream_masker.core.statistics.counts import Counts, SparseCounts

Masks: TypeAlias = tuple[int, list[int]]
"""The masks of one record: of its scalar, and of its elements."""


class AssessedMechanism(RecordMasker, Protocol):
    """A mechanism with statistics in force; ``WindowedMechanism`` describes its members."""

    @property
    def distances(self) -> tuple[Distance, ...]: ...

    def attribute_channel(self, j: int, values: Int32Array, counts: Counts | None) -> Channel: ...

    def mask_law(self, tuples: Tuples, channels: tuple[Channel, ...], counts: Counts) -> MaskLaw | None: ...


def assess(source: AssessedMechanism, counts: Counts, *, draws: int) -> Risk:
    """Return the risk of a mechanism; ``counts``: those of the window.

    ``draws``: the number of records drawn for the figures of records that are not exact.
    """
    value, unchanged, rmse, channels = {}, {}, {}, []
    for j, name in enumerate(source.attributes):
        (values, prior), distance = value_law(counts.values[j]), source.distances[j]
        channel = source.attribute_channel(j, values, counts)
        joint = prior[:, None] * channel.rows
        value[name] = disclosure(distance.taxonomy, values, prior, [joint], channel.bound)
        unchanged[name] = float(prior @ channel.unchanged)
        rmse[name] = float((joint * distance.between(values, channel.classes.representatives) ** 2).sum() ** 0.5)
        channels.append(channel)
    sampled, stays = _sampled(source, channels, counts, draws)
    if sampled is None:
        return Risk(value, None, unchanged, None, rmse)
    told = {name: sampled.get(name, own) for name, own in value.items()}
    if len(value) == 1 and not counts.lengths:
        stays = unchanged[source.attributes[0]]
    return Risk(value, told, unchanged, stays, rmse)


def _sampled(
    source: AssessedMechanism, channels: Sequence[Channel], counts: Counts, draws: int
) -> tuple[dict[str, Disclosure] | None, float | None]:
    """Return what all masks tell of the attributes that occur with others, and the share of records that stay.

    Of several pairs of an attribute, the one that tells most counts; of all pairs, the one that stays least. Returns
    None instead if no law of masks is known.
    """
    told: dict[str, Disclosure] = {}
    sizes, shares, known = [len(d.taxonomy) for d in source.distances], [], False
    combinations: list[tuple[int, ...]] = [both for both, pairs in counts.pairs.items() if pairs.keys.size]
    for attributes in combinations or [(0,)]:
        tuples = Tuples.of(counts, attributes, sizes)
        law = source.mask_law(tuples, tuple(channels[j] for j in attributes), counts)
        known = known or law is not None
        if len(attributes) == 2 and law is not None:
            pair = PairLaw.of(tuples, counts)
            masks, stay = pair.masked(source, pair.draw(draws))
            shares.append(stay)
            for name, found in _disclosures(source, pair, law, channels, masks).items():
                told[name] = max(found, told.get(name, found), key=lambda each: each.vulnerability)
    return told if known else None, min(shares, default=None)


def _disclosures(
    source: AssessedMechanism, pair: PairLaw, law: MaskLaw, channels: Sequence[Channel], masks: Sequence[Masks]
) -> dict[str, Disclosure]:
    """Return what all masks of random records tell of both attributes: of the scalar, and of a random element."""
    own = channels[pair.attributes[0]]
    rows = own.rows[np.searchsorted(own.values, pair.values[0])]
    chosen = np.random.default_rng(1)
    columns = []
    for a, elements in masks:
        seen = rows[:, own.classes.class_of[a]]
        columns.append(pair.posterior(law, a, elements, int(chosen.integers(len(elements))), seen))
    numbers = np.array([len(elements) for _, elements in masks])
    found = {}
    for k, weights in enumerate((np.full(numbers.size, 1.0 / numbers.size), numbers / numbers.sum())):
        j = pair.attributes[k]
        joint = np.stack([both[k] for both in columns], axis=1) * weights
        error = hoeffding_bound(1.0 / float((weights**2).sum()))
        taxonomy = source.distances[j].taxonomy
        found[source.attributes[j]] = disclosure(taxonomy, pair.values[k], pair.priors[k], [joint], error)
    return found


@dataclass(frozen=True, slots=True, eq=False)
class PairLaw:
    """The law of records with a scalar and elements, of which there is one if neither attribute is an array.

    * ``tuples``: the t pairs of values. ``place``: which of both attributes the elements are of, 0 or 1.
    * ``lengths``: how many records have each number of elements; None without an array.
    * ``values``: the values of the scalar and of the elements, ascending. ``index``: (t,) each, those of every pair.
      ``priors``: the share of each.
    """

    tuples: Tuples
    place: int
    lengths: SparseCounts | None
    values: tuple[Int32Array, Int32Array]
    index: tuple[Int64Array, Int64Array]
    priors: tuple[Float64Array, Float64Array]

    @classmethod
    def of(cls, tuples: Tuples, counts: Counts) -> PairLaw:
        arrays = [k for k, j in enumerate(tuples.attributes) if j in counts.lengths and counts.lengths[j].keys.any()]
        place = arrays[0] if arrays else 1
        lengths = counts.lengths[tuples.attributes[place]] if arrays else None
        (a, of_a), (b, of_b) = (np.unique(tuples.codes[k], return_inverse=True) for k in (1 - place, place))
        shares = [np.bincount(index, tuples.prior).astype(np.float64) for index in (of_a, of_b)]
        return cls(tuples, place, lengths, (a, b), (of_a, of_b), (shares[0], shares[1]))

    @property
    def attributes(self) -> tuple[int, int]:
        """The attributes of the scalar and of the elements."""
        return self.tuples.attributes[1 - self.place], self.tuples.attributes[self.place]

    def draw(self, size: int) -> list[Int64Array]:
        """Draw records: the pairs of the elements of each, which have one scalar."""
        generator, prior = np.random.default_rng(0), self.tuples.prior
        numbers = np.ones(size, np.int64)
        if self.lengths is not None:
            weights = np.where(self.lengths.keys > 0, self.lengths.counts, 0)
            numbers = generator.choice(self.lengths.keys, size, p=weights / weights.sum())
        records = []
        for scalar, number in zip(generator.choice(self.values[0].size, size, p=self.priors[0]), numbers, strict=True):
            same = np.flatnonzero(self.index[0] == scalar)
            records.append(generator.choice(same, number, p=prior[same] / prior[same].sum()))
        return records

    def masked(self, source: AssessedMechanism, records: Sequence[Int64Array]) -> tuple[list[Masks], float]:
        """Mask records; return the masks, and the share of records of which no value is changed."""
        offsets = offsets_from_lengths(np.array([each.size for each in records]))
        first, every = np.array([each[0] for each in records]), np.concatenate(records)
        before = self.values[0][self.index[0][first]], self.values[1][self.index[1][every]]
        elements = Column(before[1], None if self.lengths is None else offsets)
        columns = dict(zip(self.attributes, (Column(before[0]), elements), strict=True))
        scalars, masks = masked_columns(source, columns, len(records)).values()
        same = np.logical_and.reduceat(masks == before[1], offsets[:-1]) & (scalars == before[0])
        each = np.split(masks, offsets[1:-1])
        return [(int(a), b.tolist()) for a, b in zip(scalars, each, strict=True)], float(same.mean())

    def posterior(
        self, law: MaskLaw, scalar: int, elements: Sequence[int], chosen: int, own: Float64Array
    ) -> tuple[Float64Array, Float64Array]:
        """Return the posterior of the scalar, and of the element with the index ``chosen``.

        ``scalar``, ``elements``: their masks. ``own``: P(scalar's mask | a) of each scalar.
        """
        (of_a, of_b), (prior, _) = self.index, self.priors
        posterior, of_element = prior, self.tuples.prior
        masked = [(element, scalar) if self.place == 0 else (scalar, element) for element in elements]
        for k, likelihood in enumerate(law.likelihoods(masked)):
            joint = self.tuples.prior / prior[of_a] * likelihood
            chances = np.bincount(of_a, joint, prior.size).astype(np.float64)
            posterior = posterior * (chances if k == 0 else ratio(chances, own))
            posterior = posterior / posterior.sum()
            if k == chosen:
                of_element = ratio(joint, chances[of_a])
        together = posterior[of_a] * of_element
        return posterior, np.bincount(of_b, together, self.values[1].size).astype(np.float64)
