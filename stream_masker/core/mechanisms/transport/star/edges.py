"""The edges of a star: attributes that are masked given its root (docs/derivations.md: A star of attributes).

One or two scalars without arrays are masked together. Otherwise one scalar is the root, which is masked alone; every
other attribute is masked given the root's original and masked value, by ``transport.star.couplings``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from stream_masker.core.dtypes import BoolArray, Float32Array, Float64Matrix, Int32Array, Int64Array, UInt64Array
from stream_masker.core.mechanisms.transition.serialization import pack_array, read_array, read_float, read_model_field
from stream_masker.core.mechanisms.transport.fitting import pack_tuples, read_tuples
from stream_masker.core.mechanisms.transport.kernel import GREATEST, kernel_of
from stream_masker.core.mechanisms.transport.scaling.table import CountedPairs, Table
from stream_masker.core.mechanisms.transport.star.attribute import GivenRoot
from stream_masker.core.mechanisms.transport.star.couplings import Conditional, Rows, coupling_costs, covered_pairs
from stream_masker.core.mechanisms.transport.values import Values
from stream_masker.core.ontology.graph import first_parents_of
from stream_masker.core.random import Secret
from stream_masker.core.statistics.counts import Counts
from stream_masker.core.statistics.summary import Statistics
from stream_masker.errors import StatisticsError

SAMPLES = 2000
"""The number of pairs (a, a*) on which λ is found."""
MAX_LAMBDA_SEARCHES = 30
FIRST_GAIN = 1.5
"""The first step in ln λ for a unit of ln E; it is halved whenever a step went too far."""
LEAST_LOG = math.log(1e-3)
GREATEST_LOGS = (math.log(1e2), math.log(1e4))
"""The greatest ln λ: the one with the least E[sd²]. Kernels have bounded exponents, so that a greater λ no longer tells
far values apart, and what follows moves farther."""
MARGIN = 0.05
"""How far a target that is moved into the range lies from its end, as a share of the range."""
CHILD_TARGET_ERROR = 4e-3
"""The greatest |ln E − ln target| of a mean squared distance on the sample: RMSE within 0.2 %."""
MOST_REDRAWN = 0.2
"""Values a* that need more are not written where others fail: they would fail without these, which are near them."""
LEAST_EXCHANGED = 20
"""The least number of different patients, as far as they are known, whose pairs change places with each other."""


def flipped(table: Table, *columns: np.ndarray[Any, Any]) -> tuple[Any, ...]:
    """Return a table, and columns of its entries, with rows and columns exchanged."""
    order = table.order
    result = Table.of(table.columns[order], table.rows[order], table.shape[::-1])
    return (result, *(column[order] for column in columns))


@dataclass(frozen=True, slots=True, eq=False)
class Edge:
    """An attribute B that is masked given its root A.

    * ``pairs``: the window's pairs (a, b). ``masks``: those of masks (a*, b*), see ``masks_of``.
    * ``sharpness``: λ of B. ``redraws``: (n,) float32 η of each pair (a*, b*).
    * ``events``: (m,) float32, how many events have each pair of the window; empty where events are rows. Those with a
      value of A are shared among its elements.
    * ``changed``: a lower bound of the share of values of B that change.
    """

    root: int
    child: int
    pairs: CountedPairs
    masks: CountedPairs
    sharpness: float
    redraws: Float32Array
    events: Float32Array
    changed: float = 0.0

    @property
    def weights(self) -> Float64Matrix:
        """(l, m) float64: P(a, b) of the window's pairs in each law of an attacker, divided by that of rows."""
        laws = np.array([self.pairs.counts, *([self.events] if self.events.size else [])], np.float64)
        return np.asarray(laws / laws[0] * (laws[0].sum() / laws.sum(axis=1))[:, None])

    @property
    def tells_of_root(self) -> bool:
        """Whether the law of B given A is another one for who counts events, so that its mask tells of A there."""
        weights, table = self.weights[-1], self.pairs.table
        return not np.allclose(weights, weights[table.by_row.offsets[table.rows]], rtol=1e-5)

    def priors(self, values: Values) -> Float64Matrix:
        """Return (l, k_B) float64: P(b) in each law; ``values``: of B."""
        events = np.bincount(self.pairs.table.columns, self.events, len(values)) if self.events.size else values.counts
        laws = np.array([values.counts, events][: len(self.weights)], np.float64)
        return np.asarray(laws / laws.sum(axis=1, keepdims=True))

    @property
    def partnered(self) -> BoolArray:
        """(k_A,) bool: whether a value of A has a partner that may be written."""
        return np.diff(self.masks.table.by_row.offsets) > 0

    @property
    def strained(self) -> BoolArray:
        """(k_A,) bool: whether limits given a* fail, or need more than ``MOST_REDRAWN`` of its masks drawn again."""
        least = np.ones(len(self.partnered), np.float32)
        np.minimum.at(least, self.masks.table.rows, self.redraws)
        return self.partnered & (least > MOST_REDRAWN)

    def laws(self, squares: Float64Matrix) -> Conditional:
        """Return the laws of B given A, with its kernel; ``squares``: (k_B, k_B) sd²."""
        kernel = kernel_of(squares.astype(np.float32), self.sharpness)
        return Conditional(Rows.of(self.pairs), Rows.of(self.masks), kernel)

    def given_root(self, squares: Float64Matrix, places: Int32Array) -> GivenRoot:
        """Return what draws of B given (a, a*) need; ``places``: (k_B,), of the values of B."""
        return GivenRoot.of(self.laws(squares), self.redraws.astype(np.float64), places)

    def to_model(self, names: Sequence[str]) -> dict[str, Any]:
        """Return the JSON-serialisable form."""
        return {
            "child": names[self.child],
            **pack_tuples(*self.pairs),
            "masks": pack_tuples(*self.masks),
            "sharpness": self.sharpness,
            "changed": self.changed,
            "redraws": pack_array(self.redraws),
            "events": pack_array(self.events),
        }

    @classmethod
    def from_model(cls, model: object, names: Sequence[str], root: int, sizes: Sequence[int]) -> Edge:
        """Restore what ``to_model`` returns; ``sizes``: the number of values of each attribute.

        Raises StatisticsError.
        """
        name = read_model_field(model, "child")
        if name not in names or names.index(str(name)) == root:
            raise StatisticsError("an edge of the model has another attribute")
        child = names.index(str(name))
        shape = (sizes[root], sizes[child])
        pairs, masks = (CountedPairs(*read_tuples(each, shape)) for each in (model, read_model_field(model, "masks")))
        sharpness, changed = read_float(model, "sharpness", 0.0, GREATEST), read_float(model, "changed", 0.0, 1.0)
        redraws = read_array(model, "redraws", np.float32, masks.counts.size, low=0.0, high=1.0)
        events = read_array(model, "events", np.float32, low=0.0, high=GREATEST)
        if events.size not in (0, pairs.counts.size):
            raise StatisticsError("an edge of the model has the events of other pairs")
        return cls(root, child, pairs, masks, sharpness, redraws, events, changed)


