"""VICUS (2012), whose transition probabilities favour similar values, and the paper's Random method."""

from __future__ import annotations

from collections.abc import Mapping
from math import isclose
from typing import Any, ClassVar

import numpy as np

from stream_masker.core.distance import DistanceChoice
from stream_masker.core.dtypes import Float64Array, Float64Matrix, Int32Array, Int64Array
from stream_masker.core.mechanisms.base import MethodCard
from stream_masker.core.mechanisms.markov import MarkovMatrix, MarkovMechanism
from stream_masker.core.ontology import Taxonomy
from stream_masker.core.similarity import ValueGraph
from stream_masker.core.statistics.counts import Counts
from stream_masker.core.statistics.packing import pack_array, read_array
from stream_masker.core.statistics.summary import Statistics
from stream_masker.core.validation import number_between, require_type, whole_number
from stream_masker.errors import ParameterError, StatisticsError

MAX_FACTOR = 1e6
MAX_VICUS_VALUES = 50  # of an attribute


class PartitionMechanism(MarkovMechanism):
    """Divides the values of the window into parts by similarity, and masks a value depending on its part."""

    def __init__(
        self,
        taxonomies: Mapping[str, Taxonomy],
        *,
        threshold: float = 0.6,
        c1: float = 0.6,
        c2: float = 0.4,
        multigraph: bool = True,
        part_size: int = 2,
        parts: int | None = None,
        k1: float = 5.0,
        k2: float = 20.0,
        distance: DistanceChoice = "wu_palmer",
        window: int = 10_000,
        window_age: float | None = None,
        rollup_depth: int = 2,
        seed: bytes,
    ) -> None:
        """Create a mechanism without statistics. Raises ParameterError, which names what is allowed.

        * ``taxonomies``: τ by attribute, in the order of all columns; at least two.
        * ``threshold``: T in [0, 1], the similarity from which values are merged for S''.
        * ``c1``, ``c2``: the weights of S' and S'', in [0, 1]; their sum is 1.
        * ``multigraph``: whether edges count how often values occur together.
        * ``part_size``: the smallest size of a part, at least 1. An attribute with fewer values has one part.
        * ``parts``: the number of parts of an attribute, or as many as its values allow; None derives it from the
          similarity.
        * ``k1``: how many times more probable it is that a value stays than that it becomes a given other value of its
          part; in [1, 10⁶].
        * ``k2``: how many times more probable the latter is than a given value of another part; in [1, 10⁶].
        * ``distance``, ``window``, ``window_age``, ``rollup_depth``, ``seed``: see ``WindowedMechanism``.
        """
        super().__init__(
            taxonomies, distance=distance, window=window, window_age=window_age, rollup_depth=rollup_depth, seed=seed
        )
        if len(self._attributes) < 2:
            raise ParameterError(
                f"{self.name} needs at least two attributes: similarity is computed from co-occurrences"
            )
        require_type("multigraph", multigraph, bool)
        self._multigraph = multigraph
        self._similarity = {"threshold": number_between("threshold", threshold, 0.0, 1.0), **_weights(c1, c2)}
        self._k1 = number_between("k1", k1, 1.0, MAX_FACTOR)
        self._k2 = number_between("k2", k2, 1.0, MAX_FACTOR)
        self._part_size = whole_number("part_size", part_size, 1, MAX_VICUS_VALUES)
        self._parts = None if parts is None else whole_number("parts", parts, 1, MAX_VICUS_VALUES)

    def partition(self, attribute: str) -> list[list[str]]:
        """Return the parts of an attribute's values in force, as lists of concept ids.

        Raises StatisticsError before the first statistics, and ParameterError for an unknown attribute.
        """
        ids, _ = self.transition_matrix(attribute)
        parts: dict[int, list[str]] = {}
        for concept, part in zip(ids, _read_parts(self.statistics.model[attribute], len(ids)).tolist(), strict=True):
            parts.setdefault(part, []).append(concept)
        return list(parts.values())

    def _model(self, counts: Counts, statistics: Statistics) -> Mapping[str, Any]:
        for name, values in zip(self._attributes, [column.keys.size for column in counts.values], strict=True):
            if values > MAX_VICUS_VALUES:
                raise StatisticsError(
                    f"{name} has {values} values in the window, {self.name} is for at most {MAX_VICUS_VALUES}: with "
                    "more, hardly any association is left (of an sdCor of 0.26, 0.03 at 700 values)"
                )
        graph = ValueGraph.of(counts, tuple(map(len, self._taxonomies.values())), multigraph=self._multigraph)
        similarities = zip(self._attributes, graph.similarities(**self._similarity), strict=True)
        parts = {name: divided(similarity, self._part_size, self._parts) for name, similarity in similarities}
        return {
            name: {**model, "parts": pack_array(parts[name].astype(np.int32))}
            for name, model in super()._model(counts, statistics).items()
        }

    def _keep(self, model: object, values: int) -> tuple[Int32Array, Float64Array]:
        """Return the part of each value, (v,) int32, and its probability to stay, (v,) float64."""
        labels = _read_parts(model, values)
        sizes = np.bincount(labels)[labels]
        return labels, stay_probability(self._k1, self._k2, sizes, values - sizes)


