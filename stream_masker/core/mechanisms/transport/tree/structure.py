"""How attributes depend on each other, and the edge from a scalar to an array.

Scalars form the spanning tree of the greatest correlations (Chow and Liu 1968 use mutual information), and are masked
together (``transport.field``). An array is masked element by element, given its scalar's original and masked value
(``transport.conditional``).

A scalar that moves to a value with other partners forces its arrays to move. Its kernel has the additional exponent
Σ λ·(m(a, a*) − m(a, a) / 2 − m(a*, a*) / 2) over its arrays B, where m(a, a*) is the mean of sd^γ between a draw from
P(b | a) and one from P(b | a*): the energy distance of the two laws. Any kernel preserves the law; this one needs less
noise.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from stream_masker.core.dtypes import Float64Matrix, Int32Array, Int64Array
from stream_masker.core.mechanisms.transition.serialization import read_model_field
from stream_masker.core.mechanisms.transport import products
from stream_masker.core.mechanisms.transport.conditional import ConditionalChannel
from stream_masker.core.mechanisms.transport.couplings import Conditional
from stream_masker.core.mechanisms.transport.fit import pack_tuples, read_tuples
from stream_masker.core.mechanisms.transport.solver import Matrix, gibbs
from stream_masker.core.mechanisms.transport.table import Table
from stream_masker.core.statistics.counts import Counts
from stream_masker.core.statistics.summary import Statistics
from stream_masker.errors import StatisticsError

TREE_SAMPLES = 2000
"""The number of pairs (a, a*) on which λ of an array is found."""
MAX_CHILD_SEARCHES = 30
FIRST_GAIN = 1.5
"""The first step in ln λ for a unit of ln E; it is halved whenever a step went too far."""
LEAST_LOG = float(np.log(1e-3))
GREATEST_LOGS = tuple(np.log([1e2, 1e3, 1e4, 1e6]).tolist())
"""The greatest ln λ: the one with the least E[sd²]. Kernels have bounded exponents, so that a greater λ no longer tells
far values apart, and what follows moves farther."""
MARGIN = 0.05
"""How far a target that is moved into the range lies from its end, as a share of the range."""
CHILD_TARGET_ERROR = 4e-3
"""The greatest |ln E − ln target| of a mean squared distance on the sample: RMSE within 0.2 %."""


def array_attributes(counts: Counts) -> list[int]:
    """Return the attributes that are arrays; none if no event has two elements.

    Where some events were counted without lengths, an attribute is an array if it looks like one: the rows of a scalar
    repeat it for each element of another attribute; those of an array do not.
    """
    if counts.lengths and all(column.rows == counts.records for column in counts.lengths.values()):
        several = any(column.keys.max(initial=0) > 1 for column in counts.lengths.values())
        return sorted(counts.lengths) if several else []
    repeated = [c.rows > given for c, given in zip(counts.values, counts.given, strict=True)]
    return [j for j, more in enumerate(repeated) if not more] if any(repeated) else []


@dataclass(frozen=True, slots=True)
class Tree:
    """How attributes depend on each other.

    * ``fields``: the trees of two or more scalars, each as its links (parent, child), parents first.
    * ``arrays``: pairs (scalar, array): the array is masked given the scalar.
    """

    fields: tuple[tuple[tuple[int, int], ...], ...]
    arrays: tuple[tuple[int, int], ...]

    @classmethod
    def of(cls, statistics: Statistics, counts: Counts) -> Tree:
        """Return the spanning forest of the greatest correlations; attributes without a common row are not linked.

        An array has at most one neighbour, because the elements of one array cannot be the context of another value.
        """
        arrays = array_attributes(counts)
        candidates = sorted(
            (pair for pair, column in counts.pairs.items() if column.keys.size),
            key=lambda pair: (-statistics.correlation[pair], pair),
        )
        links: list[tuple[int, int]] = []
        group = list(range(len(counts.values)))
        for first, second in (pair for pair in candidates if not set(pair) & set(arrays)):
            if group[first] != group[second]:
                links.append((first, second))
                old, new = group[first], group[second]
                group = [new if g == old else g for g in group]
        found: dict[int, int] = {}
        for first, second in (pair for pair in candidates if (pair[0] in arrays) != (pair[1] in arrays)):
            scalar, array = (second, first) if first in arrays else (first, second)
            found.setdefault(array, scalar)
        return cls(_directed(links), tuple((scalar, array) for array, scalar in found.items()))


def _directed(links: Sequence[tuple[int, int]]) -> tuple[tuple[tuple[int, int], ...], ...]:
    """Direct the links of each tree away from the attribute with the most links."""
    left, trees = list(links), []
    while left:
        nodes = sorted({j for link in left for j in link})
        reached = [max(nodes, key=lambda j: (sum(j in link for link in left), -j))]
        edges = []
        while step := next((link for link in left if (link[0] in reached) != (link[1] in reached)), None):
            parent, child = step if step[0] in reached else step[::-1]
            edges.append((parent, child))
            reached.append(child)
            left.remove(step)
        trees.append(tuple(edges))
    return tuple(trees)


def flipped(table: Table, counts: Int64Array) -> tuple[Table, Int64Array]:
    """Return a table with rows and columns exchanged."""
    order = table.order
    return Table.of(table.columns[order], table.rows[order], table.shape[::-1]), counts[order]


@dataclass(frozen=True, slots=True, eq=False)
class Edge:
    """An attribute B that is masked given its parent A.

    * ``table``, ``counts``: the window's pairs (a, b). ``sharpness``, ``power``: λ and γ of B.
    """

    parent: int
    child: int
    table: Table
    counts: Int64Array
    sharpness: float
    power: float

    def channel(self, squares: Matrix, least: int) -> ConditionalChannel:
        """Return the channel of B given (a, a*)."""
        return ConditionalChannel(self.laws(squares, least))

    def laws(self, squares: Matrix, least: int) -> Conditional:
        """Return the laws of B given A, with its kernel; ``squares``: (k_B, k_B) sd²."""
        return Conditional.of(self.table, self.counts, least, gibbs(squares, self.sharpness, self.power))

    def to_model(self, names: Sequence[str]) -> dict[str, Any]:
        """Return the JSON-serialisable form."""
        return {
            "parent": names[self.parent],
            "child": names[self.child],
            **pack_tuples(self.table, self.counts),
            "sharpness": self.sharpness,
        }

    @classmethod
    def from_model(
        cls, model: object, names: Sequence[str], shapes: Mapping[tuple[int, int], tuple[int, int]], power: float
    ) -> Edge:
        """Restore what ``to_model`` returns; ``shapes``: of the tables of each pair of attributes. ``power``: γ of B.

        Raises StatisticsError.
        """
        parent, child, sharpness = (read_model_field(model, field) for field in ("parent", "child", "sharpness"))
        if parent not in names or child not in names or not isinstance(sharpness, float):
            raise StatisticsError("an edge of the model's tree has other attributes, or no sharpness")
        edge = (names.index(str(parent)), names.index(str(child)))
        return cls(*edge, *read_tuples(model, shapes[edge]), sharpness, power)


def energy(table: Table, counts: Int64Array, costs: Float64Matrix) -> Float64Matrix:
    """Return (k_A, k_A) float64 ≥ 0: the energy distance of the laws of B given a and given a*; 0 where one has no
    partner."""
    shares = counts / np.maximum(np.bincount(table.rows, counts, minlength=table.shape[0]), 1.0)[table.rows]
    entries = table.by_row
    half = products.transposed(products.row_products(entries.offsets, entries.columns, shares, costs))
    mixed = products.row_products(entries.offsets, entries.columns, shares, half)
    own = np.diag(mixed) / 2.0
    result = np.maximum(mixed - own[:, None] - own[None, :], 0.0)
    without = np.diff(entries.offsets) == 0
    result[without] = 0.0
    result[:, without] = 0.0
    return np.asarray((result + result.T) / 2.0)


def sample_joint(joint: Float64Matrix) -> tuple[Int32Array, Int32Array]:
    """Return (n,) int32 each: pairs (a, a*) at equal steps of the cumulative probability; ``joint``: (k, k)."""
    cumulative = np.cumsum(joint)
    places = (np.arange(TREE_SAMPLES) + 0.5) / TREE_SAMPLES * cumulative[-1]
    found = np.searchsorted(cumulative, places)
    return (found // joint.shape[1]).astype(np.int32), (found % joint.shape[1]).astype(np.int32)


def fit_child(
    edge: Edge,
    squares: Float64Matrix,
    least: int,
    a: Int32Array,
    new_a: Int32Array,
    wanted: float,
    *,
    truncated: bool,
    raised: bool,
) -> float | str:
    """Find λ of B with E[sd²] = ``wanted`` over pairs (a, a*).

    * ``truncated``, ``raised``: whether a target above the range is lowered to it, and one below it raised.

    Returns λ, or which RMSE is allowed if the target is below the range or above it. The mean squared distance jumps
    where the number of Sinkhorn's steps changes; with ``truncated``, a target within a jump gives the end of the jump
    with more noise.
    """
    single = squares.astype(np.float32)

    def mean(log_sharpness: float) -> float:
        channel = replace(edge, sharpness=float(np.exp(log_sharpness))).channel(single, least)
        covered = channel.covers(a, new_a)
        return channel.mean_square(squares, a[covered], new_a[covered])

    low = LEAST_LOG
    smallest, high = min((mean(point), point) for point in GREATEST_LOGS)
    greatest = mean(low)
    determined = greatest - smallest <= CHILD_TARGET_ERROR * smallest  # by the values of A: λ of B changes nothing
    if determined and (raised or (truncated and smallest <= (1.0 + MARGIN) * wanted)):
        return edge.sharpness
    if not raised and not smallest < wanted:
        return f"at least {np.sqrt(smallest):.3f}"
    if truncated:
        wanted = min(wanted, (1.0 - MARGIN) * greatest)
    if raised:
        wanted = max(wanted, smallest + MARGIN * (greatest - smallest))
    if not smallest < wanted < greatest:
        return f"from {np.sqrt(smallest):.3f} to {np.sqrt(greatest):.3f}"
    point, gain, previous = float(np.log(edge.sharpness)), FIRST_GAIN, 0.0
    for _ in range(MAX_CHILD_SEARCHES):
        miss = np.log(mean(point) / wanted)
        if abs(miss) <= CHILD_TARGET_ERROR:
            return float(np.exp(point))
        low, high = (point, high) if miss > 0.0 else (low, point)
        gain *= 0.5 if miss * previous < 0.0 else 1.0
        previous = miss
        proposal = point + float(np.clip(miss, -1.0, 1.0)) * gain
        point = proposal if low < proposal < high else (low + high) / 2.0
    return float(np.exp(low)) if truncated else f"near {np.sqrt(mean(low)):.3f} or {np.sqrt(mean(high)):.3f}"
