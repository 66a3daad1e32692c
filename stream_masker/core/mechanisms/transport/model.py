"""What is published: the maps of a window, and their form in messages.

A message holds the window's tuples with their numbers of records, Φ, the kernels and η, in float32. All the rest, T and
Ψ, follows from them, so that every process masks alike.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from stream_masker.core.arrays import located
from stream_masker.core.distance import Distance
from stream_masker.core.dtypes import (
    BoolArray,
    Float32Array,
    Float32Matrix,
    Float64Array,
    Float64Matrix,
    Int32Array,
    Int64Array,
    UInt64Array,
)
from stream_masker.core.mechanisms.transition.serialization import (
    pack_array,
    read_float,
    read_model_field,
    unpack_array,
)
from stream_masker.core.mechanisms.transport.certainty import Limits, Redraw, posteriors_of, redraw
from stream_masker.core.mechanisms.transport.fit import (
    DISTANCE_ERROR,
    LAMBDA_BOUNDS,
    LAW_ERROR,
    Kernel,
    Law,
    Map,
    Side,
    greatest_distance,
    levelled,
    scale,
    sharpened,
    written_law,
)
from stream_masker.core.mechanisms.transport.kernels import Draws, draw_pairs
from stream_masker.core.random.draws import salts_of
from stream_masker.core.statistics.counts import SparseCounts, marginals
from stream_masker.errors import StatisticsError

FORMAT = 7
"""The number of the format of a model, and of snapshots."""
MAX_VALUES = 2_000
"""The greatest number of values of an attribute: its most frequent ones. Others count as the nearest of them."""
MAX_SOLUTIONS = 4
"""How often a map is fitted, with another λ each time, to meet its distance."""
SPARED = 0.4
"""The relative excess of an RMSE that is not searched away, for each share of records that is redrawn: a sharper map
would need a greater redraw, and tell more."""
COMPARED = 512
"""The number of concepts that are compared with all values at once."""


@dataclass(frozen=True, eq=False)
class Values:
    """The k values of one attribute. Every other concept counts as the nearest of them, of least position if equal.

    * ``positions``: (k,) int32, ascending. ``index_of``: int32, for each position of the taxonomy the index of its
      value, −1 where it is not known yet.
    """

    distance: Distance
    positions: Int32Array
    index_of: Int32Array

    @classmethod
    def of(cls, distance: Distance, positions: Int32Array) -> Values:
        """Create the values at these ascending positions."""
        index_of = np.full(len(distance.taxonomy), -1, np.int32)
        index_of[positions] = np.arange(positions.size, dtype=np.int32)
        return cls(distance, positions, index_of)

    @classmethod
    def most_frequent(cls, distance: Distance, column: SparseCounts) -> Values:
        """Select the most frequent values of a column, at most ``MAX_VALUES``."""
        frequent = np.sort(np.lexsort((column.keys, -column.counts))[:MAX_VALUES])
        return cls.of(distance, column.keys[frequent].astype(np.int32))

    def __len__(self) -> int:
        return self.positions.size

    @cached_property
    def squares(self) -> Float32Matrix:
        """(k, k) float32 d²."""
        return np.square(self.distance.matrix(self.positions)).astype(np.float32)

    def indices(self, codes: Int32Array) -> Int32Array:
        """Return (n,) int32: the index of each present code's value. Remembers the nearest value of new codes."""
        found = self.index_of[codes]
        new = np.unique(codes[found < 0])
        for start in range(0, new.size, COMPARED):
            own = new[start : start + COMPARED]
            self.index_of[own] = np.argmin(self.distance.between(own, self.positions), axis=1)
        return self.index_of[codes] if new.size else found