def sample_joint(joint: Float64Matrix) -> tuple[Int32Array, Int32Array]:
    """Return (n,) int32 each: pairs (a, a*) at equal steps of the cumulative probability; ``joint``: (k, k)."""
    cumulative = np.cumsum(joint)
    places = (np.arange(SAMPLES) + 0.5) / SAMPLES * cumulative[-1]
    drawn = np.searchsorted(cumulative, places)
    return (drawn // joint.shape[1]).astype(np.int32), (drawn % joint.shape[1]).astype(np.int32)


def meet_distance(
    edge: Edge, squares: Float64Matrix, joint: Float64Matrix, wanted: float, *, truncated: bool
) -> float | str:
    """Find λ of B with E[sd²] = ``wanted``; its first λ is that of the edge, or the nearest allowed one.

    ``joint``: (k_A, k_A) P(a, a*). ``truncated``: whether a target above the range is lowered to it, and one below
    it raised: B moves at least as far as the mask of A forces it to.

    Returns λ, or which RMSE is allowed if the target is below the range or above it. The mean squared distance jumps
    where the number of Sinkhorn's steps changes; with ``truncated``, a target within a jump gives the end of the jump
    with more noise.
    """
    a, new_a = sample_joint(joint)

    def mean(log_sharpness: float) -> float:
        laws = replace(edge, sharpness=math.exp(log_sharpness)).laws(squares)
        covered = covered_pairs(laws, a, new_a)
        keys, counts = np.unique(a[covered].astype(np.int64) * len(joint) + new_a[covered], return_counts=True)
        own, new = (each.astype(np.int32) for each in np.divmod(keys, len(joint)))
        return float(np.dot(coupling_costs(laws, squares, own, new), counts.astype(np.float64))) / int(counts.sum())

    low = LEAST_LOG
    smallest, high = min((mean(point), point) for point in GREATEST_LOGS)
    greatest = mean(low)
    if truncated:
        if greatest - smallest <= CHILD_TARGET_ERROR * smallest:  # A determines how B moves
            return edge.sharpness
        margin = MARGIN * (greatest - smallest)
        wanted = min(max(wanted, smallest + margin), greatest - margin)
    if not smallest < wanted < greatest:
        return f"from {np.sqrt(smallest):.3f} to {np.sqrt(greatest):.3f}"
    point, gain, previous = min(max(np.log(edge.sharpness), low), high), FIRST_GAIN, 0.0
    for _ in range(MAX_LAMBDA_SEARCHES):
        miss = np.log(mean(point) / wanted)
        if abs(miss) <= CHILD_TARGET_ERROR:
            return math.exp(point)
        low, high = (point, high) if miss > 0.0 else (low, point)
        gain *= 0.5 if miss * previous < 0.0 else 1.0
        previous = miss
        proposal = point + float(np.clip(miss, -1.0, 1.0)) * gain
        point = proposal if low < proposal < high else (low + high) / 2.0
    return math.exp(low) if truncated else f"near {np.sqrt(mean(low)):.3f} or {np.sqrt(mean(high)):.3f}"


def array_attributes(counts: Counts) -> list[int]:
    """Return the attributes that are arrays, also if no event of the window has two elements.

    Where some events were counted without lengths, an attribute is an array too if it looks like one: the rows of a
    scalar repeat it for each element of another attribute; those of an array do not.
    """
    arrays = set(counts.lengths)
    if not arrays or any(column.rows != counts.records for column in counts.lengths.values()):
        repeated = [c.rows > given for c, given in zip(counts.values, counts.given, strict=True)]
        if any(repeated):
            arrays.update(j for j, more in enumerate(repeated) if not more)
    return sorted(arrays)


class Star(NamedTuple):
    """A root and its children; all other attributes are masked alone. ``root``: −1 for none, without children."""

    root: int
    children: tuple[int, ...]

    @classmethod
    def of(cls, statistics: Statistics, counts: Counts) -> Star:
        """Return the star whose root is the scalar with the greatest sum of correlations.

        Attributes without a row in common with the root are no children of it.
        """
        arrays = set(array_attributes(counts))
        scalars = [j for j in range(len(counts.values)) if j not in arrays]
        linked = {pair for pair, column in counts.pairs.items() if column.keys.size}
        children = {
            root: tuple(j for pair in sorted(linked) if root in pair for j in pair if j != root) for root in scalars
        }
        if not any(children.values()):
            return cls(-1, ())
        root = max(scalars, key=lambda j: (sum(statistics.correlation[j, other] for other in children[j]), -j))
        return cls(root, tuple(sorted(children[root])))


def masks_of(
    pairs: CountedPairs, units: Int64Array, values: tuple[Values, Values], least: int, seed: bytes
) -> CountedPairs:
    """Return the pairs of masks; the same ones as the window's if none of these is rare.

    The values b of rare pairs (a, b) change places below the lowest concepts above a that have enough patients: data
    swapping (Dalenius and Reiss 1982) within the classes of a taxonomy, of the law.

    * ``pairs``, ``units``: the window's, and how many different noise keys each has. ``values``: of both attributes.
    * ``least``: of how many noise keys a value, or a pair that does not change places, must be.
    * ``seed``: secret, so that nobody who knows masks can undo the exchange.
    """
    table, counts = pairs
    frequent = units >= least
    if frequent.all():
        return pairs
    first, second = (each.units >= least for each in values)
    rare = CountedPairs(Table.of(table.rows[~frequent], table.columns[~frequent], table.shape), counts[~frequent])
    rows, columns = _exchanged(rare, first, second, values, seed)
    keys = np.concatenate([np.repeat(table.keys[frequent], counts[frequent]), rows * table.shape[1] + columns])
    found, written = np.unique(keys, return_counts=True)
    return CountedPairs(Table.of(*np.divmod(found, table.shape[1]), table.shape), written)


def _exchanged(
    rare: CountedPairs, first: BoolArray, second: BoolArray, values: tuple[Values, Values], seed: bytes
) -> tuple[Int64Array, Int64Array]:
    """Return (n,) int64 each: a and b of the rows of rare pairs, after b has changed places.

    ``first``, ``second``: (k,) which values of A and of B may be written.

    The rows of a group are in the order of a keyed hash, and each takes b of the next one. So the exchange of most rows
    stays as it is when some rows come or go.
    """
    rows, columns = (np.repeat(each, rare.counts) for each in (rare.table.rows, rare.table.columns))
    groups = _groups(rare, values[0])[rows]
    order = np.lexsort((_hashes(rare, values, seed), groups))
    order = order[groups[order] >= 0]
    into, taken = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
    for group in np.split(order, np.flatnonzero(np.diff(groups[order])) + 1):
        places, given = np.flatnonzero(first[rows[group]]), np.flatnonzero(second[columns[group]])
        if given.size:
            following = given[np.searchsorted(given, places, side="right") % given.size]
            into.append(rows[group[places]])
            taken.append(columns[group[following]])
    return np.concatenate(into), np.concatenate(taken)


def _hashes(rare: CountedPairs, values: tuple[Values, Values], seed: bytes) -> UInt64Array:
    """Return (n,) uint64: a keyed hash of each row, by its values and its number among the rows of its pair."""
    places = zip((rare.table.rows, rare.table.columns), values, strict=True)
    positions = [np.repeat(each.positions[which], rare.counts) for which, each in places]
    starts = np.cumsum(rare.counts) - rare.counts
    numbers = np.arange(rare.counts.sum()) - np.repeat(starts, rare.counts)
    messages = np.column_stack([*positions, numbers]).astype("<i8")
    secret = Secret(seed)
    return secret.cipher(b"masker-exchange").words(secret.digests(row.tobytes() for row in messages))[:, 0]


def _groups(rare: CountedPairs, roots: Values) -> Int64Array:
    """Return (k_A,) int64: the concept below which the rare pairs of each value a change places, −1 for none.

    A concept needs ``LEAST_EXCHANGED`` patients, of whom no value has more than half.
    """
    people = np.minimum(np.bincount(rare.table.rows, rare.counts, minlength=len(roots)).astype(np.int64), roots.units)
    groups = np.full(people.size, -1)
    for concepts in _lines(roots)[::-1]:
        open_ = np.flatnonzero((groups < 0) & (concepts >= 0) & (people > 0))
        own, which = np.unique(concepts[open_], return_inverse=True)
        total, greatest = np.bincount(which, people[open_], own.size), np.zeros(own.size, np.int64)
        np.maximum.at(greatest, which, people[open_])
        enough = (total >= LEAST_EXCHANGED) & (2 * greatest <= total)
        groups[open_[enough[which]]] = own[which[enough[which]]]
    return groups


def _lines(roots: Values) -> Int64Array:
    """Return (depth, k) int64: the concepts above each value, from the root down to itself, then −1."""
    taxonomy = roots.distance.taxonomy
    parents = first_parents_of(taxonomy.parent_offsets, taxonomy.parents)
    upwards = [roots.positions.astype(np.int64)]
    while upwards[-1].any():
        upwards.append(parents[upwards[-1]].astype(np.int64))
    above = np.array(upwards)
    steps = np.count_nonzero(above, axis=0) - np.arange(len(above))[:, None]
    return np.where(steps >= 0, np.take_along_axis(above, np.maximum(steps, 0), axis=0), -1)
