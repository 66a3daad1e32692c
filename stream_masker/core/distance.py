"""Semantic distances between the concepts of a taxonomy: Wu–Palmer (2017) and logarithmic taxonomic (2013).

Distances have few distinct values, the *levels* of a distance on its taxonomy. They are computed as indices into these,
so that equal distances are equal floats in every method and in every table (``core.table``).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cached_property
from typing import ClassVar, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from stream_masker.core.arrays import (
    Float64Array,
    Int32Array,
    Int32Matrix,
    Int64Array,
    Levels,
    frozen_array,
    offsets_from_lengths,
    ranges,
)
from stream_masker.core.batch import Distortion
from stream_masker.core.kernels import IndexMatrix, fill_by_subsumers, fill_pairs
from stream_masker.core.ontology.taxonomy import Taxonomy
from stream_masker.core.validation import require_one_of, require_type
from stream_masker.errors import ParameterError, UnknownConceptError

ConceptsLike: TypeAlias = Sequence[str] | NDArray[np.integer]
"""Concept ids, or their positions in the taxonomy as an integer array (``Taxonomy.encode``)."""


class Columns(NamedTuple):
    """The t concepts to which rows of distances are computed, prepared once for many rows (``Distance.columns``).

    * ``positions``: (t,) int32. ``members``: None where pairs are computed one by one; otherwise the ``targets``,
      ``member``, ``parent_offsets`` and ``parents`` of ``kernels.fill_by_subsumers``.
    """

    positions: Int32Array
    members: tuple[Int32Array, Int32Array, Int64Array, Int32Array] | None


class Distance:
    """A semantic distance sd: τ × τ → [0, 1); symmetric, and 0 only for equal concepts. Immutable.

    Methods accept concept ids or positions, and raise UnknownConceptError for concepts outside the taxonomy.
    """

    name: ClassVar[str]

    def __init__(self, taxonomy: Taxonomy) -> None:
        """Create the distance on a taxonomy. It depends on the taxonomy, because depths count from the root."""
        require_type("taxonomy", taxonomy, Taxonomy)
        self.taxonomy = taxonomy

    def __call__(self, c1: str, c2: str) -> float:
        """Return the distance of two concepts."""
        first, second = ([self.taxonomy.position(c)] for c in (c1, c2))
        return float(self.pairs(np.array(first), np.array(second))[0])

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.taxonomy!r})"

    def __eq__(self, other: object) -> bool:
        """Return whether both are the same measure on the same taxonomy."""
        return isinstance(other, Distance) and (self.name, self.taxonomy) == (other.name, other.taxonomy)

    def __hash__(self) -> int:
        return hash((self.name, self.taxonomy))

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
        return np.asarray(self.levels[self._pair_levels(first, second)])

    def _pair_levels(self, first: Int32Array, second: Int32Array) -> Int32Array:
        """Return (n,) int32: the distances of n pairs of positions, as indices into ``levels``."""
        levels, (tau, closure) = np.empty(first.size, np.int32), (self.taxonomy, self.taxonomy.closure)
        rows = closure.offsets, closure.ancestors, closure.paths
        fill_pairs(levels, self._scale[1], self.by_counts, first, second, tau.depth, *rows)
        return levels

    def between(self, a: ConceptsLike, b: ConceptsLike) -> Float64Array:
        """Return (k, l) float64: the distance of each of k concepts to each of l concepts."""
        return np.asarray(self.levels[self.level_matrix(self.encode(a), self.encode(b))])

    def matrix(self, concepts: ConceptsLike) -> Float64Array:
        """Return (k, k) float64: the distance matrix (2017: equation 15); symmetric, with a zero diagonal."""
        return self.between(concepts, concepts)

    @property
    def levels(self) -> Float64Array:
        """(L,) float64: all distances that concepts of such a taxonomy can have, ascending. The first is 0.

        Taxonomies of equal depth have equal levels; the logarithmic distance in a DAG takes the greatest number of
        ancestors instead of the depth.
        """
        return self._scale[0]

    @property
    def by_counts(self) -> bool:
        """Whether the distance counts ancestors, rather than links to the least common subsumer."""
        return False

    def columns(self, b: Int32Array) -> Columns:
        """Return the columns of rows of distances; ``b``: (t,) positions."""
        tau = self.taxonomy
        if self.by_counts:
            return Columns(b, None)
        marked = np.zeros(len(tau), np.bool_)
        marked[tau.closure.above(b)[1]] = True
        members, member = np.flatnonzero(marked), np.full(len(tau), -1, np.int32)
        member[members] = np.arange(members.size, dtype=np.int32)
        sizes = tau.parent_offsets[members + 1] - tau.parent_offsets[members]
        parents = member[tau.parents[ranges(tau.parent_offsets[members], sizes)]]
        return Columns(b, (member[b], member, offsets_from_lengths(sizes), parents))

    def fill_rows(self, rows: IndexMatrix, places: Int64Array, a: Int32Array, columns: Columns) -> None:
        """Fill the k rows at some places with the distances of k positions to t columns, as indices into ``levels``."""
        tau, closure = self.taxonomy, self.taxonomy.closure
        if columns.members is not None:
            links = closure.offsets, closure.ancestors, closure.paths
            fill_by_subsumers(rows, places, self._scale[1], a, *columns.members, tau.depth, *links)
            return
        for place, position in zip(places, a, strict=True):
            rows[place, : columns.positions.size] = self._pair_levels(
                np.full_like(columns.positions, position), columns.positions
            )

    def level_matrix(self, a: Int32Array, b: Int32Array | Columns) -> Levels:
        """Return (k, t): the distances of k positions to t others, as indices into ``levels``."""
        columns = b if isinstance(b, Columns) else self.columns(b)
        result = np.empty((a.size, columns.positions.size), np.min_scalar_type(self.levels.size - 1))
        self.fill_rows(result, np.arange(a.size), a, columns)
        return result

    @cached_property
    def _scale(self) -> tuple[Float64Array, Int32Matrix]:
        """The levels, (L,), and the index among them of each pair of terms, (n, 2n); see ``kernels.fill_pairs``.

        A path from a concept up to a subsumer has at most as many links as their depths differ.
        """
        tau = self.taxonomy
        most = int(np.diff(tau.closure.offsets).max() if self.by_counts else tau.depth.max())
        first, second = np.indices((most + 1, 2 * most))
        possible = (first > 0) & (second <= 2 * (most - first))
        levels, index = np.unique(self._of_terms(first[possible], second[possible]), return_inverse=True)
        scale = np.zeros(possible.shape, np.int32)
        scale[possible] = index
        return frozen_array(levels), frozen_array(scale)

    def _of_terms(self, first: Int64Array, second: Int64Array) -> Float64Array:
        """Return (n,) float64: the distances of n pairs of terms (see ``kernels.fill_pairs``)."""
        raise NotImplementedError


class WuPalmer(Distance):
    """sd(c1, c2) = 1 − 2·depth(LCS) / (2·depth(LCS) + path(c1, LCS) + path(c2, LCS)), in [0, 1) (2017: 11 and 12).

    depth: number of nodes on the longest path from the root. path: number of links on the shortest is-a path up to the
    LCS. The paper has one least common subsumer. If there are several, the one with the least sum of paths is used.
    """

    name = "wu_palmer"

    def _of_terms(self, first: Int64Array, second: Int64Array) -> Float64Array:
        return np.asarray(1.0 - (2.0 * first) / (2.0 * first + second))


class LogTaxonomic(Distance):
    """d(c1, c2) = log2(1 + (|T1 ∪ T2| − |T1 ∩ T2|) / |T1 ∪ T2|), in [0, 1) (2013: equation 1).

    T: the ancestors of a concept in the taxonomy, including itself. In a tree, the common ancestors are as many as the
    depth of the least common subsumer, and the others as many as the links to it.
    """

    name = "log_taxonomic"

    @property
    def by_counts(self) -> bool:
        """Whether the taxonomy is not a tree."""
        return not self.taxonomy.is_tree

    def _of_terms(self, first: Int64Array, second: Int64Array) -> Float64Array:
        shares, index = np.unique(second / (first + second), return_inverse=True)
        return np.array([math.log2(1.0 + share) for share in shares.tolist()])[index]


DISTANCES: dict[str, type[Distance]] = {each.name: each for each in (WuPalmer, LogTaxonomic)}


def distance_on(taxonomy: Taxonomy, name: str) -> Distance:
    """Return the distance of a name on a taxonomy. Raises ParameterError for another name."""
    require_one_of("distance", name, tuple(DISTANCES))
    return DISTANCES[name](taxonomy)


def distortion_of(before: Int32Array, after: Int32Array, d: Distance, *, noise: float = 0.0) -> Distortion:
    """Return the distortion of one attribute's values, (k,) int32 positions; ``noise``: the mean ε² of a value."""
    changed = before != after
    distances = d.pairs(before[changed], after[changed])
    present = int(np.count_nonzero(before >= 0))
    return Distortion(
        values=present,
        squared_distance=float((distances**2).sum()),
        squared_noise=present * noise,
        unchanged=present - int(np.count_nonzero(changed)),
    )
