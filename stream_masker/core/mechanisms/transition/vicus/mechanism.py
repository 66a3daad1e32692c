"""VICUS (2012), whose transition probabilities favour values of the same part, and the paper's Random method."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from stream_masker.core.distance import DistanceChoice
from stream_masker.core.dtypes import Float64Array, Int64Array
from stream_masker.core.mechanisms.base import MethodCard
from stream_masker.core.mechanisms.transition.base import MarkovMechanism
from stream_masker.core.mechanisms.transition.serialization import (
    pack_array,
    pack_counts,
    read_model_field,
    unpack_array,
    unpack_counts,
)
from stream_masker.core.mechanisms.transition.transitions import PartTransition
from stream_masker.core.mechanisms.transition.trie import Domain
from stream_masker.core.mechanisms.transition.vicus.partition import PartitionSearch, partition_values
from stream_masker.core.ontology import Taxonomy
from stream_masker.core.similarity import ValueGraph
from stream_masker.core.statistics.counts import Counts, SparseCounts
from stream_masker.core.statistics.summary import Statistics
from stream_masker.core.validation import number_between, require_type, whole_number
from stream_masker.errors import ParameterError, StatisticsError

MAX_FACTOR = 1e6
MAX_PARTITIONED_VALUES = 5000
WEIGHT_SUM_TOLERANCE = 1e-9


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
        """Create a mechanism without statistics.

        Raises ParameterError, which names the value given and the values allowed.

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
        * ``population``, ``generations``, ``partition_seed``: parameters of the genetic algorithm. The seed is not a
          secret.
        * ``most_values``: the number of values per attribute that are divided into parts, the most frequent ones, up to
          5000. Other values are masked like values that the window does not contain.
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
        self._most_values = whole_number("most_values", most_values, 2, MAX_PARTITIONED_VALUES)
        self._similarity = {"threshold": number_between("threshold", threshold, 0.0, 1.0), **_weights(c1, c2)}
        self._k1 = number_between("k1", k1, 1.0, MAX_FACTOR)
        self._k2 = number_between("k2", k2, 1.0, MAX_FACTOR)
        self._search = PartitionSearch(
            part_size=whole_number("part_size", part_size, 1, MAX_PARTITIONED_VALUES),
            parts=None if parts is None else whole_number("parts", parts, 1, MAX_PARTITIONED_VALUES),
            population=whole_number("population", population, 2, 1000),
            generations=whole_number("generations", generations, 0, 10_000),
            seed=whole_number("partition_seed", partition_seed, 0, 2**63 - 1),
        )

    def partition(self, attribute: str) -> list[list[str]]:
        """Return the parts of an attribute's values in force, as lists of concept ids.

        Raises StatisticsError before the first statistics, and ParameterError for an unknown attribute.
        """
        self._index(attribute)
        domain, low, high = self._part_ranges(attribute, self.statistics.model[attribute])
        ids = self._taxonomies[attribute].decode(domain.values)
        return [ids[first:end] for first, end in dict.fromkeys(zip(low.tolist(), high.tolist(), strict=True))]

    def _model(self, counts: Counts, statistics: Statistics) -> Mapping[str, Any]:
        sizes = tuple(len(tau) for tau in self._taxonomies.values())
        graph = ValueGraph.of(counts, sizes, multigraph=self._multigraph, most_values=self._most_values)
        similarities = graph.similarities(**self._similarity)
        return {
            name: _attribute_model(column, values, partition_values(similarity, self._search))
            for name, column, values, similarity in zip(
                self._attributes, counts.values, graph.values, similarities, strict=True
            )
        }

    def _part_ranges(self, attribute: str, model: Mapping[str, Any]) -> tuple[Domain, Int64Array, Int64Array]:
        """Return the domain, in which parts are contiguous, and the range of each value's part.

        A range is half-open: ``low`` and ``high``, (v,) int64 each.
        """
        domain = unpack_counts(model, self._taxonomy_size(attribute))
        sizes = unpack_array(read_model_field(model, "parts"), np.int32).astype(np.int64)
        if not sizes.size or sizes.min() < 1 or sizes.sum() != domain.values.size:
            raise StatisticsError("the sizes of the model's parts do not match its values")
        high = np.repeat(np.cumsum(sizes), sizes)
        return domain, high - np.repeat(sizes, sizes), high


def _weights(c1: float, c2: float) -> dict[str, float]:
    weights = {"c1": number_between("c1", c1, 0.0, 1.0), "c2": number_between("c2", c2, 0.0, 1.0)}
    if abs(sum(weights.values()) - 1.0) > WEIGHT_SUM_TOLERANCE:
        raise ParameterError(f"c1={c1!r} and c2={c2!r} are not allowed: use two numbers from 0 to 1 that sum to 1")
    return weights


