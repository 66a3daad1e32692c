"""Semantic distances between the concepts of a taxonomy."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from typing import Any, ClassVar, TypeAlias

import numpy as np
from numpy.typing import NDArray

from stream_masker.core.arrays import frozen_array, offsets_from_lengths, ranges
from stream_masker.core.distance import kernels
from stream_masker.core.distance.levels import fill_by_common_ancestors, fill_by_subsumers
from stream_masker.core.distance.many import Sources, Targets
from stream_masker.core.dtypes import Float64Array, Int32Array, Int32Matrix
from stream_masker.core.ontology.taxonomy import Taxonomy
from stream_masker.errors import ParameterError, UnknownConceptError

ConceptsLike: TypeAlias = Sequence[str] | NDArray[np.integer]
"""Concept ids, or their positions in the taxonomy as an integer array (``Taxonomy.encode``)."""


ROWS_AT_ONCE = 32
"""The number of rows of a table that are computed at once."""

CONCEPTS_PER_CELL = 64
"""A matrix with fewer than one cell per 64 concepts of τ is computed pair by pair: a pass over τ would cost more."""


def require_distance(name: str, given: object) -> None:
    """Raise ParameterError unless ``given`` is a distance."""
    if not isinstance(given, Distance):
        raise ParameterError(
            f"{name} is of type {type(given).__name__}: use a distance, such as WuPalmer(ontology.taxonomy())"
        )


class Distance:
    """A semantic distance sd: τ × τ → [0, 1]; symmetric, and 0 for equal concepts. Immutable.

    Methods accept concept ids or positions, and raise UnknownConceptError for concepts outside the taxonomy.
    """

    name: ClassVar[str]
    kind: ClassVar[int]

    def __init__(self, taxonomy: Taxonomy) -> None:
        """Create the distance on a taxonomy. It depends on the taxonomy, because depths count from the root.

        Raises ParameterError for anything else.
        """
        if not isinstance(taxonomy, Taxonomy):
            raise ParameterError(
                f"taxonomy is of type {type(taxonomy).__name__}: use a Taxonomy, such as ontology.taxonomy()"
            )
        self.taxonomy = taxonomy

    @cached_property
    def by_counts(self) -> bool:
        """Whether it depends on numbers of ancestors, rather than on the least common subsumer and the paths to it."""
        return self.kind == kernels.LOG_TAXONOMIC and not self.taxonomy.is_tree

    @cached_property
    def _scale(self) -> tuple[Float64Array, Int32Matrix]:
        """The distinct distances, ascending, and the index among them of each pair of terms: (L,) and (n, 2n).

        The terms are the depth of the subsumer and the links to it, or the numbers of common and of other ancestors.
        """
        tau = self.taxonomy
        most = int(np.diff(tau.closure.offsets).max() if self.by_counts else tau.depth.max())
        first, second = np.indices((most + 1, 2 * most))
        possible = (first > 0) & (second <= 2 * (most - first))
        first, second = first[possible], second[possible]
        if self.kind == kernels.WU_PALMER:
            levels, index = np.unique(1.0 - (2.0 * first) / (2.0 * first + second), return_inverse=True)
        else:
            shares, index = np.unique(second / (first + second), return_inverse=True)
            levels = np.array([math.log2(1.0 + share) for share in shares.tolist()])
        scale = np.zeros(possible.shape, np.int32)
        scale[possible] = index
        return frozen_array(levels), frozen_array(scale)

    @property
    def levels(self) -> Float64Array:
        """(L,) float64: all distances that concepts of the taxonomy can have, ascending. The first is 0."""
        return self._scale[0]

    def level_blocks(self, a: Int32Array, b: Int32Array) -> Iterator[tuple[int, Int32Matrix]]:
        """Yield (start, block): the indices into ``levels`` of the distances of k positions to t positions, by rows.

        A block is (n, t) int32, for the n positions of ``a`` from ``start`` on.
        """
        tau, scale = self.taxonomy, self._scale[1]
        ancestors = tau.closure
        if not self.by_counts:
            marked = np.zeros(len(tau), np.bool_)
            marked[ancestors.ancestors[ranges(ancestors.offsets[b], np.diff(ancestors.offsets)[b])]] = True
            members = np.flatnonzero(marked)
            member = np.full(len(tau), -1, np.int32)
            member[members] = np.arange(members.size, dtype=np.int32)
            sizes = np.diff(tau.parent_offsets)[members]
            offsets = offsets_from_lengths(sizes)
            parents = member[tau.parents[ranges(tau.parent_offsets[members], sizes)]]
            targets = member[b].astype(np.int64)
        for start in range(0, a.size, ROWS_AT_ONCE):
            some = a[start : start + ROWS_AT_ONCE]
            block = np.empty((some.size, b.size), np.int32)
            if self.by_counts:
                fill_by_common_ancestors(block, scale, some, b, ancestors.offsets, ancestors.ancestors)
            else:
                fill_by_subsumers(
                    block,
                    scale,
                    some,
                    targets,
                    member,
                    offsets,
                    parents,
                    tau.depth,
                    ancestors.offsets,
                    ancestors.ancestors,
                    ancestors.paths,
                )
            yield start, block

    def __call__(self, c1: str, c2: str) -> float:
        """Return the distance of two concepts."""
        tau = self.taxonomy
        pair: Callable[..., float] = kernels.tree_pair if tau.is_tree else kernels.dag_pair
        return pair(self.kind, tau.position(c1), tau.position(c2), *self._pair_arrays)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.taxonomy!r})"

    def __eq__(self, other: object) -> bool:
        """Return whether both are the same measure on the same taxonomy."""
        return isinstance(other, Distance) and (self.kind, self.taxonomy) == (other.kind, other.taxonomy)

    def __hash__(self) -> int:
        return hash((self.kind, self.taxonomy))

    def encode(self, concepts: ConceptsLike) -> Int32Array:
        """Return (n,) int32: the positions of concept ids; positions are returned after a range check."""
        if not isinstance(concepts, np.ndarray):
            return self.taxonomy.encode(concepts)
        if concepts.size and not 0 <= concepts.min() <= concepts.max() < len(self.taxonomy):
            index = int(((concepts < 0) | (concepts >= len(self.taxonomy))).argmax())
            raise UnknownConceptError(f"position {index} of the array is outside the taxonomy", position=index)
        return np.ascontiguousarray(concepts, dtype=np.int32)

    def pairs(self, a: ConceptsLike, b: ConceptsLike) -> Float64Array:
        """Return (n,) float64: sd(a[i], b[i]). Raises ParameterError if the lengths differ."""
        first, second = self.encode(a), self.encode(b)
        if first.shape != second.shape:
            raise ParameterError(f"pairs need as many first as second concepts, not {first.size} and {second.size}")
        return self._pairs(first, second)

    def between(self, a: ConceptsLike, b: ConceptsLike) -> Float64Array:
        """Return (k, l) float64: the distance of each of k concepts to each of l concepts."""
        first, second = self.encode(a), self.encode(b)
        if first.size * second.size * CONCEPTS_PER_CELL < len(self.taxonomy):
            pairs = np.repeat(first, second.size), np.tile(second, first.size)
            return self._pairs(*pairs).reshape(first.size, second.size)
        result = np.empty((first.size, second.size))
        for start, stop, block in self.targets(second).blocks(self.sources(first)):
            result[start:stop] = block
        return result

    def matrix(self, concepts: ConceptsLike) -> Float64Array:
        """Return (k, k) float64: the distance matrix (2017: equation 15); symmetric, with a zero diagonal."""
        return self.between(concepts, concepts)

    def targets(self, concepts: ConceptsLike) -> Targets:
        """Prepare concepts as targets, to compute distances from many sources in blocks or as weighted sums."""
        return Targets(self.taxonomy, self.kind, self.encode(concepts))

    def sources(self, concepts: ConceptsLike) -> Sources:
        """Prepare concepts as sources, to compute their distances to ``targets``."""
        return Sources.of(self.taxonomy, self.encode(concepts))

    def to_all(self, position: int) -> Float64Array:
        """Return (m,) float64: the distance of the concept at ``position`` to every concept of the taxonomy.

        It takes O(links), or O(ancestors of all) for the logarithmic distance in a DAG.
        """
        _, _, block = next(self._all.blocks(self.sources(np.array([position], np.int32))))
        return np.asarray(block[0])

    @cached_property
    def _all(self) -> Targets:
        return self.targets(np.arange(len(self.taxonomy), dtype=np.int32))

    def _pairs(self, a: Int32Array, b: Int32Array) -> Float64Array:
        pairs: Callable[..., Float64Array] = kernels.tree_pairs if self.taxonomy.is_tree else kernels.dag_pairs
        return pairs(self.kind, a, b, *self._pair_arrays)

    @cached_property
    def _pair_arrays(self) -> tuple[Any, ...]:
        """The arrays from which the distances of pairs are computed."""
        tau = self.taxonomy
        if tau.is_tree:
            return tau.tree.parent, tau.depth
        return tau.depth, tau.closure.offsets, tau.closure.ancestors, tau.closure.paths


class WuPalmer(Distance):
    """sd(c1, c2) = 1 − 2·depth(LCS) / (2·depth(LCS) + path(c1, LCS) + path(c2, LCS)), in [0, 1) (2017: 11 and 12).

    depth: number of nodes on the longest path from the root. path: number of links on the shortest is-a path up to the
    LCS. The paper has one least common subsumer. If there are several, the one with the least sum of paths is used.
    """

    name = "wu_palmer"
    kind = kernels.WU_PALMER


class LogTaxonomic(Distance):
    """d(c1, c2) = log2(1 + (|T1 ∪ T2| − |T1 ∩ T2|) / |T1 ∪ T2|), in [0, 1) (2013: equation 1).

    T: the ancestors of a concept in the taxonomy, including itself.
    """

    name = "log_taxonomic"
    kind = kernels.LOG_TAXONOMIC


DISTANCES: dict[str, Callable[[Taxonomy], Distance]] = {WuPalmer.name: WuPalmer, LogTaxonomic.name: LogTaxonomic}


DistanceChoice: TypeAlias = str | Callable[[Taxonomy], Distance]
"""The name of a distance, or a function (such as its class) that creates it from a taxonomy."""


def distance_on(taxonomy: Taxonomy, choice: DistanceChoice) -> Distance:
    """Return the distance of a choice on a taxonomy. Raises ParameterError for another name or object."""
    given: object = choice
    if isinstance(given, Distance) or not (isinstance(given, str) or callable(given)):
        raise ParameterError(f"distance is of type {type(choice).__name__}: use wu_palmer, log_taxonomic, or a class")
    if not isinstance(choice, str):
        return choice(taxonomy)
    if choice not in DISTANCES:
        raise ParameterError(f"distance={choice!r} is not allowed: use {' or '.join(DISTANCES)}")
    return DISTANCES[choice](taxonomy)


UNIT = 232_792_560
"""The distance 1 as an integer: the least common multiple of 1 to 20.

Wu–Palmer distances in taxonomies that are not very deep are fractions with such denominators, so that they are exact.
"""

UNIT_ROWS = 256
"""The number of rows of distances that are held as floats at a time."""


def unit_distances(d: Distance, values: Int32Array) -> Int32Array:
    """Return (k + 1, k + 1) int32: the distances between k positions in units of 1/``UNIT``.

    The last row and column belong to a missing value, which is at distance 1 from every value.
    """
    result = np.full((values.size + 1, values.size + 1), UNIT, np.int32)
    result[-1, -1] = 0
    for start in range(0, values.size, UNIT_ROWS):
        rows = d.between(values[start : start + UNIT_ROWS], values)
        result[start : start + len(rows), :-1] = np.rint(rows * UNIT)
    return result
