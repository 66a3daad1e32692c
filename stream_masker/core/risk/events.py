"""The measures of events with a scalar and an array, whose masks an attacker has all, by Rao–Blackwell Monte Carlo.

The counts of a window hold pairs of a scalar a and an element b, and how many elements events have. So the law of an
event is taken to be P(n)·P(a)·Π P(b_i | a): elements are independent given the scalar, and as many for every scalar.
Events are drawn from it and masked by the mechanism. The posterior of the scalar is then proportional to

    P(a)·P(a* | a)·Π_i P(b_i* | a, a*)    with    P(b_i* | a, a*) = Σ_b P(b | a)·P(a*, b_i* | a, b) / P(a* | a)

This is exact if the masks of elements are independent given a and a*, as they are if the noise of each value is
independent. It is approximate if the noise of elements depends on that of their scalar, or if the scalar's mask depends
on its first element only: the posterior is then that of an attacker who neglects what the masks of several elements
tell together about the noise of the scalar, or which element is the first.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from stream_masker.core.arrays import offsets_from_lengths
from stream_masker.core.dtypes import Float64Array, Int32Array, Int64Array
from stream_masker.core.risk.channel import Channel
from stream_masker.core.risk.records import SelectableLaw, Tuples
from stream_masker.core.risk.sampling import RecordRisk, hoeffding_bound
from stream_masker.core.statistics.counts import SparseCounts

MAX_USED_ELEMENTS = 16
"""The greatest number of elements whose masks are used. The scalar of a longer event counts as known."""

IMPROBABLE = 1e-3
"""The posterior probability, given the scalar's masks, of its values that are left out. No figure changes by more."""

EventMaskFunction = Callable[[Int32Array, Int32Array, Int64Array, int], tuple[Int32Array, Int32Array]]
"""A function that masks scalars and elements, given as positions, the elements with their offsets. The number
distinguishes independent repetitions."""


@dataclass(frozen=True, slots=True, eq=False)
class EventLaw:
    """The law of events with a scalar and an array, and of their masks.

    * ``tuples``: the pairs of a scalar's value and an element. ``array``: which of both is the array, 0 or 1.
    * ``masks``: the law of the masks of each pair. ``scalar``: P(a* | a) of the scalars of these pairs, ascending.
    * ``lengths``: the number of events with each number of elements; events without elements are left out.
    """

    tuples: Tuples
    array: int
    masks: SelectableLaw
    scalar: Channel
    lengths: SparseCounts

    @property
    def scalars(self) -> Int64Array:
        """(t,) int64: the index of each pair's scalar among those of the channel."""
        return np.searchsorted(self.scalar.values, self.tuples.codes[1 - self.array])

    def draw_lengths(self, generator: np.random.Generator, size: int) -> tuple[Int64Array, Int64Array]:
        """Return (size,) int64 each: the length of a random event, and that of the event of a random element.

        The second is never less than the first.
        """
        present = self.lengths.keys > 0
        numbers, events = self.lengths.keys[present], self.lengths.counts[present]
        uniform = generator.random(size)
        places = [np.searchsorted(np.cumsum(w)[:-1] / w.sum(), uniform, "right") for w in (events, numbers * events)]
        return numbers[places[0]], numbers[np.maximum(*places)]

    def draw_elements(self, generator: np.random.Generator, scalars: Int64Array) -> Int64Array:
        """Draw an element for each of k scalars, from P(b | a): (k,) int64 indices of pairs."""
        scalar_of = self.scalars
        order = np.argsort(scalar_of, kind="stable")
        ends = np.cumsum(np.bincount(scalar_of, minlength=self.scalar.values.size))
        totals = np.append(0.0, np.cumsum(self.tuples.prior[order]))
        first, last = np.append(0, ends)[scalars], ends[scalars] - 1
        drawn = totals[first] + generator.random(scalars.size) * (totals[last + 1] - totals[first])
        return np.asarray(order[np.clip(np.searchsorted(totals, drawn, "right") - 1, first, last)])