class Tuples(NamedTuple):
    """The window's tuples of the values of one or two attributes, in order.

    * ``rows``, ``columns``: (m,) int32 indices of values; columns are 0 for one attribute. ``counts``: (m,) records.
    * ``heavy``: (m,) whether a tuple is of enough patients. ``frequent``: whether each value is, (k,) by attribute.
    """

    rows: Int32Array
    columns: Int32Array
    counts: Int64Array
    heavy: BoolArray
    frequent: tuple[BoolArray, BoolArray]

    @classmethod
    def of(cls, column: SparseCounts, values: tuple[Values, ...], least: int) -> Tuples:
        """Return the tuples of a column of values or of pairs; ``least``: how many patients are enough."""
        codes: Sequence[Int64Array] = (column.keys,)
        sides: Sequence[SparseCounts] = (column,)
        if len(values) == 2:
            width = len(values[1].distance.taxonomy)
            codes, sides = np.divmod(column.keys, width), marginals(column, width)
        indices = [v.indices(each.astype(np.int32)).astype(np.int64) for v, each in zip(values, codes, strict=True)]
        width = len(values[-1]) if len(values) == 2 else 1
        keys, which = np.unique(indices[0] * width + (indices[1] if len(values) == 2 else 0), return_inverse=True)
        merged = column.regroup(which, keys.size)
        rows, columns = (each.astype(np.int32) for each in np.divmod(keys, width))
        frequent = [
            side.regroup(v.indices(side.keys.astype(np.int32)).astype(np.int64), len(v)).units >= least
            for v, side in zip(values, sides, strict=True)
        ]
        every = (frequent[0], frequent[1] if len(frequent) == 2 else np.ones(1, np.bool_))
        return cls(rows, columns, merged.counts, merged.units >= least, every)

    def law(self, values: tuple[Values, ...]) -> Law:
        """Return the law of the window, and what is written. Raises StatisticsError if nothing can be."""
        sides = []
        for j, each in enumerate((self.rows, self.columns)):
            if j == len(values):
                sides.append(Side.none(int(self.counts.sum())))
                continue
            counts = np.zeros(len(values[j]), np.int64)
            np.add.at(counts, each, self.counts)
            sides.append(Side.of(values[j].distance.taxonomy, values[j].positions, counts, self.frequent[j]))
        target = written_law(self.rows, self.columns, self.counts, self.heavy, (sides[0], sides[1]))
        return Law(self.rows, self.columns, self.counts / self.counts.sum(), target)


@dataclass(frozen=True, eq=False)
class Transport:
    """The map of some records, with its redraw, in use.

    * ``attributes``: the indices of one or two. ``values``: of each. ``tuples``: those of the window.
    * ``wanted``: for each attribute the E[d²] that is asked for, as far as the window allows it. ``moved``: what it
      is. ``surest``: the greatest posterior of a value, of each attribute.
    """

    attributes: tuple[int, ...]
    values: tuple[Values, ...]
    tuples: Tuples
    map: Map
    redraw: Redraw
    wanted: tuple[float, ...]
    moved: tuple[float, ...]
    surest: tuple[float, ...]

    @cached_property
    def draws(self) -> Draws:
        """The arrays of draws."""
        transport, weights = self.map, self.redraw.weights
        orders = [np.argsort(each.squares, axis=1, kind="stable").astype(np.uint16) for each in transport.kernels]
        near = [np.take_along_axis(m, o, axis=1) for m, o in zip(transport.matrices, orders, strict=True)]
        salts = [salts_of(v.positions) for v in self.values] + [np.zeros(1, np.uint64)]
        maps = (transport.totals, transport.inner, transport.psi, self.redraw.eta)
        return Draws(*orders, *near, *maps, weights, weights.sum(axis=1, dtype=np.float64), *salts[:2])

    def draw(self, codes: Sequence[Int32Array], words: Sequence[UInt64Array]) -> list[Int32Array]:
        """Return the masks of records that have all attributes, as positions.

        ``codes``: (n,) positions of each attribute. ``words``: (n,) a random word of each value.
        """
        indices = [v.indices(each) for v, each in zip(self.values, codes, strict=True)]
        second = indices[1] if len(indices) == 2 else np.zeros_like(indices[0])
        drawn = draw_pairs(self.draws, indices[0], second, words[0], words[-1])
        return [v.positions[each] for v, each in zip(self.values, drawn, strict=False)]

    def prior(self, which: int) -> Float64Array:
        """Return (k,) float64 P(x) of an attribute."""
        law = self.map.law
        return np.bincount((law.rows, law.columns)[which], law.share, len(self.values[which]))

    def joint(self, which: int) -> Float64Matrix:
        """Return (k, k) float64 P(x, x*) of an attribute; it sums to 1."""
        joint = redrawn_joint(self.map, self.redraw, which)
        return np.asarray(joint / joint.sum())

    def blocks(self, which: int, size: int) -> Iterator[Float64Matrix]:
        """Yield the joint law of an attribute's value and all masks of the record: blocks of (k, ≤ size)."""
        found, side = self.redraw, posteriors_of(self.map)[which]
        i, j = np.nonzero(side.chance)
        for start in range(0, i.size, size):
            own = i[start : start + size], j[start : start + size]
            kept = side.chance[own] * (1.0 - found.eta[own])
            yield side.columns(*own) * kept + found.mean[which][:, None] * found.weights[own]

    def likelihood(self, masked: tuple[int, int], rows: Int32Array, columns: Int32Array) -> Float64Array:
        """Return (t,) float64: the probability of a mask given each of t tuples; all are indices of values."""
        first, second = self.map.matrices
        kept = self.map.psi[masked] * (1.0 - self.redraw.eta[masked])
        again = self.redraw.weights[masked] / max(self.redraw.share, np.finfo(np.float64).tiny)
        own = first[rows, masked[0]] * second[columns, masked[1]] * kept + self.redrawn[rows, columns] * again
        return np.asarray(own / self.map.totals[rows, columns], np.float64)

    @cached_property
    def redrawn(self) -> Float32Matrix:
        """(k_A, k_B) float32: how probably each tuple is redrawn, times Z."""
        first, second = self.map.matrices
        return np.asarray(first @ (self.redraw.eta * self.map.psi) @ second.T)


