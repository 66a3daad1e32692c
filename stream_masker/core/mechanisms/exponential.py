"""The exponential mechanism over semantic distance (McSherry and Talwar 2007; related work in 2016 and 2017)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import numpy as np

from stream_masker.core.distance import Distance, DistanceChoice
from stream_masker.core.dtypes import Float64Array, Int32Array, Int64Array, Levels, UInt64Array
from stream_masker.core.mechanisms.base import MethodCard
from stream_masker.core.mechanisms.markov import DrawingMechanism
from stream_masker.core.mechanisms.noise_law import mask_classes
from stream_masker.core.mechanisms.options import per_attribute
from stream_masker.core.ontology import Taxonomy
from stream_masker.core.random.draws import uniforms
from stream_masker.core.replacement import ALL, LEAVES, NO_REFERENCE, Candidates, Replacer
from stream_masker.core.risk.channel import Channel
from stream_masker.core.statistics.counts import Counts
from stream_masker.core.statistics.observed import unpack_observed
from stream_masker.core.statistics.summary import Statistics
from stream_masker.core.table import DistanceTable
from stream_masker.core.validation import number_between, require_one_of

MIN_EPSILON = 1e-6
MAX_EPSILON = 1000.0


class Exponential(DrawingMechanism["ExponentialDrawer"]):
    """Replaces each value a by a concept c with a probability proportional to exp(−ε·sd(a, c) / 2).

    The utility −sd(a, c) lies in [−1, 0], so replacing a by another value changes it by at most Δ = 1 for every c.
    Hence, for any values a, a' of the taxonomy and any c, P(c | a) ≤ exp(ε)·P(c | a'): each value has ε-local
    differential privacy. The ε of a record is the sum of those of its values. The mechanism does not hide whether a
    value is absent, how many elements an array has, or that records have equal keys.

    The probabilities depend only on the taxonomy, never on the window. The window's values are the anchors of the table
    on which draws are made; a value that no window has had takes a pass over its taxonomy. Draws are exact up to the
    rounding of float64 and of 53-bit random numbers.

    Most concepts of a large taxonomy are far from any value, so a small ε gives masked values that are nearly uniform
    over it. Among m concepts, those near a value only dominate the others from about ε = 2·ln(m).
    """

    name: ClassVar[str] = "exponential"
    method_card: ClassVar[MethodCard] = MethodCard(
        source="2017: section 2; McSherry and Talwar 2007",
        attributes="any number of nominal ones",
        taxonomies="any",
        preserves=("meaning (for large ε)",),
        guarantee="ε-local differential privacy of each value",
        latency="none: each record is masked alone",
        cost="a search among the distances of a value; a pass over the taxonomy for a value that no window has had",
    )

    def __init__(
        self,
        taxonomies: Mapping[str, Taxonomy],
        *,
        epsilon: float | Mapping[str, float] = 1.0,
        candidates: str = "all",
        distance: DistanceChoice = "wu_palmer",
        window: int = 10_000,
        window_age: float | None = None,
        rollup_depth: int = 2,
        seed: bytes,
    ) -> None:
        """Create a mechanism without statistics.

        Raises ParameterError, which names the value given and the values allowed.

        * ``taxonomies``: τ by attribute, in the order of all columns.
        * ``epsilon``: ε of each value in [10⁻⁶, 1000], for all attributes or for each.
        * ``candidates``: ``all`` concepts, or ``leaves``.
        * ``distance``: the semantic distance, with values in [0, 1].
        * ``window``, ``window_age``, ``rollup_depth``, ``seed``: see ``WindowedMechanism``.
        """
        super().__init__(
            taxonomies, distance=distance, window=window, window_age=window_age, rollup_depth=rollup_depth, seed=seed
        )
        epsilons = _checked_epsilon(epsilon, self._attributes)
        require_one_of("candidates", candidates, (ALL, LEAVES))
        self._epsilons = tuple(epsilons.values())
        self._candidates = [Candidates.of(tau, candidates) for tau in self._taxonomies.values()]
        self._tables: dict[Distance, DistanceTable] = {}

    def attribute_channel(self, j: int, values: Int32Array, counts: Counts | None) -> Channel:
        drawer = self._prepared_statistics()[j].with_anchors(values)
        some, classes = mask_classes(drawer.replacer, values)
        table = drawer.replacer.table
        distances = table.levels[table.rows[np.ix_(table.index_of(values), some)]]
        rows = np.exp(-0.5 * drawer.epsilon * distances) * classes.totals
        return Channel(values, rows / rows.sum(axis=1, keepdims=True), classes)

    def surely_hides(self, j: int) -> bool:
        """Return True: every candidate is a possible mask of every value."""
        return True

    def changed_at_least(self, j: int, counts: Counts) -> float:
        """Return (m − 1)·e^(−ε/2) / (1 + (m − 1)·e^(−ε/2)) for m candidates: the others are at distance 1 or nearer."""
        others = int(self._candidates[j].weights.sum()) - 1
        weight = others * float(np.exp(-0.5 * self._epsilons[j]))
        return weight / (1.0 + weight)

    def _prepare(self, statistics: Statistics) -> tuple[ExponentialDrawer, ...]:
        drawers = []
        for name, d, some, epsilon in zip(
            self._attributes, self._distances, self._candidates, self._epsilons, strict=True
        ):
            anchors = np.flatnonzero(unpack_observed(statistics.observed[name], len(d.taxonomy)))
            self._tables[d] = table = DistanceTable.build(d, anchors, self._tables.get(d))
            drawers.append(ExponentialDrawer(Replacer(table, some, calibrated=False), epsilon))
        return tuple(drawers)


class ExponentialDrawer:
    """Draws a distance by the weight of the candidates at it, then one of these candidates."""

    def __init__(self, replacer: Replacer, epsilon: float) -> None:
        """``replacer``: with the candidates of the attribute. ``epsilon``: ε of one value."""
        self.replacer, self.epsilon = replacer, epsilon
        self._cumulative: dict[int, Float64Array] = {}

    def with_anchors(self, values: Int32Array) -> ExponentialDrawer:
        """Return a drawer whose table has some values, (n,) int32 positions, as anchors, too."""
        replacer, table = self.replacer, self.replacer.table
        if (table.index_of(values) >= 0).all():
            return self
        larger = DistanceTable.build(table.distance, np.append(table.anchors, values), table)
        return ExponentialDrawer(Replacer(larger, replacer.candidates, calibrated=False), self.epsilon)

    def draw(self, codes: Int32Array, words: UInt64Array) -> Int32Array:
        """Draw the new positions of k values: (k,) int32. Absent values stay absent.

        ``words``: (k, 2) random words.
        """
        table, distances = self.replacer.table, np.zeros(codes.size)
        shares, order = uniforms(words[:, 0]), np.argsort(codes, kind="stable")
        drawn = codes.copy()
        for rows in np.split(order, np.flatnonzero(np.diff(codes[order])) + 1):
            value = int(codes[rows[0]]) if rows.size else -1
            if value < 0:
                continue
            if int(table.index_of(codes[rows[:1]])[0]) < 0:
                drawn[rows] = self._draw_unseen(value, shares[rows], words[rows, 1])
            else:
                distances[rows] = table.levels[self._levels(value, shares[rows])]
        none = np.full(codes.size, NO_REFERENCE, np.int32)
        return np.where(distances > 0.0, self.replacer.replace(codes, none, distances, *words.T).codes, drawn)

    def _levels(self, value: int, shares: Float64Array) -> Int64Array:
        """Return the levels of the distances of an anchor that shares of the total weight, in [0, 1), select."""
        if value not in self._cumulative:
            weights = self.replacer.classes.weights
            self._cumulative[value] = self._sums(self.replacer.table.row(value), weights)
        return _selected(self._cumulative[value], shares)

    def _draw_unseen(self, value: int, shares: Float64Array, words: UInt64Array) -> Int32Array:
        """Draw the masks of a value that is no anchor, from its distances to all concepts."""
        row, weights = self.replacer.table.concept_row(value), self.replacer.candidates.weights
        masks = np.empty(shares.size, np.int32)
        for k, level in enumerate(_selected(self._sums(row, weights), shares).tolist()):
            there = np.flatnonzero((row == level) & (weights > 0))
            masks[k] = there[int(uniforms(words[k : k + 1])[0] * there.size)]
        return masks

    def _sums(self, row: Levels, weights: Int64Array) -> Float64Array:
        """Return (L,) float64: the cumulative weight of the candidates by level. ``weights``: of each entry of the
        row."""
        levels = self.replacer.table.levels
        return np.cumsum(np.bincount(row, weights, levels.size) * np.exp(-0.5 * self.epsilon * levels))


def _selected(cumulative: Float64Array, shares: Float64Array) -> Int64Array:
    """Return the first index for each share of the total at which the cumulative weight exceeds it."""
    last = int(np.searchsorted(cumulative, cumulative[-1]))
    return np.asarray(np.minimum(np.searchsorted(cumulative, shares * cumulative[-1], side="right"), last))


def _checked_epsilon(epsilon: float | Mapping[str, float], attributes: tuple[str, ...]) -> dict[str, float]:
    given = per_attribute("epsilon", epsilon, attributes)
    return {
        name: number_between(f"epsilon of {name!r}", value, MIN_EPSILON, MAX_EPSILON) for name, value in given.items()
    }