def _attribute_model(column: SparseCounts, values: Int64Array, labels: Int64Array) -> dict[str, Any]:
    """Return values by part, then by position, with the parts in the order of their first values."""
    ordered = values[np.argsort(labels, kind="stable")]
    counts = pack_counts(SparseCounts(ordered, column.counts[np.searchsorted(column.keys, ordered)]))
    return {**counts, "parts": pack_array(np.bincount(labels).astype(np.int32))}


def stay_probability(k1: float, k2: float, part_size: Float64Array, others: Float64Array) -> Float64Array:
    """Return Ps = k1·k2 / (k1·k2 + k2·(|S| − 1) + |S'|) (2012: equation 9).

    ``part_size``: |S|; ``others``: |S'|.
    """
    return k1 * k2 / (k1 * k2 + k2 * (part_size - 1.0) + others)


class Vicus(PartitionMechanism):
    """Replaces each value by transition probabilities that favour its part of similar values.

    Similar values occur together with the same values of other attributes. Let S be the part of a value among the
    attribute's v values, and S' all other values. The value stays with probability Ps = k1·k2 / (k1·k2 + k2·(|S| − 1) +
    |S'|). It becomes each other value of S with psp = Ps / k1, and each value of S' with pdp = Ps / (k1·k2) (2012:
    equations 8 to 11). The similarity (``core.similarity``) and the parts (``partition``) are computed from the window.

    Where the paper leaves a choice: the values of an attribute are those of the window; a value that the window does
    not contain becomes one of them by frequency. An attribute with a single value in the window is masked to it.
    Elements of an array occur together with the record's other attributes, not with each other.

    The more values an attribute has, the less often a value stays, because their number is weighed against k1·k2.
    For attributes of up to twelve values the paper advises a product of 100 or more, with a low k1. With hundreds of
    values hardly any value stays at such a product, and similarity by co-occurrence puts most of them into one part, in
    which all values are equally probable: no association is left. Give ``parts``, ``part_size`` and a greater k2. VICUS
    then keeps more association than Random, but not much more, because attributes are masked independently of each
    other.
    """

    name: ClassVar[str] = "vicus"
    method_card: ClassVar[MethodCard] = MethodCard(
        summary="replaces a value preferably by one that occurs together with the same values of other attributes",
        use_when="similarity must follow from the data, because no meaningful taxonomy exists, and attributes have few "
        "values",
        source="2012: sections 2 and 3",
        attributes="two or more nominal ones",
        taxonomies="any; not used for masking",
        preserves=("similarity by co-occurrence", "more association than Random"),
        guarantee="none in a strict sense: every value is a possible original, with known probabilities",
        latency="none: each record is masked alone",
        cost="O(log v); a calibration takes O(v²) for v values of the window",
    )

    def _transition(self, attribute: str, model: Mapping[str, Any]) -> PartTransition:
        domain, low, high = self._part_ranges(attribute, model)
        v, part = domain.values.size, (high - low).astype(np.float64)
        keep = stay_probability(self._k1, self._k2, part, v - part)
        within = np.where(part == v, 1.0, keep + (part - 1.0) * keep / self._k1)
        return PartTransition.of(domain, keep, within, low, high)


class RandomTransitions(PartitionMechanism):
    """Keeps each value as often as VICUS does, and otherwise replaces it by any other value of the attribute.

    Ps is that of VICUS, with the same parts. Every other value has Pc = (1 − Ps) / (|S| + |S'| − 1) (2012: equation
    12). Parameters, and values that the window does not contain: see ``Vicus``.
    """

    name: ClassVar[str] = "random"
    method_card: ClassVar[MethodCard] = MethodCard(
        summary="keeps a value as often as VICUS does, and otherwise replaces it by any other value",
        use_when="as the baseline for VICUS",
        source="2012: section 3.1.1, as a baseline",
        attributes="two or more nominal ones",
        taxonomies="any; not used for masking",
        preserves=("a share of the values",),
        guarantee="none in a strict sense: every value is a possible original, with known probabilities",
        latency="none: each record is masked alone",
        cost="O(log v); a calibration takes O(v²) for v values of the window",
    )

    def _transition(self, attribute: str, model: Mapping[str, Any]) -> PartTransition:
        domain, low, high = self._part_ranges(attribute, model)
        part = (high - low).astype(np.float64)
        keep = stay_probability(self._k1, self._k2, part, domain.values.size - part)
        return PartTransition.whole(domain.ascending(), keep[np.argsort(domain.values)])