def redrawn_joint(found: Map, again: Redraw, which: int) -> Float64Matrix:
    """Return (k, k) float64 P(x, x*) of an attribute of a map with a redraw."""
    kept = found.joint(which, found.psi * (1.0 - again.eta)).astype(np.float64)
    return np.asarray(kept + np.outer(again.mean[which], again.weights.sum(axis=1 - which, dtype=np.float64)))


def fit_transport(
    attributes: tuple[int, ...],
    values: tuple[Values, ...],
    tuples: Tuples,
    limits: Callable[[tuple[Float64Array, ...]], Sequence[Limits]],
    wanted: Sequence[float],
    before: Transport | None,
) -> Transport:
    """Return the map of some records, whose attributes move by E[d²] as far as the window and the limits allow.

    * ``limits``: returns those of each attribute, from their priors. ``wanted``: for each attribute its E[d²].
    * ``before``: that of the last version, from which the search starts.

    Raises StatisticsError if nothing can be written.
    """
    law = tuples.law(values)
    shares = tuple(
        np.bincount(each, law.share, len(v)) for each, v in zip((law.rows, law.columns), values, strict=False)
    )
    started = [
        _started_kernel(v, share, goal, before, j)
        for j, (v, share, goal) in enumerate(zip(values, shares, wanted, strict=True))
    ]
    goals = tuple(
        min(goal, greatest_distance(law, kernel, j))
        for j, (goal, kernel) in enumerate(zip(wanted, started, strict=True))
    )
    kernels = [
        levelled(kernel, share, law.target.sum(axis=1 - j), goal if before is None else None)
        for j, (kernel, share, goal) in enumerate(zip(started, shares, goals, strict=True))
    ]
    own = limits(shares)
    found = Map(
        law, (kernels[0], kernels[1] if len(kernels) == 2 else Kernel.flat()), _started_phi(law, values, before)
    )
    for solution in range(MAX_SOLUTIONS):
        found = scale(found, LAW_ERROR)
        again = redraw(posteriors_of(found)[: len(values)], own)
        moved = tuple(float((redrawn_joint(found, again, j) * v.squares).sum()) for j, v in enumerate(values))
        ratios = [each / goal for each, goal in zip(moved, goals, strict=True)]
        spared = DISTANCE_ERROR + SPARED * again.share
        met = all(1.0 - DISTANCE_ERROR <= ratio**0.5 <= 1.0 + spared for ratio in ratios)
        if met or solution == MAX_SOLUTIONS - 1 or (again.share > 0.0 and solution > 0):
            break
        found = sharpened(found, ratios)
    surest = tuple(
        float(side.surest(again, mean).max()) for side, mean in zip(posteriors_of(found), again.mean, strict=False)
    )
    return Transport(attributes, values, tuples, found, again, goals, moved, surest)


