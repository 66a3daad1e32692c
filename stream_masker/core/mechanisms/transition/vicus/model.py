"""What VICUS and its Random method share (2012: section 3): similarity, parts, and the parameters of both."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from stream_masker.core.dtypes import Float64Array, Int64Array
from stream_masker.core.mechanisms.transition.base import MarkovMechanism
from stream_masker.core.mechanisms.transition.packing import (
    pack_array,
    pack_counts,
    read_model_field,
    unpack_array,
    unpack_counts,
)
from stream_masker.core.mechanisms.transition.transitions import Domain
from stream_masker.core.mechanisms.transition.vicus.partition import PartitionSearch, partition_values
from stream_masker.core.mechanisms.windowed import DistanceChoice
from stream_masker.core.ontology import Taxonomy
from stream_masker.core.similarity import ValueGraph
from stream_masker.core.statistics.counts import Counts, SparseCounts
from stream_masker.core.validation import number_between, require_type, whole_number
from stream_masker.errors import ParameterError, StatisticsError

LARGEST_FACTOR = 1e6
MAX_PARTITIONED_VALUES = 5000
ROUNDING_DIGITS = 1e-9


class PartitionMechanism(MarkovMechanism):
    """Parts the values of the window by similarity, and masks by where a value's part lies."""

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
        population: int = 20,
        generations: int = 10,
        partition_seed: int = 0,
        most_values: int = 1000,
        distance: DistanceChoice = "wu_palmer",
        window: int = 10_000,
        window_age: float | None = None,
        rollup_depth: int = 2,
        seed: bytes,
    ) -> None:
        """Everything is checked here: ParameterError says what was given and what is allowed.

        taxonomies: τ by attribute, in the order of all columns, at least two. threshold: T in [0, 1], beyond which
        values are alike for S''. c1, c2: weights of S' and S'' in [0, 1] that sum to 1. multigraph: whether edges count
        how often values occur together. part_size: the fewest values of a part, at least 1 (an attribute of fewer is
        one part); parts: how many an attribute has, or as many as it can; None for the number that similarity suggests.
        k1: how many times more likely a value stays than it becomes another certain one of its part; k2: how many times
        more likely that is than a certain one of another part; both in [1, 10⁶]. population, generations,
        partition_seed: of the genetic algorithm, whose seed protects nothing. most_values: of each attribute, up to
        5000, the values that are parted, the most frequent ones; others are masked like values that the window does not
        hold. distance, window, window_age, rollup_depth: of the statistics. seed: the secret from which ``mask_one``
        and ``mask_many`` derive random bits.
        """
        super().__init__(
            taxonomies, distance=distance, window=window, window_age=window_age, rollup_depth=rollup_depth, seed=seed
        )
        if len(self._attributes) < 2:
            raise ParameterError(
                f"{self.name} needs at least two attributes: similarity is that of what occurs together"
            )
        require_type("multigraph", multigraph, bool)
        self._multigraph = multigraph
        self._most_values = whole_number("most_values", most_values, 2, MAX_PARTITIONED_VALUES)
        self._similarity = {"threshold": number_between("threshold", threshold, 0.0, 1.0), **_weights(c1, c2)}
        self._k1 = number_between("k1", k1, 1.0, LARGEST_FACTOR)
        self._k2 = number_between("k2", k2, 1.0, LARGEST_FACTOR)
        self._search = PartitionSearch(
            part_size=whole_number("part_size", part_size, 1, MAX_PARTITIONED_VALUES),
            parts=None if parts is None else whole_number("parts", parts, 1, MAX_PARTITIONED_VALUES),
            population=whole_number("population", population, 2, 1000),
            generations=whole_number("generations", generations, 0, 10_000),
            seed=whole_number("partition_seed", partition_seed, 0, 2**63 - 1),
        )

    def partition(self, attribute: str) -> list[list[str]]:
        """The parts of an attribute's values in force, concept ids each.

        Raises StatisticsError before the first statistics, ParameterError for another attribute.
        """
        ids, _ = self.transition_matrix(attribute)
        sizes = unpack_array(read_model_field(self.statistics.model[attribute], "parts"), np.int32)
        ends = np.cumsum(sizes).tolist()
        return [ids[end - size : end] for size, end in zip(sizes.tolist(), ends, strict=True)]

    def _model(self, counts: Counts) -> Mapping[str, Any]:
        sizes = tuple(len(tau) for tau in self._taxonomies.values())
        graph = ValueGraph.of(counts, sizes, multigraph=self._multigraph, most_values=self._most_values)
        similarities = graph.similarities(**self._similarity)
        return {
            name: _model_of(column, values, partition_values(similarity, self._search))
            for name, column, values, similarity in zip(
                self._attributes, counts.values, graph.values, similarities, strict=True
            )
        }

    def _parts(self, attribute: str, model: Mapping[str, Any]) -> tuple[Domain, Int64Array, Int64Array]:
        """The domain, its parts contiguous, and each value's part: low and high, (v,) int64 each, half open."""
        domain = unpack_counts(model, self._concepts(attribute))
        sizes = unpack_array(read_model_field(model, "parts"), np.int32).astype(np.int64)
        if not sizes.size or sizes.min() < 1 or sizes.sum() != domain.values.size:
            raise StatisticsError("the model's parts are not parts of its values")
        high = np.repeat(np.cumsum(sizes), sizes)
        return domain, high - np.repeat(sizes, sizes), high


def _weights(c1: float, c2: float) -> dict[str, float]:
    weights = {"c1": number_between("c1", c1, 0.0, 1.0), "c2": number_between("c2", c2, 0.0, 1.0)}
    if abs(sum(weights.values()) - 1.0) > ROUNDING_DIGITS:
        raise ParameterError(f"c1={c1!r} and c2={c2!r} are not allowed: use two numbers from 0 to 1 that sum to 1")
    return weights


def _model_of(column: SparseCounts, values: Int64Array, labels: Int64Array) -> dict[str, Any]:
    """Values by part, then by position; parts in the order of their first values."""
    ordered = values[np.argsort(labels, kind="stable")]
    counts = pack_counts(SparseCounts(ordered, column.counts[np.searchsorted(column.keys, ordered)]))
    return {**counts, "parts": pack_array(np.bincount(labels).astype(np.int32))}


def stay_probability(k1: float, k2: float, part: Float64Array, others: Float64Array) -> Float64Array:
    """Ps = k1·k2 / (k1·k2 + k2·(|S| − 1) + |S'|) (2012: equation 9); part: |S|; others: |S'|."""
    return k1 * k2 / (k1 * k2 + k2 * (part - 1.0) + others)