def _weights(c1: float, c2: float) -> dict[str, float]:
    weights = {"c1": number_between("c1", c1, 0.0, 1.0), "c2": number_between("c2", c2, 0.0, 1.0)}
    if not isclose(sum(weights.values()), 1.0):
        raise ParameterError(f"c1={c1!r} and c2={c2!r} are not allowed: use two numbers from 0 to 1 that sum to 1")
    return weights


def _read_parts(model: object, values: int) -> Int32Array:
    return read_array(model, "parts", np.int32, values, low=0, high=values - 1)


def stay_probability(k1: float, k2: float, part_size: Int64Array, others: Int64Array) -> Float64Array:
    """Return Ps = k1·k2 / (k1·k2 + k2·(|S| − 1) + |S'|) (2012: equation 9).

    ``part_size``: |S|; ``others``: |S'|.
    """
    return np.asarray(k1 * k2 / (k1 * k2 + k2 * (part_size - 1.0) + others))


class Vicus(PartitionMechanism):
    """Replaces each value by transition probabilities that favour its part of similar values.

    Similar values occur together with the same values of other attributes. Let S be the part of a value among the
    attribute's v values, and S' all other values. The value stays with probability Ps = k1·k2 / (k1·k2 + k2·(|S| − 1) +
    |S'|). It becomes each other value of S with psp = Ps / k1, and each value of S' with pdp = Ps / (k1·k2) (2012:
    equations 8 to 11). The similarity (``core.similarity``) and the parts (``divided``) are computed from the window.

    Where the paper leaves a choice: the values of an attribute are those of the window; a value that the window does
    not contain becomes one of them by frequency. An attribute with a single value in the window is masked to it.
    Elements of an array occur together with the record's other attributes, not with each other.

    The more values an attribute has, the less often a value stays, because their number is weighed against k1·k2, and
    the less association is left: attributes of more than 50 values are refused. For up to twelve values the paper
    advises a product k1·k2 of 100 or more, with a low k1.
    """

    name: ClassVar[str] = "vicus"
    method_card: ClassVar[MethodCard] = MethodCard(
        source="2012: sections 2 and 3",
        attributes="two or more nominal ones, of at most 50 values each",
        taxonomies="any; not used for masking",
        preserves=("similarity by co-occurrence", "more association than Random"),
        guarantee="none in a strict sense: every value is a possible original, with known probabilities",
        latency="none: each record is masked alone",
        cost="O(v) for v values of the window; a calibration takes O(v⁴)",
    )

    def _matrix(self, attribute: str, values: Int32Array, counts: Int64Array, model: object) -> MarkovMatrix:
        labels, keep = self._keep(model, values.size)
        factors = np.where(labels[:, None] == labels[None, :], self._k1, self._k1 * self._k2)
        np.fill_diagonal(factors, 1.0)
        return MarkovMatrix.of_rows(values, keep[:, None] / factors, counts.astype(np.float64))