def _started_kernel(values: Values, share: Float64Array, wanted: float, before: Transport | None, which: int) -> Kernel:
    """Return a kernel to start from: that of the last version, as far as it has the values."""
    weights = np.log(np.sqrt(share)).astype(np.float32)
    levels = np.full(len(values), weights.min(), np.float32)
    if before is None:
        return Kernel(values.squares, 0.5 / wanted, weights, levels)
    old = before.map.kernels[which]
    place, known = located(before.values[which].positions, values.positions)
    return Kernel(
        values.squares,
        old.sharpness,
        np.where(known, old.weights[place], weights),
        np.where(known, old.levels[place], levels),
    )


def _started_phi(law: Law, values: tuple[Values, ...], before: Transport | None) -> Float32Array:
    """Return Φ to start from: that of the last version, as far as it has the tuples."""
    phi = np.sqrt(law.share).astype(np.float32)
    if before is None:
        return phi
    old = before.map.law
    places = [located(b.positions, v.positions) for b, v in zip(before.values, values, strict=True)]
    rows, known = (each[law.rows] for each in places[0])
    columns, known_columns = (each[law.columns] for each in places[1]) if len(values) == 2 else (0 * rows, known)
    width = old.target.shape[1]
    keys = old.rows.astype(np.int64) * width + old.columns
    place, held = located(keys, rows * width + columns)
    held &= known & known_columns
    ratio = np.float32(np.median(before.map.phi / old.share))
    return np.where(held, before.map.phi[place], (law.share * ratio).astype(np.float32))


def pack_transport(made: Transport) -> dict[str, Any]:
    """Return what ``read_transport`` reads."""
    kernels = made.map.kernels[: len(made.values)]
    return {
        "attributes": list(made.attributes),
        "values": [pack_array(v.positions) for v in made.values],
        **pack_tuples(made.tuples),
        "front": pack_array(made.map.phi),
        "kernels": [
            {"sharpness": k.sharpness, "weights": pack_array(k.weights), "levels": pack_array(k.levels)}
            for k in kernels
        ],
        "eta": pack_sparse(made.redraw.eta),
        **{name: list(getattr(made, name)) for name in FIGURES},
    }


FIGURES = ("wanted", "moved", "surest")


def read_transport(model: object, distances: Sequence[Distance]) -> Transport:
    """Return a map in use. Raises StatisticsError if the model is not valid."""
    attributes = tuple(
        read_index(model, "attributes", len(distances), at=k) for k in range(len(_list(model, "attributes")))
    )
    packed = _list(model, "values", len(attributes))
    values = tuple(read_values(each, distances[j]) for each, j in zip(packed, attributes, strict=True))
    shape = (len(values[0]), len(values[1]) if len(values) == 2 else 1)
    tuples = read_tuples(model, shape)
    kernels = [_read_kernel(each, v) for each, v in zip(_list(model, "kernels", len(values)), values, strict=True)]
    phi = unpack_array(read_model_field(model, "front"), np.float32, tuples.rows.size)
    if not (np.isfinite(phi) & (phi > 0.0)).all():
        raise StatisticsError("the front of the model is not of positive numbers")
    found = Map(tuples.law(values), (kernels[0], kernels[1] if len(kernels) == 2 else Kernel.flat()), phi)
    eta = read_sparse(read_model_field(model, "eta"), shape)
    figures = [tuple(map(float, _list(model, name, len(values)))) for name in FIGURES]
    again = Redraw.of(posteriors_of(found)[: len(values)], eta)
    return Transport(attributes, values, tuples, found, again, *figures)


def _read_kernel(model: object, values: Values) -> Kernel:
    weights, levels = (
        unpack_array(read_model_field(model, name), np.float32, len(values)) for name in ("weights", "levels")
    )
    if not (np.isfinite(weights) & np.isfinite(levels)).all():
        raise StatisticsError("a kernel of the model is not of finite numbers")
    return Kernel(values.squares, read_float(model, "sharpness", *LAMBDA_BOUNDS), weights, levels)


