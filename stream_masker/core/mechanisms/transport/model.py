"""The maps of a window in use: draws of masks, the joint laws of values and masks, and what is published of them.

What is published holds the window's tuples with their numbers of records, Φ, the kernels and η, in float32. All the
rest, T and Ψ, follows from them, so that every process masks alike.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from stream_masker.core.batch import Batch, Column, MaskedBatch
from stream_masker.core.distance import Distance, distortion_of
from stream_masker.core.dtypes import (
    Float32Matrix,
    Float64Array,
    Float64Matrix,
    Int32Array,
    Int64Array,
    UInt16Matrix,
    UInt64Array,
)
from stream_masker.core.kernels import Draws, draw_pairs
from stream_masker.core.mechanisms.transport.certainty import COLUMNS, Limits, Redraw, Told, redrawn_joint
from stream_masker.core.mechanisms.transport.fit import Kernel, Law, Map, Values
from stream_masker.core.mechanisms.transport.given import Given, systematic
from stream_masker.core.random import salts_of
from stream_masker.core.statistics.packing import pack_array, read_array, read_model_field
from stream_masker.errors import StatisticsError

FORMAT = 10
"""The number of the format of models and snapshots."""
EVERY = -1
"""The number that stands for all contexts."""
DRAWN_MASKS = 4_096
"""How many masks of pairs stand for all of them in the joint law of a value and all masks."""
GREATEST = float(np.finfo(np.float32).max)

Attributes: TypeAlias = tuple[int, ...]
Indices: TypeAlias = NDArray[np.integer]


class Side(NamedTuple):
    """What masks one attribute in some records, and their number.

    ``which``: the place of the attribute in a map.
    """

    records: int
    values: Values
    by: Transport | Given
    which: int

    def joint(self) -> Float64Matrix:
        """Return (k, k) float64 P(x, x*)."""
        return self.by.joint if isinstance(self.by, Given) else self.by.joint(self.which)

    def blocks(self) -> tuple[Iterator[Float64Matrix], bool]:
        """Return the joint law of a value and all masks of its record, in blocks of columns (k, m), and whether these
        are drawn by their chance."""
        return self.by.blocks() if isinstance(self.by, Given) else self.by.blocks(self.which)

    @property
    def greatest(self) -> float:
        """What no posterior exceeds."""
        return self.by.greatest if isinstance(self.by, Given) else self.by.redraw.greatest[self.which]


@dataclass(frozen=True, eq=False)
class Transport:
    """The map of some records, with its redraw.

    * ``attributes``: the indices of one or two.
    * ``wanted``: for each attribute the E[d²] that is asked for, as far as the window allows it; ``moved``: what it is.
    * ``given``: what is masked given the attribute, if it is a root.
    """

    attributes: Attributes
    map: Map
    redraw: Redraw
    wanted: tuple[float, ...]
    moved: tuple[float, ...]
    given: tuple[Given, ...] = ()

    @classmethod
    def independent(cls, attribute: int, law: Law) -> Transport:
        """Return the map of one attribute whose masks are independent of their values."""
        own = Map(law, (Kernel.flat(law.values[0]),), law.share.astype(np.float32))
        again = Redraw.of(Told.by(own, [Limits.of(law.marginal(0), 1.0)]), np.zeros(len(law.values[0])))
        greatest = (float(law.marginal(0).max()),)
        return cls((attribute,), own, replace(again, greatest=greatest), (0.0,), (0.0,))

    @property
    def values(self) -> tuple[Values, ...]:
        """Those of each attribute."""
        return self.map.law.values

    @cached_property
    def draws(self) -> Draws:
        """The arrays of draws."""
        own, shape = self.map, self.map.psi.shape
        (first, near), (second, other) = (_in_order(*each) for each in zip(own.matrices, self._squares, strict=True))
        salts = [salts_of(v.positions) for v in self.values] + [np.zeros(1, np.uint64)]
        again, eta = self.redraw.weights.astype(np.float32).reshape(shape), self.redraw.eta.reshape(shape)
        sums = again.sum(axis=1, dtype=np.float64).astype(np.float32)
        total = float(sums.sum(dtype=np.float64))
        laws = own.totals, own.inner, own.psi, eta, again, sums, total
        return Draws(first, second, near, other, *laws, salts[0], salts[1])

    @property
    def _squares(self) -> tuple[Float32Matrix, Float32Matrix]:
        squares = [values.squares for values in self.values]
        return squares[0], squares[1] if len(squares) == 2 else np.zeros((1, 1), np.float32)

    def draw(self, codes: Sequence[Int32Array], words: Sequence[UInt64Array]) -> list[Int32Array]:
        """Return the masks of records that have all attributes, as positions.

        ``codes``: (n,) positions of each attribute. ``words``: (n,) a random word of each value.
        """
        indices = [v.indices(each) for v, each in zip(self.values, codes, strict=True)]
        second = indices[1] if len(indices) == 2 else np.zeros_like(indices[0])
        drawn = draw_pairs(self.draws, indices[0], second, words[0], words[-1])
        return [v.positions[each] for v, each in zip(self.values, drawn, strict=False)]

    def joint(self, which: int) -> Float64Matrix:
        """Return (k, k) float64 P(x, x*) of attribute ``which``."""
        return redrawn_joint(self.map, self.redraw, which)

    def blocks(self, which: int) -> tuple[Iterator[Float64Matrix], bool]:
        """See ``Side.blocks``: of all masks, or of ``DRAWN_MASKS`` that are drawn by their chance."""
        told = Told.by(self.map, [Limits.of(self.map.law.marginal(j), 1.0) for j in range(len(self.values))])[which]
        masks = np.flatnonzero(told.chance)
        weights = told.chance[masks]
        if drawn := masks.size > DRAWN_MASKS:
            masks, weights = masks[systematic(weights, DRAWN_MASKS)], np.ones(DRAWN_MASKS)
        weights, eta, mean = weights / weights.sum(), self.redraw.eta[masks], self.redraw.means[which][:, None]
        parts = np.array_split(np.arange(masks.size), max(1, masks.size // COLUMNS))
        found = ((part, told.columns(masks[part])) for part in parts)
        return ((each * (1.0 - eta[part]) + mean * eta[part]) * weights[part] for part, each in found), drawn

    def sides(self, records: int) -> Iterator[tuple[int, Side]]:
        """Yield each attribute that is masked, and what masks it; ``records``: their number."""
        for which, (j, values) in enumerate(zip(self.attributes, self.values, strict=True)):
            yield j, Side(records, values, self, which)
        for each in self.given:
            yield each.attribute, Side(records, each.values, each, 1)

    def likelihood(self, i: Indices, j: Indices, x: Indices, y: Indices) -> Float64Matrix:
        """Return P(x, y | i, j) of pairs of indices of values, of arrays that are broadcast."""
        own, again, (first, second) = self.map, self.redraw, self.map.matrices
        place = x * own.psi.shape[1] + y
        kept = first[i, x] * second[j, y] * own.psi[x, y] * (1.0 - again.eta[place])
        drawn = self.redrawn[i, j] * (again.weights[place] / max(again.share, 1e-300))
        return np.asarray((kept + drawn) / own.totals[i, j], np.float64)

    @cached_property
    def redrawn(self) -> Float32Matrix:
        """(k_A, k_B) float32: the chance of each pair to be redrawn, times Z."""
        first, second = self.map.matrices
        return np.asarray(first @ (self.redraw.eta.reshape(self.map.psi.shape) * self.map.psi) @ second.T)

    @property
    def unchanged(self) -> float | None:
        """The share of records none of whose values is changed; None with attributes that are masked given the root."""
        law = self.map.law
        i, j = law.rows, law.columns
        return None if self.given else float(law.share @ self.likelihood(i, j, i, j))

    def packed(self) -> dict[str, Any]:
        """Return what is published."""
        kernels = [
            {"sharpness": k.sharpness, "weights": pack_array(k.weights), "levels": pack_array(k.levels)}
            for k in self.map.kernels
        ]
        given = [
            {"attribute": g.attribute, "law": packed_law(g.law), "eta": pack_array(g.eta[g.target > 0.0])}
            | {"moved": [g.wanted, g.moved, g.greatest]}
            for g in self.given
        ]
        return {
            "attributes": list(self.attributes),
            "law": packed_law(self.map.law),
            "phi": pack_array(self.map.phi),
            "kernels": kernels,
            "eta": pack_array(self.redraw.eta),
            "moved": [list(self.wanted), list(self.moved), list(self.redraw.greatest)],
            "given": given,
        }

    @classmethod
    def read(cls, model: Mapping[str, Any], distances: Sequence[Distance]) -> Transport:
        """Return what ``packed`` returned. Raises StatisticsError, or another error, if it is not valid."""
        attributes = tuple(map(int, model["attributes"]))
        law = _read_law(model["law"], [distances[j] for j in attributes])
        kernels = [_read_kernel(each, v) for each, v in zip(model["kernels"], law.values, strict=True)]
        phi = read_array(model, "phi", np.float32, law.rows.size, low=1e-45, high=GREATEST)
        own = Map(law, tuple(kernels), phi)
        if not np.isfinite(own.psi).all():
            raise StatisticsError("phi of the model has numbers that are not allowed")
        eta = read_array(model, "eta", np.float32, own.psi.size, low=0.0, high=1.0)
        wanted, moved, greatest = (tuple(map(float, each)) for each in model["moved"])
        told = Told.by(own, [Limits.of(law.marginal(j), 1.0) for j in range(len(attributes))])
        again = replace(Redraw.of(told, eta), greatest=greatest)
        given, root = [], redrawn_joint(own, again, 0)
        for each in model["given"]:
            pairs = _read_law(each["law"], [distances[attributes[0]], distances[each["attribute"]]])
            made = replace(Given.of(each["attribute"], pairs, float(each["moved"][0])), root=root)
            some = made.target > 0.0
            made.eta[some] = read_array(each, "eta", np.float32, int(some.sum()), low=0.0, high=1.0)
            given.append(replace(made, moved=float(each["moved"][1]), greatest=float(each["moved"][2])))
        return cls(attributes, own, again, wanted, moved, tuple(given))


def packed_law(law: Law) -> dict[str, Any]:
    """Return what is published of a law."""
    keys = law.rows.astype(np.int64) * law.shape[1] + law.columns
    return {
        "values": [pack_array(v.positions) for v in law.values],
        "keys": pack_array(np.diff(keys, prepend=0)),
        "counts": pack_array(law.counts),
        "heavy": pack_array(law.heavy.astype(np.uint8)),
        "frequent": [pack_array(each.astype(np.uint8)) for each in law.frequent],
    }


def _read_law(model: Mapping[str, Any], distances: Sequence[Distance]) -> Law:
    values, frequent = [], []
    for each, flags, distance in zip(model["values"], model["frequent"], distances, strict=True):
        positions = read_array({"values": each}, "values", np.int32, low=0, high=len(distance.taxonomy) - 1)
        if not positions.size or np.diff(positions).min(initial=1) < 1:
            raise StatisticsError("the values of the model are not distinct")
        values.append(Values.of(distance, positions))
        frequent.append(read_array({"frequent": flags}, "frequent", np.uint8, positions.size, low=0, high=1) > 0)
    size, width = len(values[0]), len(values[1]) if len(values) == 2 else 1
    keys = np.cumsum(read_array(model, "keys", np.int64, low=0, high=size * width))
    if not keys.size or keys[-1] >= size * width or np.diff(keys).min(initial=1) < 1:
        raise StatisticsError("the tuples of the model are not distinct, or not allowed")
    counts = read_array(model, "counts", np.int64, keys.size, low=1)
    heavy = read_array(model, "heavy", np.uint8, keys.size, low=0, high=1) > 0
    rows, columns = (each.astype(np.int32) for each in np.divmod(keys, width))
    return Law(tuple(values), rows, columns, counts, heavy, tuple(frequent))


def _read_kernel(model: Mapping[str, Any], values: Values) -> Kernel:
    weights, levels = (
        read_array(model, name, np.float32, len(values), low=-GREATEST, high=GREATEST) for name in ("weights", "levels")
    )
    return Kernel(values, float(model["sharpness"]), weights, levels)


def _in_order(matrix: Float32Matrix, squares: Float32Matrix) -> tuple[UInt16Matrix, Float32Matrix]:
    """Return (k + 1, k) each: the order of candidates around each value, nearest first, and their own; K in this
    order, and 1."""
    order = np.argsort(squares, axis=1, kind="stable")
    near = np.append(np.take_along_axis(matrix, order, 1), np.ones_like(matrix[:1]), axis=0)
    return np.append(order, np.arange(len(order))[None], axis=0).astype(np.uint16), near


class PairLaw(NamedTuple):
    """P(a*, b* | a, b) of t pairs (``risk.law.MaskLaw``).

    ``rows``, ``columns``: (t,) the indices of their values.
    """

    transport: Transport
    rows: Indices
    columns: Indices

    def likelihoods(self, masked: Sequence[tuple[int, ...]]) -> Float64Matrix:
        """Return (n, t) float64: the probability of each of n masked pairs, as positions, given each pair."""
        masks = zip(self.transport.values, np.array(masked).T, strict=True)
        x, y = (v.indices(codes)[:, None] for v, codes in masks)
        return self.transport.likelihood(self.rows, self.columns, x, y)


class AttributeLaw(NamedTuple):
    """The joint law of an attribute's value, and of its own mask, or all masks of its record.

    ``sides``: what masks it, in different records. ``positions``: (k,) int32 those of all values and masks.
    """

    sides: Sequence[Side]
    positions: Int32Array

    @classmethod
    def of(cls, sides: Sequence[Side]) -> AttributeLaw:
        return cls(sides, np.unique(np.concatenate([side.values.positions for side in sides])))

    @property
    def joint(self) -> Float64Matrix:
        """(k, k) float64 P(x, x*)."""
        result = np.zeros((self.positions.size,) * 2)
        for side, places, share in self._parts():
            result[np.ix_(places, places)] += side.joint() * share
        return result

    def blocks(self) -> tuple[Iterator[Float64Matrix], bool]:
        """Return the law with all masks of the record in blocks of columns, (k, m) each, and whether those are drawn by
        their chance."""
        found = [(places, share, *side.blocks()) for side, places, share in self._parts()]
        return self._scattered([each[:3] for each in found]), any(drawn for *_, drawn in found)

    @property
    def greatest(self) -> float:
        """What no posterior of a value exceeds."""
        return max(side.greatest for side in self.sides)

    def _parts(self) -> Iterator[tuple[Side, Int64Array, float]]:
        """Yield each side, the places of its values, and its share of the records."""
        total = sum(side.records for side in self.sides)
        for side in self.sides:
            yield side, np.searchsorted(self.positions, side.values.positions), side.records / total

    def _scattered(self, parts: Sequence[tuple[Int64Array, float, Iterator[Float64Matrix]]]) -> Iterator[Float64Matrix]:
        for places, share, blocks in parts:
            for block in blocks:
                wide = np.zeros((self.positions.size, block.shape[1]))
                wide[places] = block * share
                yield wide


class Stratum(NamedTuple):
    """The records of a context, or of all (``EVERY``), with one pattern of missing attributes.

    ``maps``: theirs; empty if they are too few. They are then masked as those of all contexts, or else independently of
    their values.
    """

    context: int
    pattern: int
    records: int
    maps: tuple[Transport, ...]

    def packed(self) -> dict[str, Any]:
        """Return what is published."""
        return self._asdict() | {"maps": [each.packed() for each in self.maps]}

    @classmethod
    def read(cls, model: Mapping[str, Any], distances: Sequence[Distance]) -> Stratum:
        """Return what ``packed`` returned. Raises StatisticsError, or another error, if it is not valid."""
        maps = tuple(Transport.read(each, distances) for each in model["maps"])
        made = cls(int(model["context"]), int(model["pattern"]), int(model["records"]), maps)
        masked = sorted(j for each in maps for j, _ in each.sides(0))
        if maps and masked != [j for j in range(len(distances)) if not made.pattern >> j & 1]:
            raise StatisticsError("the model's maps are not of the attributes of their records")
        return made


@dataclass(frozen=True, eq=False)
class Maps:
    """The maps of a window in use. ``hidden``: of each attribute. ``noise``: (p,) α·sdVar. ``contexts``: whether there
    are any."""

    distances: tuple[Distance, ...]
    strata: tuple[Stratum, ...]
    hidden: tuple[Transport, ...]
    noise: Float64Array
    contexts: bool

    @classmethod
    def read(
        cls, model: Mapping[str, Any], context: Sequence[Any], distances: tuple[Distance, ...], noise: Float64Array
    ) -> Maps:
        """Return the maps of a model. Raises StatisticsError if it is not valid, or of other contexts.

        ``context``: the contexts of the mechanism.
        """
        if read_model_field(model, "context") != context:
            raise StatisticsError("the model's contexts are not those of this mechanism")
        try:
            strata = tuple(Stratum.read(each, distances) for each in model["strata"])
            laws = [_read_law(each, [d]) for each, d in zip(model["hidden"], distances, strict=True)]
            hidden = tuple(Transport.independent(j, law) for j, law in enumerate(laws))
        except (TypeError, ValueError, KeyError, IndexError, AttributeError) as error:
            raise StatisticsError(f"the model does not have the expected format ({type(error).__name__})") from None
        return cls(distances, strata, hidden, noise, bool(context))

    @cached_property
    def _maps(self) -> dict[tuple[int, int], tuple[Transport, ...]]:
        return {(each.context, each.pattern): each.maps for each in self.strata}

    def maps(self, context: int, pattern: int) -> tuple[Transport, ...]:
        """Return the maps by which records are masked; none if they are masked independently of their values."""
        return self._maps.get((context, pattern)) or self._maps.get((EVERY, pattern)) or ()

    def mask(self, batch: Batch, words: Sequence[UInt64Array]) -> MaskedBatch:
        """Mask encoded records; ``words``: one random word for each value of each column."""
        masks, truncated = [np.full(column.codes.size, -1, np.int32) for column in batch.columns], [0] * self.noise.size
        context = np.full(batch.size, EVERY) if batch.context is None else batch.context
        absent = [(column.present_lengths == 0).astype(np.int64) << j for j, column in enumerate(batch.columns)]
        keys, which = np.unique(context << len(absent) | np.sum(absent, axis=0), return_inverse=True)
        for k, key in enumerate(keys.tolist()):
            cells = [_Cells.of(column, which == k, each) for column, each in zip(batch.columns, words, strict=True)]
            maps = self.maps(key >> len(absent), key & ((1 << len(absent)) - 1))
            for j, drawn, wanted in _drawn(maps, cells, self.hidden):
                masks[j][cells[j].places] = drawn
                truncated[j] += drawn.size if wanted < self.noise[j] * (1.0 - 1e-9) else 0
        parts = zip(batch.columns, masks, self.distances, truncated, self.noise.tolist(), strict=True)
        columns = tuple(Column(new, old.offsets) for old, new in zip(batch.columns, masks, strict=True))
        found = ((distortion_of(old.codes, new, d, truncated=n), noise) for old, new, d, n, noise in parts)
        return MaskedBatch(columns, tuple(replace(one, squared_noise=one.values * noise) for one, noise in found))

    @property
    def unchanged(self) -> float | None:
        """The share of records none of whose values is changed; None where that is not known."""
        found = [(m.unchanged, each.records) for each in self.strata for m in each.maps]
        if not found or any(share is None for share, _ in found):
            return None
        return sum(share * n for share, n in found if share is not None) / sum(n for _, n in found)

    def sides(self, j: int) -> list[Side]:
        """Return what masks attribute j."""
        result = []
        for each in self.strata:
            if each.pattern >> j & 1 or (each.context == EVERY) is self.contexts:
                continue
            maps = self.maps(each.context, each.pattern) or (self.hidden[j],)
            result += [side for m in maps for attribute, side in m.sides(each.records) if attribute == j]
        return result


class _Cells(NamedTuple):
    """The present values of some records in a column: their places in it, their codes and words; ``lengths``: of each
    record."""

    places: Int64Array
    codes: Int32Array
    words: UInt64Array
    lengths: Int64Array

    @classmethod
    def of(cls, column: Column, records: NDArray[np.bool_], words: UInt64Array) -> _Cells:
        places = np.flatnonzero(column.of_records(records) & (column.codes >= 0))
        return cls(places, column.codes[places], words[places], column.present_lengths[records])


def _drawn(
    maps: Sequence[Transport], cells: Sequence[_Cells], hidden: Sequence[Transport]
) -> Iterator[tuple[int, Int32Array, float]]:
    """Draw the masks of the records of a stratum; yield each attribute with its masks, and the E[d²] that is asked for
    as far as the window allows it."""
    left = {j: own for j, own in enumerate(cells) if own.places.size}
    for each in maps:
        own = [left.pop(j) for j in each.attributes]
        drawn = each.draw([c.codes for c in own], [c.words for c in own])
        yield from zip(each.attributes, drawn, each.wanted, strict=True)
        for given in each.given:
            other = left.pop(given.attribute)
            new = given.draw(own[0].codes, drawn[0], other.codes, other.words, other.lengths)
            yield given.attribute, new, np.inf
    for j, own_cells in left.items():
        yield j, hidden[j].draw([own_cells.codes], [own_cells.words])[0], np.inf