def sample_event_risk(
    law: EventLaw, mask: EventMaskFunction, *, draws: int, repeats: int = 1, seed: int = 0
) -> RecordRisk:
    """Estimate the risk of events whose masks were seen ``repeats`` times, with independent random words.

    The figure of the scalar is an average over events. That of an element, and those of an element together with its
    scalar, are averages over elements. All are given all masks of the event.
    """
    generator, scalar_of = np.random.default_rng(seed), law.scalars
    scalars = scalar_of[law.tuples.draw(generator, draws)]
    of_event, of_element = law.draw_lengths(generator, draws)
    used = np.minimum(of_element, MAX_USED_ELEMENTS)
    offsets, element = offsets_from_lengths(used), generator.integers(0, used)
    drawn = law.draw_elements(generator, np.repeat(scalars, used))
    originals = law.scalar.values[scalars], law.tuples.codes[law.array][drawn]
    seen = [mask(*originals, offsets, repetition) for repetition in range(repeats)]
    posterior = _Posterior.of(law)
    best = np.zeros((draws, 3))
    for i in range(draws):
        masks = [(int(a[i]), b[offsets[i] : offsets[i + 1]].tolist()) for a, b in seen]
        known = int(scalars[i]) if of_element[i] > MAX_USED_ELEMENTS else None
        best[i] = posterior.best_guesses(masks, int(of_event[i]), int(element[i]), known)
    places = offsets[:-1] + element
    same = [(a == originals[0]) & (b[places] == originals[1][places]) for a, b in seen]
    means = best.mean(axis=0).tolist()
    return RecordRisk(
        vulnerability=means[0],
        of_attributes=(means[2], means[1]) if law.array == 0 else (means[1], means[2]),
        unchanged=float(np.logical_and.reduce(same).mean()),
        bound=hoeffding_bound(draws) + IMPROBABLE,
    )


@dataclass(frozen=True, slots=True, eq=False)
class _Posterior:
    """The posterior of events. ``scalars``, ``elements``: (t,) those of each pair, as indices.

    ``prior``: P(a). ``given``: (t,) P(b | a).
    """

    law: EventLaw
    scalars: Int64Array
    elements: Int64Array
    prior: Float64Array
    given: Float64Array

    @classmethod
    def of(cls, law: EventLaw) -> _Posterior:
        scalar_of, other = law.scalars, np.unique(law.tuples.codes[law.array], return_inverse=True)[1]
        prior = np.bincount(scalar_of, law.tuples.prior, law.scalar.values.size).astype(np.float64)
        return cls(law, scalar_of, other, prior, law.tuples.prior / prior[scalar_of])

    def best_guesses(
        self, masks: list[tuple[int, list[int]]], length: int, element: int, known: int | None
    ) -> tuple[float, float, float]:
        """Return the chances of the best guesses of an element with its scalar, of the scalar, and of the element.

        * ``masks``: the mask of the scalar and those of the elements, for each repetition.
        * ``length``: the number of elements, the first ones, that the guess of the scalar uses. The others use all. The
          guess is right if there are more than the masks.
        * ``element``: the index of the element.
        * ``known``: the index of the scalar if the other guesses know it.
        """
        likelihood, weights = self._of_scalar(masks)
        kept = np.union1d(_likely(weights), [] if known is None else [known]).astype(np.int64)
        pairs = np.flatnonzero(np.isin(self.scalars, kept))
        selected, groups = self.law.masks.selected(pairs), np.searchsorted(kept, self.scalars[pairs])
        posterior = weights[kept] / weights[kept].sum()
        of_scalar, of_element = 1.0, np.zeros(pairs.size)
        for k in range(len(masks[0][1])):
            joint = self.given[pairs]
            for a, elements in masks:
                joint *= selected.likelihood((elements[k], a) if self.law.array == 0 else (a, elements[k]))
                joint /= joint.max() or 1.0
            chances = np.bincount(groups, joint, kept.size)
            updated = posterior * chances / likelihood[kept]
            if updated.sum() > 0.0:
                posterior = updated / updated.sum()
            if k == element:
                of_element = np.divide(joint, chances[groups], out=np.zeros(pairs.size), where=chances[groups] > 0.0)
            if k + 1 == length:
                of_scalar = float(posterior.max())
        if known is not None:
            posterior = (kept == known).astype(np.float64)
        together = posterior[groups] * of_element
        return float(together.max()), of_scalar, float(np.bincount(self.elements[pairs], together).max())

    def _of_scalar(self, masks: list[tuple[int, list[int]]]) -> tuple[Float64Array, Float64Array]:
        """Return P(a* | a) of all repetitions, up to a factor, and the posterior of the scalar given these masks."""
        likelihood = np.ones(self.prior.size)
        for a, _ in masks:
            likelihood *= self.law.scalar.rows[:, self.law.scalar.classes.class_of[a]]
            likelihood /= likelihood.max()
        weights = self.prior * likelihood
        return likelihood, weights / weights.sum()


def _likely(weights: Float64Array) -> Int64Array:
    """Return the ascending indices of the fewest probabilities that add up to at least 1 − ``IMPROBABLE``."""
    order = np.argsort(-weights, kind="stable")
    size = int(np.searchsorted(np.cumsum(weights[order]), 1.0 - IMPROBABLE)) + 1
    return np.sort(order[:size])