class RandomTransitions(PartitionMechanism):
    """Keeps each value as often as VICUS, and otherwise replaces it by any other value with equal probability.

    This is the paper's Random method (2012: section 3.1.1, equation 12), to which VICUS is compared. It uses the parts
    only for the probability of staying.
    """

    name: ClassVar[str] = "random"
    method_card: ClassVar[MethodCard] = MethodCard(
        source="2012: section 3.1.1, as a baseline of VICUS",
        attributes="two or more nominal ones, of at most 50 values each",
        taxonomies="any; not used for masking",
        preserves=("the set of values",),
        guarantee="none in a strict sense: every value is a possible original, with known probabilities",
        latency="none: each record is masked alone",
        cost="O(v) for v values of the window; a calibration takes O(v⁴)",
    )

    def _matrix(self, attribute: str, values: Int32Array, counts: Int64Array, model: object) -> MarkovMatrix:
        _, keep = self._keep(model, values.size)
        return MarkovMatrix(values, keep, np.ones((1, values.size)), counts.astype(np.float64), others=values.size > 1)


STARTS = 50
"""The number of random divisions that are improved."""

MIN_GAIN = 1e-9
"""The smallest gain for which a step is taken. Smaller gains can be rounding errors."""


def divided(similarity: Float64Matrix, part_size: int, parts: int | None = None) -> Int64Array:
    """Return (v,) int64: the part of each value, numbered from 0 (2012: section 3.1, step 1).

    Fitness, which the paper does not state, is the sum of weights of the pairs within parts. With a given number of
    parts, a weight is Sij: this minimises the cut as the paper defines it. Without, the cut would be minimal for a
    single part, and a weight is Sij − S̄, with S̄ the mean of S over all pairs. The paper searches with a genetic
    algorithm. With at most 50 values, the best of ``STARTS`` random divisions that are improved step by step is as fit.

    ``similarity``: S, (v, v) float64. ``part_size``: the smallest size of a part. ``parts``: their number, or as many
    as the values allow; None for any.
    """
    v, fixed = len(similarity), parts is not None
    most = max(1, v // part_size)
    most = most if parts is None else min(parts, most)
    if most == 1:
        return np.zeros(v, np.int64)
    weights = similarity - (0.0 if fixed else (similarity.sum() - similarity.trace()) / (v * (v - 1)))
    np.fill_diagonal(weights, 0.0)
    generator = np.random.default_rng(0)
    best, best_fitness = np.zeros(v, np.int64), -np.inf
    for _ in range(STARTS):
        start = generator.permutation(v) % (most if fixed else generator.integers(1, most + 1))
        labels = _improved(weights, start, most, part_size, fixed=fixed)
        fitness = float(weights[labels[:, None] == labels[None, :]].sum())
        if fitness > best_fitness + MIN_GAIN:
            best, best_fitness = labels, fitness
    return np.unique(best, return_inverse=True)[1]


def _improved(weights: Float64Matrix, labels: Int64Array, most: int, part_size: int, *, fixed: bool) -> Int64Array:
    """Move a value, exchange two, or merge two parts, whichever gains most, until nothing gains."""
    labels, every = labels.copy(), np.arange(len(labels))
    while True:
        members = labels[:, None] == np.arange(most)[None, :]
        ties, sizes = weights @ members, members.sum(axis=0)
        own = ties[every, labels]
        may_move = (sizes[labels] > part_size)[:, None] & ((sizes > 0) | (part_size == 1 and not fixed))[None, :]
        moves = np.where(may_move & ~members, ties - own[:, None], -np.inf)
        across = ties[:, labels] - own[:, None]
        exchanges = np.where(members[:, labels], -np.inf, across + across.T - 2.0 * weights)
        merges = np.where(np.eye(most, dtype=np.bool_) | fixed, -np.inf, members.T @ ties)
        step = max((moves, exchanges, merges), key=np.max)
        if step.max() <= MIN_GAIN:
            return labels
        a, b = np.unravel_index(step.argmax(), step.shape)
        if step is moves:
            labels[a] = b
        elif step is exchanges:
            labels[[a, b]] = labels[[b, a]]
        else:
            labels[labels == a] = b