def _list(model: object, name: str, size: int | None = None) -> list[Any]:
    """Return a list of a model. Raises StatisticsError for anything else, and for one of another size."""
    given = read_model_field(model, name)
    if not isinstance(given, list) or (size is not None and len(given) != size):
        raise StatisticsError(f"the {name} of the model are not a list of that size")
    return given


def pack_tuples(tuples: Tuples) -> dict[str, Any]:
    """Return what ``read_tuples`` reads."""
    keys = tuples.rows.astype(np.int64) * tuples.frequent[1].size + tuples.columns
    return {
        "tuples": pack_array(np.diff(keys, prepend=0)),
        "counts": pack_array(tuples.counts),
        "heavy": pack_array(np.packbits(tuples.heavy)),
        "frequent": [pack_array(np.packbits(each)) for each in tuples.frequent],
    }


def read_tuples(model: object, shape: tuple[int, int]) -> Tuples:
    """Return the tuples of a model, for values of that number. Raises StatisticsError."""
    keys = np.cumsum(unpack_array(read_model_field(model, "tuples"), np.int64))
    counts = unpack_array(read_model_field(model, "counts"), np.int64, keys.size)
    if not keys.size or keys[0] < 0 or keys[-1] >= shape[0] * shape[1] or np.diff(keys).min(initial=1) < 1:
        raise StatisticsError("the tuples of the model are not distinct, or not allowed")
    if counts.min() < 1:
        raise StatisticsError("a count of the model is not positive")
    rows, columns = (each.astype(np.int32) for each in np.divmod(keys, shape[1]))
    flags = (_read_flags(each, size) for each, size in zip(_list(model, "frequent", 2), shape, strict=True))
    return Tuples(rows, columns, counts, _read_flags(read_model_field(model, "heavy"), keys.size), tuple(flags))


def _read_flags(packed: object, size: int) -> BoolArray:
    return np.unpackbits(unpack_array(packed, np.uint8, (size + 7) // 8), count=size).astype(np.bool_)


def read_values(packed: object, distance: Distance) -> Values:
    """Return the values of a model. Raises StatisticsError."""
    positions = unpack_array(packed, np.int32)
    inside = positions.size and positions[0] >= 0 and positions[-1] < len(distance.taxonomy)
    if not inside or positions.size > MAX_VALUES or np.diff(positions).min(initial=1) < 1:
        raise StatisticsError("the values of the model are not distinct concepts of the taxonomy")
    return Values.of(distance, positions)


def read_index(model: object, name: str, size: int, at: int | None = None) -> int:
    """Return a number from 0 to below ``size`` of a model. Raises StatisticsError."""
    given = read_model_field(model, name) if at is None else _list(model, name)[at]
    if type(given) is not int or not 0 <= given < size:
        raise StatisticsError(f"the {name} of the model are not those of this mechanism")
    return given


def pack_sparse(matrix: Float32Matrix) -> list[str]:
    """Return what ``read_sparse`` reads: the places of numbers that are not 0, and these numbers."""
    places = np.flatnonzero(matrix)
    return [pack_array(np.diff(places, prepend=0).astype(np.int32)), pack_array(matrix.reshape(-1)[places])]


def read_sparse(packed: object, shape: tuple[int, int]) -> Float32Matrix:
    """Return a matrix of probabilities of a model. Raises StatisticsError."""
    if not isinstance(packed, list) or len(packed) != 2:
        raise StatisticsError("a matrix of the model is not a list of places and numbers")
    places = np.cumsum(unpack_array(packed[0], np.int32), dtype=np.int64)
    numbers = unpack_array(packed[1], np.float32, places.size)
    result = np.zeros(shape[0] * shape[1], np.float32)
    if places.size and (places[0] < 0 or places[-1] >= result.size or not ((numbers >= 0) & (numbers <= 1)).all()):
        raise StatisticsError("a matrix of the model has other places, or numbers that are no probabilities")
    result[places] = numbers
    return result.reshape(shape)
