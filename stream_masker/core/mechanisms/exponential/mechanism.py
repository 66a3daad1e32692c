"""The exponential mechanism over semantic distance (2016 and 2017: related work; McSherry and Talwar 2007)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from stream_masker.core.distance import DISTANCES, Distance
from stream_masker.core.mechanisms.exponential.graph import GraphExponential
from stream_masker.core.mechanisms.exponential.tree import TreeExponential
from stream_masker.core.mechanisms.method_card import MethodCard
from stream_masker.core.mechanisms.options import for_each
from stream_masker.core.mechanisms.transition.base import DrawingMechanism, TransitionDrawer
from stream_masker.core.mechanisms.windowed import DistanceChoice
from stream_masker.core.ontology import Taxonomy
from stream_masker.core.statistics.summary import Statistics
from stream_masker.core.validation import number_between

LEAST_EPSILON = 1e-6
LARGEST_EPSILON = 1000.0


class Exponential(DrawingMechanism[TransitionDrawer]):
    """Replaces each value a by a concept c with a probability proportional to exp(−ε·sd(a, c) / 2).

    The utility −sd(a, c) lies in [−1, 0], so that exchanging a for another value changes it by Δ ≤ 1 for any c; Δ = 1
    is taken. Hence, for any values a, a' of the taxonomy and any c: P(c | a) ≤ exp(ε)·P(c | a'): ε-local differential
    privacy of each value. A record of several values has the sum of their ε; that a value is absent, and how many
    elements an array has, is not protected, and neither is what equal keys have in common.

    The probabilities depend on the taxonomy alone, never on the window, so that values of the window, and those that it
    does not hold, are masked alike; statistics are there for drift and utility. In a tree with d levels there are at
    most d² different distances, whose numbers of concepts are known: concepts are drawn by these, exactly but for the
    rounding of float64 and of 53-bit random numbers. In a directed acyclic graph a value's first draw costs a pass
    over its taxonomy; what that finds is kept for thousands of values (``exponential_graph``).

    Most concepts of a large taxonomy are far from any value, so that small ε make masked values nearly uniform over it:
    of m concepts, those near a value outweigh the others only from about ε = 2·ln(m) on.
    """

    name: ClassVar[str] = "exponential"
    declaration: ClassVar[MethodCard] = MethodCard(
        source="2017: section 2; McSherry and Talwar 2007",
        attributes="any number of nominal ones",
        taxonomies="any",
        preserves=("meaning (for large ε)",),
        guarantee="ε-local differential privacy of each value",
        latency="none: each record by itself",
        cost="O(depth²) in a tree; in a DAG some dozens of distances, and one pass over it for each new value",
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
        """Everything is checked here: ParameterError says what was given and what is allowed.

        taxonomies: τ by attribute, in the order of all columns. epsilon: ε of each value in [10⁻⁶, 1000], of all
        attributes or of each. candidates: all concepts, or leaves. distance: into [0, 1]. window, window_age,
        rollup_depth: of the statistics. seed: the secret from which ``mask_one`` and ``mask_many`` derive random bits.
        """
        super().__init__(
            taxonomies, distance=distance, window=window, window_age=window_age, rollup_depth=rollup_depth, seed=seed
        )
        levels = _checked_epsilon(epsilon, self._attributes)
        self._drawers = tuple(
            _drawer(d, candidates=candidates, epsilon=level)
            for d, level in zip(self._distances, levels.values(), strict=True)
        )

    def _prepare(self, statistics: Statistics) -> tuple[TransitionDrawer, ...]:
        return self._drawers


def _drawer(distance: Distance, *, candidates: str, epsilon: float) -> TransitionDrawer:
    by_depths = distance.taxonomy.is_tree and type(distance) in DISTANCES.values()
    chosen = TreeExponential if by_depths else GraphExponential
    return chosen(distance, candidates=candidates, epsilon=epsilon)


def _checked_epsilon(epsilon: float | Mapping[str, float], attributes: tuple[str, ...]) -> dict[str, float]:
    given = for_each("epsilon", epsilon, attributes)
    return {
        name: number_between(f"epsilon of {name!r}", level, LEAST_EPSILON, LARGEST_EPSILON)
        for name, level in given.items()
    }
